"""Room kept back on the disk, so that what is already paid for can still be stored when the disk is full."""

import contextlib
import os
from pathlib import Path

RESERVE_BYTES = 4 * 1024 * 1024


class Reserve:
    """A file of fixed size beside the databases. Given up at the first write that finds no room."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.released = False

    def fill(self) -> None:
        """Make the file if it is not there. No room for it is no error: then there is no reserve."""
        if self._path.exists():
            self.released = False
            return
        part = self._path.with_name(f"{self._path.name}.{os.getpid()}")
        try:
            with part.open("wb") as file:
                file.write(bytes(RESERVE_BYTES))
            part.replace(self._path)
            self.released = False
        except OSError:
            with contextlib.suppress(OSError):
                part.unlink()

    def release(self) -> bool:
        """Give the room up; False when that was done since the last `fill`, or there was none."""
        if self.released:
            return False
        self.released = True
        try:
            self._path.unlink()
        except OSError:
            return False
        return True
