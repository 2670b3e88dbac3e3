"""The seam to operating-system processes: who one is, whether it lives, how to end what is left of it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ProcessIdentity:
    """One process, told apart from a later one with the same pid. `started` is opaque text."""

    pid: int
    started: str
    boot_id: str
