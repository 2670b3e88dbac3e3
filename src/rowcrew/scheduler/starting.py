"""Starting a job in this process: its worker kind, its lease, its runner; and the runs that are under way."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from rowcrew.clock import Clock
from rowcrew.domain.ids import short
from rowcrew.domain.job import DEFAULT_MAX_CONCURRENCY, Job, JobSettings, Lease
from rowcrew.domain.prompt import Template
from rowcrew.domain.schema import OutputSchema
from rowcrew.errors import Conflict
from rowcrew.scheduler.collecting import sparing
from rowcrew.scheduler.context import RunContext
from rowcrew.scheduler.holds import ProviderHolds
from rowcrew.scheduler.lease import HeldLease, is_dead, new_claim
from rowcrew.scheduler.progress import Progress, ProgressMeter
from rowcrew.scheduler.rescue import end_lingering, rescue
from rowcrew.scheduler.runner import JobRunner
from rowcrew.scheduler.tables import write_job_table
from rowcrew.scheduler.views import JobResult, result_of
from rowcrew.store.database import Connection, Database
from rowcrew.store.jobs import JobStore
from rowcrew.workers.contract import WorkerKind
from rowcrew.workers.kinds import Surroundings, open_kind


@dataclass(slots=True)
class JobRun:
    """A job that runs in this process."""

    job_id: str
    _database: Database
    _runner: JobRunner
    _task: asyncio.Task[None]

    async def done(self) -> JobResult:
        """When the run has ended: the job is final or paused. Raises LeaseLost, StoreError."""
        # Whoever stops waiting does not stop the run.
        await asyncio.shield(self._task)
        return await self._database.read(lambda connection: result_of(connection, self.job_id))

    @property
    def is_over(self) -> bool:
        return self._task.done()

    def interrupt(self) -> None:
        """Stop claiming, end the workers within their grace, release what they did not report, pause."""
        self._runner.interrupt()

    def abort(self) -> None:
        """As interrupt, with no grace."""
        self._runner.abort()


@dataclass(slots=True)
class Starter:
    """What it takes to run jobs in this process."""

    database: Database
    clock: Clock
    home: Path
    holds: ProviderHolds
    max_threads: int | None
    max_depth: int
    model_providers: Mapping[str, Mapping[str, Any]]
    agents: Callable[[], Awaitable[Any]] | None = None
    prices: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    _runs: dict[str, JobRun] = field(default_factory=dict)

    def surroundings(self, settings: JobSettings, asked: int | None = None) -> Surroundings:
        """What a worker kind is given. The concurrency is min(asked or 64, agents.max_threads)."""
        wanted = asked or settings.max_concurrency or DEFAULT_MAX_CONCURRENCY
        return Surroundings(
            home=self.home,
            concurrency=min(wanted, self.max_threads or wanted),
            model_providers=self.model_providers,
            max_threads=self.max_threads,
            max_depth=self.max_depth,
            agents=self.agents,
            prices=self.prices,
            backlog=self.database.backlog,
        )

    async def start(
        self,
        job: Job,
        *,
        max_concurrency: int | None,
        auto_export: bool | None,
        on_progress: Callable[[Progress], None] | None,
    ) -> JobRun:
        """Take the lease and run. See JobService.start."""
        self._refuse_if_running_here(job)
        await self.database.look_for_room()
        surroundings = self.surroundings(job.settings, max_concurrency)
        kind = await open_kind(job.settings, surroundings)
        try:
            lease = await self._take_lease(job, auto_export, starts=True)
        except BaseException:
            await kind.close()
            raise
        run = RunContext(
            database=self.database,
            clock=self.clock,
            home=self.home,
            job=self._get(job.id),
            epoch=lease.epoch,
            kind=kind,
            holds=self.holds,
            template=Template.parse(job.instruction, job.input_headers, allow_unknown=True),
            schema=None if job.output_schema is None else OutputSchema.parse(job.output_schema),
            capacity=max(1, min(surroundings.concurrency, kind.max_concurrency or surroundings.concurrency)),
        )
        done = run.job.counts.completed + run.job.counts.failed
        meter = ProgressMeter(on_progress, done_before=done, now=self.clock.monotonic())
        runner = JobRunner(run, lease, meter, lambda: self._export(job.id))
        task = asyncio.create_task(self._run(runner, lease, kind), name=f"job {job.id}")
        self._runs[job.id] = JobRun(job.id, self.database, runner, task)
        return self._runs[job.id]

    async def _run(self, runner: JobRunner, lease: HeldLease, kind: WorkerKind) -> None:
        try:
            with sparing():
                await runner.run()
        finally:
            try:
                await kind.close()
            finally:
                await lease.release()
                self._runs.pop(lease.job_id, None)

    async def _export(self, job_id: str) -> None:
        await write_job_table(self.database, self._get(job_id))

    async def settle_without_owner(self, job_id: str) -> None:
        """A stopped job that nobody runs: put right what a dead owner left, and write the partial table."""
        job = self._get(job_id)
        try:
            lease = await self._take_lease(job, None, starts=False)
        except Conflict:
            return  # someone else took it meanwhile, and settles it
        try:
            await rescue(self.database, self.clock, job, lease.epoch)
            if job.auto_export:
                await self._export(job_id)
        finally:
            await lease.release()

    async def forget(self, job_id: str) -> None:
        """Delete a job that nobody runs. Raises Conflict when someone does after all."""
        job = self._get(job_id)
        lease = await self._take_lease(job, None, starts=False)
        await rescue(self.database, self.clock, job, lease.epoch)
        await lease.release()
        await self.database.write(lambda connection: JobStore(connection).delete(job_id))

    def abort(self) -> None:
        """End the workers of all runs with no grace."""
        for run in self._runs.values():
            run.abort()

    async def close(self) -> None:
        """Interrupt all runs and wait for them."""
        runs = list(self._runs.values())
        for run in runs:
            run.interrupt()
        await asyncio.gather(*(run.done() for run in runs), return_exceptions=True)

    def _refuse_if_running_here(self, job: Job) -> None:
        if job.id in self._runs:
            raise Conflict(f"job {short(job.id)} is running here already", state="running_here")

    async def _take_lease(self, job: Job, auto_export: bool | None, *, starts: bool) -> HeldLease:
        claim, now = new_claim(self.clock), self.clock.now_ms()
        if job.lease is not None and is_dead(job.lease, self.clock):
            await end_lingering(self.database, job.id, owner=job.lease.owner)

        def take(connection: Connection) -> int | Lease | Literal["nothing_left"]:
            jobs = JobStore(connection)
            taken = jobs.take_lease(job.id, claim, now=now, is_dead=lambda held: is_dead(held, self.clock))
            if isinstance(taken, Lease) or not starts:
                return taken
            if not jobs.start(job.id, now=now):
                jobs.release_lease(job.id, epoch=taken, now=now)
                return "nothing_left"
            if auto_export is not None:
                jobs.set_auto_export(job.id, auto_export=auto_export, now=now)
            return taken

        taken = await self.database.write(take)
        if isinstance(taken, Lease):
            raise Conflict(
                f"job {short(job.id)} is running already, in process {taken.process.pid} on {taken.host}",
                state="running_elsewhere",
                hint=f"watch it: `rowcrew status {short(job.id)} --follow`",
            )
        if taken == "nothing_left":
            raise Conflict(
                f"job {short(job.id)} is {job.status} and has no row left to run",
                state="nothing_left",
                hint=f"`rowcrew retry {short(job.id)}` runs its failed rows again,"
                f" `rowcrew export {short(job.id)}` writes its table",
            )
        return HeldLease(self.database, self.clock, job.id, claim.owner, taken)

    def _get(self, job_id: str) -> Job:
        return self.database.peek(lambda connection: JobStore(connection).get(job_id))
