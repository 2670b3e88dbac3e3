"""A table onto the disk: written beside its target, synced, renamed. A crash leaves the old or the new."""

import codecs
import errno
import os
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
from rowcrew.scheduler.parts import part_beside, put_in_place

Format = Literal["csv", "jsonl"]


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
    first: bool = False,
) -> ExportResult:
    """Write all job items, streamed. Raises InvalidRequest as check_target does, and DiskFull.

    `force` allows to replace a file that is there. Whether it is this job's own earlier output, the caller
    knows (Job.output_is_ours, see tables.py) and passes `force` for it. `first`: it is about to be, and
    leaves its part until the caller has noted that.
    """
    source = Path(job.input_path)
    check_target(target, source, force=force)
    lines = _Counted(items)
    try:
        # Through a link the file behind it is replaced, as any other program would.
        real = Path(os.path.realpath(target))
        with part_beside(real, job.id) as (part, file):
            table = _lines(job, lines, expand=expand, raw=raw, output_format=output_format)
            # The mark is for spreadsheets; before JSON it is an error.
            _write(file, table, bom=bom and output_format == "csv")
            # The writing may have taken long: what came to be there meanwhile is not to be lost.
            check_target(target, source, force=force)
            put_in_place(part, real, keep=first)
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
