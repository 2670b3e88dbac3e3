"""One run of one job, from running to final or paused. It carries out the rules of domain/plan.py."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeVar

from rowcrew.domain.ids import new_id
from rowcrew.domain.item import JobItem
from rowcrew.domain.job import PausedReason
from rowcrew.domain.plan import (
    TICK,
    Action,
    Finish,
    Launch,
    Reap,
    Reclaim,
    Rescue,
    Teardown,
    View,
    Wait,
    next_actions,
)
from rowcrew.errors import DiskFull, LeaseLost, RowcrewError
from rowcrew.scheduler.attempts import GRACE, Attempts
from rowcrew.scheduler.context import RunContext
from rowcrew.scheduler.lease import HeldLease
from rowcrew.scheduler.progress import ProgressMeter
from rowcrew.scheduler.rescue import rescue
from rowcrew.scheduler.slots import Slots
from rowcrew.store.database import Connection
from rowcrew.store.job_items import JobItemStore
from rowcrew.store.jobs import JobState, JobStore

T = TypeVar("T")

# Workers that talk on after the last report: the job does not wait longer for them.
LAST_GRACE = 2.0
# Rows may become pending by another process's hand (`retry`); so often an idle runner looks for them.
LOOK_AGAIN = 1.0

DISK_FULL = "the disk is full; results are safe, free some space and resume"


class JobRunner:
    """Runs a job whose lease this process holds. `export` writes the table and may raise RowcrewError."""

    def __init__(
        self,
        run: RunContext,
        lease: HeldLease,
        progress: ProgressMeter,
        export: Callable[[], Awaitable[object]],
    ) -> None:
        self._run = run
        self._lease = lease
        self._progress = progress
        self._export = export
        self._slots = Slots()
        self._attempts: Attempts | None = None
        self._interrupted = False
        self._stored: dict[str, str | None] | None = None
        self._looked_at = 0.0
        self._state: JobState = self._peek()

    def interrupt(self) -> None:
        """Stop claiming, end the workers, release their job items, pause."""
        self._interrupted = True
        self._run.wake.set()

    def abort(self) -> None:
        """As interrupt, with no grace for anyone."""
        self.interrupt()
        if self._attempts is not None:
            self._attempts.abort()

    async def run(self) -> None:
        """Until the job is final or paused. Raises LeaseLost or StoreError when the engine cannot go on."""
        async with asyncio.TaskGroup() as group:
            keeper = group.create_task(self._keep_lease())
            self._attempts = Attempts(self._run, group, self._slots)
            try:
                await self._rescue()
                actions = next_actions(self._view())
                while not isinstance(actions[0], Finish):
                    for action in actions:
                        await self._carry_out(action, self._attempts)
                    actions = next_actions(self._view())
                await self._finish(self._attempts)
            except RowcrewError as error:
                self._run.break_off(error)
                await self._end_after_error(self._attempts)
            finally:
                keeper.cancel()
        if self._run.error is not None and not isinstance(self._run.error, DiskFull):
            raise self._run.error

    async def _keep_lease(self) -> None:
        try:
            await self._lease.keep()
        except RowcrewError as error:
            self._run.break_off(error)

    # -- looking ----------------------------------------------------------------------------------------

    def _peek(self) -> JobState:
        return self._run.database.peek(lambda connection: JobStore(connection).status_of(self._run.job.id))

    def _view(self) -> View:
        run = self._run
        now = run.clock.monotonic()
        state = self._state = self._peek()
        if now - self._looked_at >= TICK:
            # Only another process changes job items behind our back; asking ten times a second will do.
            self._looked_at = now
            self._stored = run.database.peek(
                lambda connection: JobItemStore(connection).list_running(run.job.id)
            )
        else:
            self._stored = None
        held_until = run.holds.until(run.provider)
        self._progress.show(
            state.counts, now=now, held_by="rate limit" if held_until > now and not self._slots.held else None
        )
        return View(
            now=now,
            status=state.status,
            pending=state.counts.pending,
            running=state.counts.running,
            capacity=run.capacity,
            slots=self._slots.as_view(self._stored),
            ready_at=run.ready_at if state.counts.pending else None,
            held_until=held_until,
            has_agent_room=run.no_room_until <= now,
            stopping=self._is_stopping(),
            torn_down=self._attempts is not None and self._attempts.winding_down,
        )

    def _is_stopping(self) -> bool:
        if self._run.database.out_of_room and self._run.error is None:
            self._run.error = DiskFull(DISK_FULL)
        return self._interrupted or self._run.error is not None

    # -- doing ------------------------------------------------------------------------------------------

    async def _carry_out(self, action: Action, attempts: Attempts) -> None:
        match action:
            case Launch(count):
                await self._launch(count, attempts)
            case Reap(item_ids):
                await attempts.reap(item_ids)
            case Reclaim(item_ids):
                attempts.reclaim(item_ids)
            case Rescue():
                await self._rescue()
            case Teardown():
                attempts.winding_down = True
                await attempts.end_all(GRACE)
            case Wait(seconds):
                await self._wait(seconds)
            case Finish():
                return

    async def _launch(self, count: int, attempts: Attempts) -> None:
        run = self._run
        claimed = await run.database.write(partial(self._claim, count))
        for item, thread_id, attempt in claimed:
            attempts.launch(item, thread_id=thread_id, attempt=attempt)
        if len(claimed) < count:
            now = run.clock.monotonic()
            ready_ms = run.database.peek(
                lambda connection: JobItemStore(connection).next_ready_at(run.job.id)
            )
            due = LOOK_AGAIN if ready_ms is None else max(0.0, (ready_ms - run.clock.now_ms()) / 1000)
            run.ready_at = now + min(LOOK_AGAIN, due + 0.001)

    def _claim(self, count: int, connection: Connection) -> list[tuple[JobItem, str, int]]:
        """(job item, thread id, number of the attempt) for each that was claimed; 0 where none is stored."""
        run, items = self._run, JobItemStore(connection)
        job_id, epoch, now = run.job.id, run.epoch, run.clock.now_ms()
        if run.kind.starts_at_once:
            return items.claim_assigned(job_id, limit=count, epoch=epoch, now=now)
        return [(item, new_id(), 0) for item in items.claim(job_id, limit=count, epoch=epoch, now=now)]

    async def _rescue(self) -> None:
        await rescue(self._run.database, self._run.clock, self._run.job, self._run.epoch)
        self._run.ready_in(0.0)

    async def _wait(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._run.wake.wait()
        except TimeoutError:
            return
        finally:
            self._run.wake.clear()

    # -- the end ----------------------------------------------------------------------------------------

    async def _finish(self, attempts: Attempts) -> None:
        """The rows are done, or the run was stopped: see the workers off, write the table, say so."""
        run = self._run
        if isinstance(run.error, LeaseLost):
            await attempts.end_all(0.0)
            return
        lingering = asyncio.create_task(attempts.end_all(LAST_GRACE))
        try:
            await self._pause_if_stopped()
            await self._write_table()
            await self._write(lambda jobs: jobs.complete(run.job.id, epoch=run.epoch, now=run.clock.now_ms()))
        finally:
            await lingering
        self._progress.show(self._peek().counts, now=run.clock.monotonic(), last=True)

    async def _pause_if_stopped(self) -> None:
        run = self._run
        counts = self._peek().counts
        if not (self._interrupted or run.error) or not (counts.pending or counts.running):
            return
        if isinstance(run.error, DiskFull):
            await self._pause(PausedReason.DISK_FULL, DISK_FULL)
        elif run.error is not None:
            raise run.error
        else:
            await self._pause(PausedReason.INTERRUPTED, "interrupted; resume goes on where it stopped")

    async def _write_table(self) -> None:
        """Export, where it was asked for. What stands in its way is the job's failure, not the rows'."""
        run = self._run
        if not run.job.auto_export:
            return
        await self._write(lambda jobs: jobs.status_of(run.job.id))  # who lost the lease writes no table
        try:
            await self._export()
        except DiskFull:
            await self._pause(PausedReason.DISK_FULL, DISK_FULL)
        except RowcrewError as error:
            await self._fail(
                f"the table could not be written: {error.message}."
                f" The results are safe: `rowcrew export {run.job.id[:8]} -o PATH`"
            )

    async def _fail(self, message: str) -> None:
        run = self._run
        await self._write(lambda jobs: jobs.fail(run.job.id, message=message, now=run.clock.now_ms()))

    async def _pause(self, reason: PausedReason, message: str) -> None:
        run = self._run
        await self._write(
            lambda jobs: jobs.pause(run.job.id, reason=reason, message=message, now=run.clock.now_ms())
        )

    async def _write(self, work: Callable[[JobStore], T]) -> T:
        """A write on the job itself, fenced by the lease."""
        run = self._run

        def fenced(connection: Connection) -> T:
            JobItemStore(connection).fence(run.job.id, run.epoch)
            return work(JobStore(connection))

        return await run.database.write(fenced)

    async def _end_after_error(self, attempts: Attempts) -> None:
        """The engine itself failed. End the workers, and say so in the store if the store still listens."""
        attempts.winding_down = True
        error = self._run.error
        try:
            await attempts.end_all(0.0)
            if isinstance(error, DiskFull):
                await self._pause_if_stopped()
            elif error is not None and not isinstance(error, LeaseLost):
                await self._fail(f"the engine could not go on: {error.message}")
        except RowcrewError:
            # Then the store cannot be written. The job stays `running` without an owner: resume rescues it.
            return
