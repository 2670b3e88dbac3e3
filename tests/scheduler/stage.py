"""A job on a real store with workers that a test scripts, and a clock that it moves."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from rowcrew.domain.job import Job, JobSettings, RetryPolicy
from rowcrew.domain.prompt import Template
from rowcrew.domain.schema import OutputSchema
from rowcrew.processes import ProcessIdentity
from rowcrew.scheduler.context import RunContext
from rowcrew.scheduler.holds import ProviderHolds
from rowcrew.scheduler.lease import HeldLease
from rowcrew.scheduler.progress import Progress, ProgressMeter
from rowcrew.scheduler.runner import JobRunner
from rowcrew.store.jobs import JobStore
from rowcrew.testing.fake_clock import FakeClock
from rowcrew.workers.contract import Ended, Worker, WorkOrder
from tests.store.job_store import JOB, Store, new_job, open_store, specs

Script = Callable[[WorkOrder], Awaitable[Ended]]


class ScriptedWorker:
    """Runs a test's script as its work."""

    process: ProcessIdentity | None = None

    def __init__(self, kind: "ScriptedKind", order: WorkOrder) -> None:
        self._kind = kind
        self._order = order
        self._task: asyncio.Task[Ended] | None = None

    async def work(self) -> Ended:
        self._kind.say("work", self._order)
        self._task = asyncio.ensure_future(self._kind.script(self._order))
        try:
            return await self._task
        except asyncio.CancelledError:
            if asyncio.current_task().cancelling():  # type: ignore[union-attr]
                raise
            return Ended()

    async def end(self, grace: float) -> None:
        self._kind.say("end", self._order)
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})


@dataclass
class ScriptedKind:
    """A worker kind whose starts and works are scripted. `log` is what happened, in order."""

    script: Script
    on_start: Callable[[WorkOrder], Awaitable[None]] | None = None
    max_concurrency: int | None = None
    starts_at_once: ClassVar[bool] = False
    log: list[str] = field(default_factory=list)
    stirred: asyncio.Event = field(default_factory=asyncio.Event)

    def say(self, what: str, order: WorkOrder) -> None:
        self.log.append(f"{what} {order.item_id}#{order.attempt}")
        self.stirred.set()

    async def until(self, entry: str) -> None:
        """Wait until `entry` is in the log."""
        async with asyncio.timeout(20):
            while entry not in self.log:
                self.stirred.clear()
                await self.stirred.wait()

    async def start(self, order: WorkOrder) -> Worker:
        self.say("start", order)
        if self.on_start is not None:
            await self.on_start(order)
        return ScriptedWorker(self, order)

    async def close(self) -> None:
        self.log.append("close")


@dataclass
class Stage:
    """One run under test."""

    store: Store
    clock: FakeClock
    run: RunContext
    runner: JobRunner
    progress: list[Progress]
    exported: list[str]

    async def job(self) -> Job:
        return await self.store.jobs(lambda jobs: jobs.get(JOB))

    async def statuses(self) -> dict[str, str]:
        return dict(await self.store.sql("SELECT item_id, status FROM agent_job_items ORDER BY row_index"))

    async def attempts(self) -> dict[str, int]:
        return dict(
            await self.store.sql("SELECT item_id, attempt_count FROM agent_job_items ORDER BY row_index")
        )

    async def errors(self) -> dict[str, tuple[str | None, str | None]]:
        rows = await self.store.sql("SELECT item_id, error_class, last_error FROM agent_job_items")
        return {row[0]: (row[1], row[2]) for row in rows}


@asynccontextmanager
async def staged(
    folder: Path,
    kind: ScriptedKind,
    *,
    rows: int = 3,
    capacity: int = 2,
    schema: dict[str, object] | None = None,
    settings: JobSettings | None = None,
) -> AsyncIterator[Stage]:
    """A job of `rows` rows (r0, r1, …), leased and running in the store; the runner not started yet."""
    settings = settings or JobSettings(worker="scripted", max_runtime_seconds=60, retry=RetryPolicy(3, 1, 4))
    async with open_store(folder) as store:
        clock = FakeClock()
        job = new_job(settings=settings, output_schema=schema, instruction="do {text}")
        await store.jobs(lambda jobs: jobs.create(job, specs(rows), now=clock.now_ms()))
        epoch = await store.run_job()
        progress: list[Progress] = []
        exported: list[str] = []
        run = RunContext(
            database=store.database,
            clock=clock,
            home=folder,
            job=await store.jobs(lambda jobs: jobs.get(JOB)),
            epoch=epoch,
            kind=kind,
            holds=ProviderHolds(),
            template=Template.parse("do {text}", ("id", "text")),
            schema=None if schema is None else OutputSchema.parse(schema),
            capacity=capacity,
        )
        lease = HeldLease(store.database, clock, JOB, "me", epoch)
        meter = ProgressMeter(progress.append, done_before=0, now=clock.monotonic())

        async def export() -> None:
            state = await store.jobs(lambda jobs: jobs.status_of(JOB))
            exported.append(str(state.status))

        yield Stage(store, clock, run, JobRunner(run, lease, meter, export), progress, exported)


def job_store(stage: Stage) -> Callable[[Callable[[JobStore], object]], Awaitable[object]]:
    return stage.store.jobs
