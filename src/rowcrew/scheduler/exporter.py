"""A table onto the disk: written beside its target, synced, renamed. A crash leaves the old or the new."""

import codecs
import contextlib
import errno
import fcntl
import itertools
import os
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Literal

from rowcrew.domain.export import cells, columns, csv_lines, record
from rowcrew.domain.ids import short
from rowcrew.domain.item import JobItem
from rowcrew.domain.job import Job
from rowcrew.domain.json_text import clean_text, compact
from rowcrew.domain.schema_document import property_names
from rowcrew.errors import DiskFull, InvalidRequest

Format = Literal["csv", "jsonl"]

_numbers = itertools.count(1)


@dataclass(frozen=True, slots=True)
class ExportResult:
    """A table that was written: where, and how many rows without the header."""

    path: Path
    row_count: int


def default_target(input_path: Path, job_id: str, output_format: Format) -> Path:
    """`<input stem>.agent-job-<first 8 of the job id>.csv` beside the input."""
    return input_path.with_name(f"{input_path.stem}.agent-job-{short(job_id)}.{output_format}")


def check_target(target: Path, input_path: Path, *, force: bool) -> None:
    """Can the table be written there? `force` allows to replace a file that is not the input.

    Raises InvalidRequest.
    """
    try:
        _check_target(target, input_path, force=force)
    except (OSError, ValueError) as error:  # a name too long, a folder that may not be searched; a NUL in it
        reason = error.strerror if isinstance(error, OSError) else error
        raise InvalidRequest(
            f"the output {target} cannot be written: {reason}", hint="give another `-o PATH`"
        ) from error


def _check_target(target: Path, input_path: Path, *, force: bool) -> None:
    folder = target.parent
    if not folder.is_dir():
        raise InvalidRequest(f"the folder {folder} for the output does not exist", hint="make it first")
    if target.is_dir():
        raise InvalidRequest(f"the output {target} is a folder", hint="give the path of a file")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise InvalidRequest(f"the folder {folder} cannot be written", hint="give another `-o PATH`")
    if _is_input(target, input_path):
        raise InvalidRequest(f"the output {target} is the input file itself", hint="give another `-o PATH`")
    if not (target.exists() or target.is_symlink()):
        return
    if target.exists() and not target.is_file():
        raise InvalidRequest(
            f"the output {target} is not a file: it is a device, a pipe or a socket",
            hint="give the path of a file",
        )
    if not force:
        raise InvalidRequest(
            f"the output {target} exists already",
            hint="give another `-o PATH`, or `--force` to replace it",
        )


def _is_input(target: Path, input_path: Path) -> bool:
    """Also through links, and by its name when the file is not there now."""
    if target.absolute() == input_path.absolute():
        return True
    try:
        return target.samefile(input_path)
    except OSError:
        return False


def write_table(
    job: Job,
    items: Iterable[JobItem],
    target: Path,
    *,
    force: bool,
    expand: bool,
    raw: bool,
    bom: bool,
    output_format: Format,
) -> ExportResult:
    """Write all job items, streamed. Raises InvalidRequest as check_target does, and DiskFull.

    `force` allows to replace a file that is there. Whether it is this job's own earlier output, the caller
    knows (Job.output_is_ours, see tables.py) and passes `force` for it.
    """
    source = Path(job.input_path)
    check_target(target, source, force=force)
    lines = _Counted(items)
    try:
        # Through a link the file behind it is replaced, as any other program would.
        real = Path(os.path.realpath(target))
        with _beside(real, job.id) as (part, file):
            table = _lines(job, lines, expand=expand, raw=raw, output_format=output_format)
            # The mark is for spreadsheets; before JSON it is an error.
            _write(file, table, bom=bom and output_format == "csv")
            # The writing may have taken long: what came to be there meanwhile is not to be lost.
            check_target(target, source, force=force)
            # There may be no file, or a link that leads round in a circle.
            with contextlib.suppress(OSError):
                part.chmod(stat.S_IMODE(real.stat().st_mode))
            part.replace(real)
        _sync_folder(real.parent)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise DiskFull(
                f"no room on the disk for {target}", hint="free some space, then export again"
            ) from error
        raise InvalidRequest(
            f"cannot write {target}: {error.strerror or error}", hint="give another `-o PATH`"
        ) from error
    return ExportResult(target, lines.count)


class _Counted:
    """Job items on their way, counted. One iteration."""

    def __init__(self, items: Iterable[JobItem]) -> None:
        self.count = 0
        self._items = items

    def __iter__(self) -> Iterator[JobItem]:
        for item in self._items:
            self.count += 1
            yield item


@contextlib.contextmanager
def _beside(target: Path, job_id: str) -> Iterator[tuple[Path, BinaryIO]]:
    """A new hidden file in the target's folder, gone afterwards unless it was renamed.

    Its name does not hold the target's, which may be as long as names can be; the number keeps two exports of
    one process apart. It is locked as long as it is in use, which is how a sweep knows what a crash left.
    """
    prefix = f".rowcrew-{short(job_id)}-"
    _sweep(target.parent, prefix)
    part = target.parent / f"{prefix}{os.getpid()}-{next(_numbers)}.part"
    try:
        with _new_and_locked(part) as file:
            yield part, file
    finally:
        part.unlink(missing_ok=True)


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


def _sweep(folder: Path, prefix: str) -> None:
    """Remove what killed exports of this job left in the folder."""
    for part in folder.glob(f"{prefix}*.part"):
        with contextlib.suppress(OSError):
            descriptor = os.open(part, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                part.unlink()
            finally:
                os.close(descriptor)


def _write(file: BinaryIO, lines: Iterator[str], *, bom: bool) -> None:
    if bom:
        file.write(codecs.BOM_UTF8)
    for line in lines:
        try:
            file.write(line.encode())
        except UnicodeEncodeError:
            # Results are cleaned when they are reported; a stray surrogate must not cost the whole table.
            file.write(clean_text(line).encode())
    file.flush()
    os.fsync(file.fileno())


def _lines(
    job: Job, items: Iterable[JobItem], *, expand: bool, raw: bool, output_format: Format
) -> Iterator[str]:
    expanded = () if job.output_schema is None or not expand else property_names(job.output_schema)
    shape = columns(job.input_headers, expanded)
    if output_format == "jsonl":
        for item in items:
            yield f"{compact(record(item, shape))}\n"
        return
    yield from csv_lines(iter([list(shape.names)]))
    yield from csv_lines(cells(item, shape, raw=raw) for item in items)


def _sync_folder(folder: Path) -> None:
    """The rename itself must be on the disk. Where a folder cannot be synced, it is as it is."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
