"""Attempts of one run: start a worker, store the attempt, let it work, settle how it ended.

Discipline: every attempt is one task of the run's TaskGroup, from the claim until its worker has ended. Moves
in the store are guarded by the thread id, so an attempt that was reaped, reported or released elsewhere is
not moved twice, whatever order things end in. What to launch or end, and when, is the plan's to say.
"""

import asyncio
from collections.abc import Iterable

from rowcrew.domain.attempt import Usage
from rowcrew.domain.item import JobItem
from rowcrew.domain.job import PausedReason
from rowcrew.domain.prompt import worker_prompt
from rowcrew.domain.retry import PauseJob, Release, Retry, after
from rowcrew.domain.retry import Verdict as RetryVerdict
from rowcrew.errors import DiskFull, ErrorClass, LeaseLost, LimitReached, RowcrewError
from rowcrew.scheduler.context import RunContext
from rowcrew.scheduler.reports import Report, take
from rowcrew.scheduler.slots import Slot, Slots
from rowcrew.store.database import Connection
from rowcrew.store.endings import NO_USAGE, AttemptEnd
from rowcrew.store.job_items import JobItemStore
from rowcrew.store.jobs import JobStore
from rowcrew.workers.contract import Ended, Verdict, Worker, WorkOrder

GRACE = 5.0
# After an interrupt nothing waits longer than the grace and this.
FORCE = 2.0
NO_ROOM_WAIT = 0.25
DISK_FULL_TRIES = 10
NO_REPORT = "worker finished without calling report_agent_job_result"


class Attempts:
    """The attempts of one run. `winding_down`: what ends now is released, not judged."""

    def __init__(self, run: RunContext, group: asyncio.TaskGroup, slots: Slots) -> None:
        self._run = run
        self._group = group
        self._slots = slots
        self._aborted = asyncio.Event()
        self.winding_down = False

    # -- what the runner asks for -----------------------------------------------------------------------

    def launch(self, item: JobItem, *, thread_id: str, attempt: int = 0) -> None:
        """Begin an attempt at a claimed job item; `attempt` is its number where it is stored already.

        Returns at once.
        """
        deadline = self._run.clock.monotonic() + self._run.job.settings.max_runtime_seconds
        slot = Slot(item, thread_id, deadline, attempt=attempt)
        self._slots.hold(slot)
        slot.task = self._group.create_task(self._live(slot))

    async def reap(self, item_ids: Iterable[str]) -> None:
        """The attempts at these job items have run too long: settle them now, end their workers behind."""
        await asyncio.gather(*(self._reap(self._slots.held[item_id]) for item_id in item_ids))

    def reclaim(self, item_ids: Iterable[str]) -> None:
        """Free the job slots of job items that are no longer running; their workers have a grace to end."""
        for item_id in item_ids:
            slot = self._slots.held[item_id]
            self._slots.give_back(slot)
            if slot.worker is not None:
                self._group.create_task(self._see_off(slot))

    async def end_all(self, grace: float) -> None:
        """End every worker within `grace` seconds and a little, and release what has not reported."""
        slots = self._slots.all()
        workers = [slot.worker for slot in slots if slot.worker is not None]
        ends = [self._group.create_task(worker.end(grace)) for worker in workers]
        for slot in slots:
            if slot.worker is None and slot.task is not None:
                slot.task.cancel()
        tasks = {slot.task for slot in slots if slot.task is not None}
        aborted = asyncio.create_task(self._aborted.wait())
        deadline = self._run.clock.monotonic() + grace + FORCE
        while tasks and not aborted.done() and (left := deadline - self._run.clock.monotonic()) > 0:
            done, _ = await asyncio.wait({*tasks, aborted}, timeout=left, return_when=asyncio.FIRST_COMPLETED)
            tasks -= done
        if aborted.done():
            for end in ends:
                end.cancel()
            for worker in workers:
                self._group.create_task(worker.end(0.0))
        aborted.cancel()
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=FORCE)
        for slot in slots:
            await self._release_if_held(slot)

    def abort(self) -> None:
        """Let nobody have a grace any more."""
        self._aborted.set()

    # -- the life of an attempt -------------------------------------------------------------------------

    async def _live(self, slot: Slot) -> None:
        try:
            worker = await self._start(slot)
            if worker is not None and await self._assign(slot, worker):
                await self._settle(slot, await self._work(slot, worker))
        except RowcrewError as error:
            self._run.break_off(error)
        finally:
            if self._slots.forget(slot):
                self._run.wake.set()

    async def _start(self, slot: Slot) -> Worker | None:
        run = self._run
        try:
            slot.worker = await run.kind.start(self._order(slot))
        except LimitReached:
            run.no_room_until = run.clock.monotonic() + NO_ROOM_WAIT
            await self._release(slot, delay=0.0)
            return None
        except Exception as error:
            await self._start_failed(slot, ErrorClass.START_FAILED, f"worker could not start: {said(error)}")
            return None
        return slot.worker

    async def _assign(self, slot: Slot, worker: Worker) -> bool:
        attempt = slot.attempt or await self._store_attempt(slot, worker)
        if attempt is None or self.winding_down or slot.settled:
            # The job item left `running` while its worker started, or the run is ending: no word was run.
            if attempt is not None and not slot.settled:
                slot.attempt = attempt
                await self._release(slot, delay=0.0)
            await worker.end(0.0)
            return False
        slot.attempt = attempt
        return True

    async def _store_attempt(self, slot: Slot, worker: Worker) -> int | None:
        run = self._run
        return await run.database.write(
            lambda connection: JobItemStore(connection).assign(
                run.job.id,
                slot.item.item_id,
                thread_id=slot.thread_id,
                process=worker.process,
                epoch=run.epoch,
                now=run.clock.now_ms(),
            )
        )

    async def _work(self, slot: Slot, worker: Worker) -> Ended:
        try:
            return await worker.work()
        except Exception as error:
            return Ended(ErrorClass.CRASHED, said(error))

    async def _settle(self, slot: Slot, ended: Ended) -> None:
        if slot.settled:
            await self._add_usage(slot, ended.usage)
            return
        error_class, end = await self._judge(slot, ended)
        if self.winding_down and error_class is not ErrorClass.REFUSED:
            await self._apply(slot, Release(0.0), end)
            return
        verdict = after(
            error_class,
            attempts=slot.attempt,
            policy=self._run.job.settings.retry,
            jitter=self._run.rng.random(),
            retry_after=ended.retry_after,
        )
        if error_class is ErrorClass.RATE_LIMITED and isinstance(verdict, Release):
            self._run.hold_provider(ended.provider, verdict.delay)
        await self._apply(slot, verdict, end)

    async def _judge(self, slot: Slot, ended: Ended) -> tuple[ErrorClass, AttemptEnd]:
        """The error class of an attempt without an accepted report, and what to keep of it."""
        error_class, message, raw = ended.error_class, ended.message, ended.raw_answer
        if error_class is None:
            invalid = self._run.database.peek(
                lambda connection: JobItemStore(connection).find_invalid_report(slot.thread_id)
            )
            error_class = ErrorClass.INVALID_RESULT if invalid else ErrorClass.NO_REPORT
            message, raw = invalid or (NO_REPORT, raw)
        return error_class, AttemptEnd(error_class, message or str(error_class), raw, ended.usage)

    # -- moves ------------------------------------------------------------------------------------------

    async def _apply(self, slot: Slot, verdict: RetryVerdict, end: AttemptEnd) -> None:
        """Carry out what follows a bad end, in one transaction."""
        run = self._run

        def move(connection: Connection) -> None:
            self._move(JobItemStore(connection), slot, verdict, end)
            if isinstance(verdict, PauseJob):
                JobStore(connection).pause(
                    run.job.id, reason=PausedReason.ACCOUNT, message=end.error, now=run.clock.now_ms()
                )

        await run.database.write(move)
        slot.settled = True
        if isinstance(verdict, Retry | Release):
            run.ready_in(verdict.delay)
        run.wake.set()

    def _move(self, items: JobItemStore, slot: Slot, verdict: RetryVerdict, end: AttemptEnd) -> None:
        run, item_id, thread_id = self._run, slot.item.item_id, slot.thread_id
        now = run.clock.now_ms()
        if isinstance(verdict, Retry):
            not_before = now + round(verdict.delay * 1000)
            items.retry(
                run.job.id,
                item_id,
                thread_id=thread_id,
                end=end,
                not_before=not_before,
                epoch=run.epoch,
                now=now,
            )
        elif isinstance(verdict, Release | PauseJob):
            delay = verdict.delay if isinstance(verdict, Release) else 0.0
            not_before = now + round(delay * 1000) if delay else 0
            items.release(
                run.job.id,
                item_id,
                thread_id=thread_id,
                not_before=not_before,
                epoch=run.epoch,
                now=now,
                end=end,
            )
        else:
            items.fail(run.job.id, item_id, thread_id=thread_id, end=end, epoch=run.epoch, now=now)

    async def _start_failed(self, slot: Slot, error_class: ErrorClass, message: str) -> None:
        """An attempt that had no worker: counted, stored and ended in one transaction."""
        run = self._run
        end = AttemptEnd(error_class, message)
        verdict = after(
            error_class,
            attempts=slot.item.attempt_count + 1,
            policy=run.job.settings.retry,
            jitter=run.rng.random(),
        )

        def move(connection: Connection) -> None:
            items = JobItemStore(connection)
            # Where the start was only just too late, this thread is assigned already; the move's guard knows.
            items.assign(
                run.job.id,
                slot.item.item_id,
                thread_id=slot.thread_id,
                process=None,
                epoch=run.epoch,
                now=run.clock.now_ms(),
            )
            self._move(items, slot, verdict, end)

        await run.database.write(move)
        slot.settled = True
        if isinstance(verdict, Retry):
            run.ready_in(verdict.delay)

    async def _release(self, slot: Slot, *, delay: float) -> None:
        run = self._run

        def move(connection: Connection) -> None:
            # Only the store knows whether the attempt was stored: a cancelled assign may have gone on.
            for thread_id in (slot.thread_id, None):
                JobItemStore(connection).release(
                    run.job.id,
                    slot.item.item_id,
                    thread_id=thread_id,
                    epoch=run.epoch,
                    now=run.clock.now_ms(),
                )

        await run.database.write(move)
        slot.settled = True
        run.ready_in(delay)

    async def _release_if_held(self, slot: Slot) -> None:
        if not slot.settled and not isinstance(self._run.error, LeaseLost):
            await self._release(slot, delay=0.0)
        self._slots.forget(slot)

    async def _reap(self, slot: Slot) -> None:
        run = self._run
        seconds = run.job.settings.max_runtime_seconds
        message = f"worker exceeded max runtime of {seconds:g}s"
        self._slots.give_back(slot)
        if slot.worker is None or not slot.attempt:
            if slot.task is not None:
                slot.task.cancel()
            await self._start_failed(slot, ErrorClass.TIMEOUT, message)
        else:
            verdict = after(
                ErrorClass.TIMEOUT,
                attempts=slot.attempt,
                policy=run.job.settings.retry,
                jitter=run.rng.random(),
            )
            await self._apply(slot, verdict, AttemptEnd(ErrorClass.TIMEOUT, message))
        if slot.worker is not None:
            self._group.create_task(slot.worker.end(GRACE))

    async def _see_off(self, slot: Slot) -> None:
        """A worker whose job item is done may end by itself; then it is asked to, then made to."""
        if slot.task is not None:
            await asyncio.wait({slot.task}, timeout=GRACE)
            if not slot.task.done() and slot.worker is not None:
                await slot.worker.end(GRACE)

    async def _add_usage(self, slot: Slot, usage: Usage) -> None:
        if usage != NO_USAGE:
            await self._run.database.write(
                lambda connection: JobItemStore(connection).add_usage(self._run.job.id, slot.thread_id, usage)
            )

    # -- the order and the report -----------------------------------------------------------------------

    def _order(self, slot: Slot) -> WorkOrder:
        run, item = self._run, slot.item
        instruction = run.template.render(item.row)

        async def report(result: object, *, stop: bool = False, usage: Usage | None = None) -> Verdict:
            return await self._report(slot, result, stop=stop, usage=usage or NO_USAGE)

        return WorkOrder(
            job_id=run.job.id,
            item_id=item.item_id,
            attempt=item.attempt_count + 1,
            thread_id=slot.thread_id,
            instruction=instruction,
            row=item.row,
            output_schema=run.job.output_schema,
            prompt=worker_prompt(
                job_id=run.job.id,
                item_id=item.item_id,
                instruction=instruction,
                row=item.row,
                output_schema=run.job.output_schema,
                previous_error=item.last_error if item.attempt_count else None,
                reports_by_tool=run.job.settings.worker != "oneshot",
            ),
            max_runtime_seconds=run.job.settings.max_runtime_seconds,
            home=run.home,
            report=report,
        )

    async def _report(self, slot: Slot, result: object, *, stop: bool, usage: Usage) -> Verdict:
        run = self._run
        report = Report(
            run.job.id, slot.item.item_id, slot.thread_id, result, stop=stop, usage=usage, epoch=run.epoch
        )
        for _ in range(DISK_FULL_TRIES):
            try:
                verdict = await take(run.database, report, run.schema, now=run.clock.now_ms())
                break
            except DiskFull as error:
                # A paid result: room may come back while the run winds down.
                run.break_off(error)
                await run.clock.sleep(0.5)
        else:
            return Verdict(accepted=False, reason="there is no room on the disk to store the result")
        if verdict.accepted:
            slot.settled = True
            run.wake.set()
        return verdict


def said(error: Exception) -> str:
    """An exception as one line of text."""
    return error.message if isinstance(error, RowcrewError) else f"{type(error).__name__}: {error}"
