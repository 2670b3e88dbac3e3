"""A job's rows from the store into a file: where to, and whether a file there may be replaced."""

import asyncio
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from rowcrew.domain.ids import short
from rowcrew.domain.item import JobItem
from rowcrew.domain.job import Job
from rowcrew.errors import Interrupted
from rowcrew.scheduler.exporter import ExportResult, write_table
from rowcrew.scheduler.parts import forget_parts, was_put_by
from rowcrew.store.database import Connection, Database
from rowcrew.store.job_items import JobItemStore
from rowcrew.store.jobs import JobStore


def absolute(path: Path) -> Path:
    """The path from the root, with links as the user named them."""
    return Path(os.path.abspath(path.expanduser()))  # noqa: PTH100 - resolve() would follow links


def _own_target(job: Job, chosen: str) -> Path:
    """The job's output path; for another format than the job's, the same with that format's ending."""
    path = Path(job.output_path)
    return path if chosen == job.settings.output_format else path.with_suffix(f".{chosen}")


def _wanted(items: Iterator[JobItem], gone: threading.Event) -> Iterator[JobItem]:
    """The same as long as somebody waits for the table. Raises Interrupted."""
    for item in items:
        if gone.is_set():
            raise Interrupted("the table was not written to its end")
        yield item


async def write_job_table(
    database: Database,
    job: Job,
    *,
    path: Path | None = None,
    force: bool = False,
    output_format: Literal["csv", "jsonl"] | None = None,
    raw: bool | None = None,
    bom: bool | None = None,
    expand: bool | None = None,
) -> ExportResult:
    """Write the table as it stands. What is None is as the job has it. Raises InvalidRequest, DiskFull.

    A file at the job's own output path may be replaced when this job wrote it before, or was told to with
    force at its creation; so may one that carries the job's id in its name. Anything else is another's file.
    Cancelled, it stops writing, and what was there before stays.
    """
    settings = job.settings
    chosen = output_format or settings.output_format
    target = _own_target(job, chosen) if path is None else absolute(path)
    own = target == Path(job.output_path)
    if first := own and not job.output_is_ours:
        first = not await _note_unnoted(database, job, target)
    may_replace = force or (not first if own else path is None and short(job.id) in target.name)

    gone = threading.Event()

    def write(connection: Connection) -> ExportResult:
        return write_table(
            job,
            _wanted(JobItemStore(connection).iterate(job.id), gone),
            target,
            force=may_replace,
            expand=settings.expand if expand is None else expand,
            raw=settings.raw if raw is None else raw,
            bom=settings.bom if bom is None else bom,
            output_format=chosen,
            first=first and not force,
        )

    try:
        result = await database.read(write)
    except asyncio.CancelledError:
        gone.set()
        raise
    if first:
        await _note(database, job, target)
    return result


async def _note(database: Database, job: Job, target: Path) -> None:
    """The file at the job's own path is this job's, from now on."""
    await database.write(lambda connection: JobStore(connection).set_output_is_ours(job.id))
    await asyncio.to_thread(forget_parts, target, job.id)


async def _note_unnoted(database: Database, job: Job, target: Path) -> bool:
    """Note what a crash left without it. Whether there was such a file."""
    if found := await asyncio.to_thread(was_put_by, target, job.id):
        await _note(database, job, target)
    return found
