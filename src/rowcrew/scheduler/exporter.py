"""A table onto the disk: written beside its target, synced, renamed. A crash leaves the old or the new."""

import contextlib
import errno
import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from rowcrew.domain.export import cells, columns, csv_lines, record
from rowcrew.domain.ids import short
from rowcrew.domain.item import JobItem
from rowcrew.domain.job import Job
from rowcrew.domain.schema import OutputSchema
from rowcrew.errors import DiskFull, InvalidRequest

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
    folder = target.parent
    if not folder.is_dir():
        raise InvalidRequest(f"the folder {folder} for the output does not exist", hint="make it first")
    if target.is_dir():
        raise InvalidRequest(f"the output {target} is a folder", hint="give the path of a file")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise InvalidRequest(f"the folder {folder} cannot be written", hint="give another `-o PATH`")
    if target.exists() or target.is_symlink():
        with contextlib.suppress(OSError):
            if target.samefile(input_path):
                raise InvalidRequest(
                    f"the output {target} is the input file itself", hint="give another `-o PATH`"
                )
        if not force:
            raise InvalidRequest(
                f"the output {target} exists already",
                hint="give another `-o PATH`, or `--force` to replace it",
            )


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
    """Write all job items, streamed. Raises InvalidRequest as check_target does, and DiskFull."""
    check_target(target, Path(job.input_path), force=force)
    # Through a link the file behind it is replaced, as any other program would.
    real = target.resolve()
    part = real.with_name(f".{real.name}.{short(job.id)}.{os.getpid()}.part")
    count = 0

    def counted() -> Iterator[JobItem]:
        nonlocal count
        for item in items:
            count += 1
            yield item

    try:
        try:
            # Results are cleaned when they are reported; a stray surrogate must not cost the whole table.
            encoding = "utf-8-sig" if bom else "utf-8"
            with part.open("w", encoding=encoding, errors="replace", newline="") as file:
                file.writelines(_lines(job, counted(), expand=expand, raw=raw, output_format=output_format))
                file.flush()
                os.fsync(file.fileno())
            part.replace(real)
            _sync_folder(real.parent)
        except BaseException:
            part.unlink(missing_ok=True)
            raise
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise DiskFull(
                f"no room on the disk for {target}", hint="free some space, then export again"
            ) from error
        raise InvalidRequest(f"cannot write {target}: {error.strerror or error}") from error
    return ExportResult(target, count)


def _lines(
    job: Job, items: Iterator[JobItem], *, expand: bool, raw: bool, output_format: Format
) -> Iterator[str]:
    schema = None if job.output_schema is None or not expand else OutputSchema.parse(job.output_schema)
    shape = columns(job.input_headers, schema.properties if schema else ())
    if output_format == "jsonl":
        for item in items:
            yield json.dumps(record(item, shape), ensure_ascii=False, separators=(",", ":")) + "\n"
        return
    yield from csv_lines(iter([list(shape.names)]))
    yield from csv_lines(cells(item, shape, raw=raw) for item in items)


def _sync_folder(folder: Path) -> None:
    """The rename itself must be on the disk. Some file systems cannot sync a folder; then it is as it is."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):
            os.fsync(descriptor)
    finally:
        os.close(descriptor)
