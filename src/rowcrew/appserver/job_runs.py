"""The runs of jobs that this server started: their progress and their end, told to all clients. It runs none.

Discipline: one event loop. Each run has a task that awaits its end; `close` awaits them all.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import asdict

from rowcrew.appserver.entities import Wire
from rowcrew.appserver.job_protocol import FailedItem, JobCompletedNotification, JobProgressNotification
from rowcrew.errors import RowcrewError
from rowcrew.scheduler.progress import Progress
from rowcrew.scheduler.service import JobService
from rowcrew.scheduler.starting import JobRun
from rowcrew.scheduler.views import JobResult

log = logging.getLogger(__name__)


class JobRuns:
    """`tell` carries a notification to every client, `tell_loosely` one that a slow client may miss."""

    def __init__(
        self,
        jobs: JobService,
        *,
        tell: Callable[[str, Wire], None],
        tell_loosely: Callable[[str, Wire], None],
    ) -> None:
        self._jobs = jobs
        self._tell = tell
        self._tell_loosely = tell_loosely
        self._ends: set[asyncio.Task[None]] = set()

    async def start(self, job_id: str, *, max_concurrency: int | None, auto_export: bool | None) -> None:
        """Run a job and return at once. Raises as JobService.start."""
        run = await self._jobs.start(
            job_id,
            max_concurrency=max_concurrency,
            auto_export=auto_export,
            on_progress=lambda progress: self._tell_loosely("job/progress", _progress(job_id, progress)),
        )
        task = asyncio.create_task(self._await_end(run), name=f"end of job {job_id}")
        self._ends.add(task)
        task.add_done_callback(self._ends.discard)

    async def _await_end(self, run: JobRun) -> None:
        try:
            result = await run.done()
        except RowcrewError:
            # The store is in the way: what the job came to is asked for when it can be read again.
            log.exception("the end of a job could not be told")
            return
        self._tell("job/completed", _completed(result))

    async def close(self) -> None:
        """Interrupt what runs here (it can be resumed) and tell its end."""
        await self._jobs.close()
        if self._ends:
            await asyncio.wait(self._ends)


def _progress(job_id: str, progress: Progress) -> JobProgressNotification:
    return JobProgressNotification(
        job_id=job_id,
        total_items=progress.total,
        pending_items=progress.pending,
        running_items=progress.running,
        completed_items=progress.completed,
        failed_items=progress.failed,
        rate=progress.rate,
        eta_seconds=progress.eta_seconds,
        elapsed_seconds=round(progress.elapsed, 3),
        held_by=progress.held_by,
    )


def _completed(result: JobResult) -> JobCompletedNotification:
    values = asdict(result)
    failed = [FailedItem(**failure) for failure in values.pop("failed_item_errors")]
    return JobCompletedNotification(**values, failed_item_errors=failed)
