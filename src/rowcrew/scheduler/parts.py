"""A table in the making: a hidden file beside its target, locked while it is written. Knows no rows.

A crash between putting a table in place and noting in the store that it is the job's own would leave a file
of nobody's. So the first table at a job's own path keeps its part, as a second name of the same file, until
that is noted: whoever finds the two knows whose the table is.
"""

import contextlib
import fcntl
import itertools
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from rowcrew.domain.ids import short

_numbers = itertools.count(1)


@contextlib.contextmanager
def part_beside(target: Path, job_id: str) -> Iterator[tuple[Path, BinaryIO]]:
    """A new hidden file in the target's folder, gone afterwards unless it was put in place.

    Its name does not hold the target's, which may be as long as names can be; the number keeps two exports of
    one process apart. It is locked as long as it is in use, which is how a sweep knows what a crash left.
    """
    for old in _parts(target.parent, job_id):
        _sweep(old)
    part = target.parent / f"{_prefix(job_id)}{os.getpid()}-{next(_numbers)}.part"
    try:
        with _new_and_locked(part) as file:
            yield part, file
    finally:
        if not _same(part, target):
            part.unlink(missing_ok=True)


def put_in_place(part: Path, target: Path, *, keep: bool) -> None:
    """The part becomes the target, at once and whole. `keep`: only where no file is, with the part left."""
    # There may be no file, or a link that leads round in a circle.
    with contextlib.suppress(OSError):
        part.chmod(stat.S_IMODE(target.stat().st_mode))
    if keep:
        try:
            os.link(part, target)
        except FileExistsError:
            raise
        except OSError:  # a disk on which a file has one name
            part.replace(target)
    else:
        part.replace(target)
    _sync_folder(target.parent)


def was_put_by(target: Path, job_id: str) -> bool:
    """Has this job put the file there, without having noted it?"""
    real = Path(os.path.realpath(target))
    return any(_same(part, real) for part in _parts(real.parent, job_id))


def forget_parts(target: Path, job_id: str) -> None:
    """It is noted: the table needs no second name any more."""
    real = Path(os.path.realpath(target))
    for part in _parts(real.parent, job_id):
        if _same(part, real):
            part.unlink(missing_ok=True)


def _prefix(job_id: str) -> str:
    return f".rowcrew-{short(job_id)}-"


def _parts(folder: Path, job_id: str) -> list[Path]:
    try:
        return list(folder.glob(f"{_prefix(job_id)}*.part"))
    except OSError:
        return []


def _same(part: Path, target: Path) -> bool:
    try:
        return part.samefile(target)
    except OSError:
        return False


def _new_and_locked(part: Path) -> BinaryIO:
    while True:
        file = part.open("xb")
        # Where locks do not work, nothing is swept either.
        with contextlib.suppress(OSError):
            fcntl.flock(file, fcntl.LOCK_EX)
        # A sweep may have come between the two.
        if os.fstat(file.fileno()).st_nlink:
            return file
        file.close()


def _sweep(part: Path) -> None:
    """Remove what a killed export left; not a table's second name, nor what is being written."""
    with contextlib.suppress(OSError):
        descriptor = os.open(part, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.fstat(descriptor).st_nlink == 1:
                part.unlink()
        finally:
            os.close(descriptor)


def _sync_folder(folder: Path) -> None:
    """The rename itself must be on the disk. Where a folder cannot be synced, it is as it is."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
