"""The use cases around jobs, one method for each verb of a door. Doors add no rule of their own."""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from rowcrew.clock import Clock
from rowcrew.domain.ids import short
from rowcrew.domain.job import Job, JobStatus, PausedReason
from rowcrew.domain.json_text import clean_text
from rowcrew.domain.schema import OutputSchema
from rowcrew.errors import Conflict
from rowcrew.scheduler import creation
from rowcrew.scheduler.catalog import POLL_SECONDS, JobCatalog, check_can_exist
from rowcrew.scheduler.creation import JobRequest
from rowcrew.scheduler.exporter import ExportResult
from rowcrew.scheduler.holds import ProviderHolds
from rowcrew.scheduler.lease import is_held
from rowcrew.scheduler.progress import Progress
from rowcrew.scheduler.reports import Report, take
from rowcrew.scheduler.starting import JobRun, Starter
from rowcrew.scheduler.tables import write_job_table
from rowcrew.scheduler.views import JobView
from rowcrew.store.database import Connection, Database
from rowcrew.store.job_items import JobItemStore
from rowcrew.store.jobs import JobStore
from rowcrew.workers.contract import Verdict
from rowcrew.workers.kinds import open_kind

# An owner has its workers' grace and a little to let go after a cancel or pause.
LET_GO_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class CreatedJob:
    """A stored job, and what its creator should know about its table."""

    job: Job
    notices: tuple[str, ...]


class JobService(JobCatalog):
    """Jobs of one home. `max_threads` caps every job's concurrency where it is set.

    `agents` opens what all agents of the process share, when the first worker needs it.
    """

    def __init__(
        self,
        database: Database,
        clock: Clock,
        home: Path,
        *,
        max_threads: int | None = None,
        max_depth: int = 1,
        model_providers: Mapping[str, Mapping[str, Any]] | None = None,
        agents: Callable[[], Awaitable[Any]] | None = None,
        prices: Mapping[str, Mapping[str, float]] | None = None,
    ) -> None:
        super().__init__(database, clock)
        self._starter = Starter(
            database=database,
            clock=clock,
            home=home,
            holds=ProviderHolds(),
            max_threads=max_threads,
            max_depth=max_depth,
            model_providers=model_providers or {},
            agents=agents,
            prices=prices or {},
        )

    # -- creating and running ---------------------------------------------------------------------------

    async def preview(self, request: JobRequest, *, count: int = 3) -> list[tuple[str, str]]:
        """(item id, worker prompt) of the first rows; runs and stores nothing. Raises InvalidRequest."""
        return await creation.in_thread(lambda gone: creation.preview(request, count, gone))

    async def create_from_table(self, request: JobRequest) -> CreatedJob:
        """Check everything, then store the job whole. Raises InvalidRequest, Conflict (unfinished twin)."""
        prepared = await creation.in_thread(lambda gone: creation.prepare(request, gone))
        kind = await open_kind(request.settings, self._starter.surroundings(request.settings))
        await kind.close()
        job_id = await creation.store(self._database, self._clock, request, prepared)
        return CreatedJob(self.get(job_id), prepared.table.notices)

    async def start(
        self,
        job_id: str,
        *,
        max_concurrency: int | None = None,
        auto_export: bool | None = None,
        on_progress: Callable[[Progress], None] | None = None,
    ) -> JobRun:
        """Run or resume the job in this process. Returns at once; `done()` of what it returns waits.

        Raises NotFound; Conflict when it runs elsewhere (naming the owner) or nothing is left to do;
        InvalidRequest when its worker cannot be made ready (a missing key).
        """
        return await self._starter.start(
            self.get(job_id),
            max_concurrency=max_concurrency,
            auto_export=auto_export,
            on_progress=on_progress,
        )

    def abort(self) -> None:
        """End the workers of what runs here at once. `close` still waits until it has let go."""
        self._starter.abort()

    async def close(self) -> None:
        """Interrupt what runs here and wait until it has let go."""
        await self._starter.close()

    async def input_changed(self, job_id: str) -> bool:
        """Is the input file another than at creation, or gone? The job does not care: its rows are frozen."""
        job = self.get(job_id)
        path = Path(job.input_path)

        def changed() -> bool:
            try:
                if path.stat().st_size != job.input_size:
                    return True
                digest = hashlib.sha256()
                for chunk in creation.read_chunks(path):
                    digest.update(chunk)
            except OSError:
                return True
            return digest.hexdigest() != job.input_digest

        return await asyncio.to_thread(changed)

    # -- ending -----------------------------------------------------------------------------------------

    async def cancel(self, job_id: str) -> JobView:
        """→ cancelled, from any process. Waits until its runner has let go. Idempotent.

        Raises NotFound, and Conflict when the job has ended otherwise.
        """
        job = self.get(job_id)
        left = job.counts.pending + job.counts.running
        message = f"cancelled by the user; {left} of {job.counts.total} rows were not finished"
        return await self._stop(
            job,
            JobStatus.CANCELLED,
            lambda jobs: jobs.cancel(job_id, message=message, now=self._clock.now_ms()),
        )

    async def pause(self, job_id: str) -> JobView:
        """→ paused (`user`), from any process. Waits until its runner has let go. Idempotent.

        Raises NotFound, and Conflict when the job is final.
        """
        job = self.get(job_id)
        return await self._stop(
            job,
            JobStatus.PAUSED,
            lambda jobs: jobs.pause(
                job_id,
                reason=PausedReason.USER,
                message="paused by the user; resume goes on",
                now=self._clock.now_ms(),
            ),
        )

    async def _stop(self, job: Job, wanted: JobStatus, move: Callable[[JobStore], bool]) -> JobView:
        moved = await self._database.write(lambda connection: move(JobStore(connection)))
        status = self.get(job.id).status
        if not moved and status is not wanted:
            raise Conflict(
                f"job {short(job.id)} is {status} already",
                state=str(status),
                hint=f"`rowcrew status {short(job.id)}` shows it",
            )
        deadline = self._clock.monotonic() + LET_GO_SECONDS
        while is_held(self.get(job.id).lease, self._clock):
            if self._clock.monotonic() >= deadline:
                break
            await self._clock.sleep(POLL_SECONDS)
        else:
            if moved:
                await self._starter.settle_without_owner(job.id)
        return await self.view(job.id)

    async def retry_failed(self, job_id: str, item_ids: Sequence[str] = ()) -> int:
        """failed → pending, all or some. How many moved. Raises NotFound for an unknown job item."""
        self.get(job_id)

        def retry(connection: Connection) -> int:
            items, now = JobItemStore(connection), self._clock.now_ms()
            if not item_ids:
                return items.retry_failed(job_id, None, now=now)
            moved = 0
            for item_id in item_ids:
                check_can_exist(job_id, item_id)
                items.get(job_id, item_id)
                moved += items.retry_failed(job_id, item_id, now=now)
            return moved

        return await self._database.write(retry)

    async def report(
        self, job_id: str, item_id: str, *, thread_id: str, result: object, stop: bool = False
    ) -> Verdict:
        """A worker's report from outside the runner's process. Raises NotFound for an unknown job."""
        job = self.get(job_id)
        schema = None if job.output_schema is None else OutputSchema.parse(job.output_schema)
        # What is no UTF-8 names nothing in the store, and neither does what it becomes here.
        report = Report(job.id, clean_text(item_id), clean_text(thread_id), result, stop=stop)
        return await take(self._database, report, schema, now=self._clock.now_ms())

    async def export(
        self,
        job_id: str,
        *,
        path: Path | None = None,
        force: bool = False,
        output_format: Literal["csv", "jsonl"] | None = None,
        raw: bool | None = None,
        bom: bool | None = None,
        expand: bool | None = None,
    ) -> ExportResult:
        """Write the table as it stands, in any state. What is None is as the job has it."""
        return await write_job_table(
            self._database,
            self.get(job_id),
            path=path,
            force=force,
            output_format=output_format,
            raw=raw,
            bom=bom,
            expand=expand,
        )

    async def remove(self, job_id: str) -> None:
        """Delete the job with its rows. Raises NotFound, and Conflict while it runs."""
        job = self.get(job_id)
        if is_held(job.lease, self._clock):
            raise Conflict(
                f"job {short(job_id)} is running",
                state=str(job.status),
                hint=f"`rowcrew cancel {short(job_id)}` first",
            )
        await self._starter.forget(job_id)
