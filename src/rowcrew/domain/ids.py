"""Names of jobs and threads. It knows how they look, not where they are kept."""

import random
import uuid

# Seeded by the system once: a system call for each of a row's several ids would give up the interpreter's
# lock each time. An instance of its own, because a row's function may well seed the shared one.
_source = random.Random()  # noqa: S311 - ids are names, no secrets


def new_id() -> str:
    """A random UUID as text: what jobs and threads are named by."""
    return str(uuid.UUID(int=_source.getrandbits(128), version=4))


def short(identifier: str) -> str:
    """The first eight characters, as shown to people and used in file names."""
    return identifier[:8]
