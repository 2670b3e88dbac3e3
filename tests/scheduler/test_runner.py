"""A run from running to final or paused, told as the things that may happen to it."""

import asyncio
from pathlib import Path

import pytest

from rowcrew.domain.job import JobSettings, JobStatus, PausedReason, RetryPolicy
from rowcrew.errors import ErrorClass, LeaseLost, LimitReached, StoreError
from rowcrew.store.database import Connection
from rowcrew.workers.contract import Ended, Verdict, Worker, WorkOrder
from tests.scheduler.stage import ScriptedKind, ScriptedWorker, staged
from tests.store.job_store import JOB, claim_of

BOUND = 20.0


@pytest.fixture(autouse=True, params=[False, True], ids=["claim then assign", "claim and assign"])
def starts_at_once(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every story holds for both sorts of worker kinds."""
    monkeypatch.setattr(ScriptedKind, "starts_at_once", request.param)


async def report_at_once(order: WorkOrder) -> Ended:
    await order.report({"v": order.item_id})
    return Ended()


async def never_end(order: WorkOrder) -> Ended:
    await asyncio.Event().wait()
    raise AssertionError


async def test_every_row_is_done_once_and_the_table_is_written_before_the_job_completes(
    tmp_path: Path,
) -> None:
    kind = ScriptedKind(report_at_once)
    async with staged(tmp_path, kind, rows=20) as stage:
        await asyncio.wait_for(stage.runner.run(), BOUND)
        job = await stage.job()
        assert (job.status, job.counts.completed, stage.exported) == (JobStatus.COMPLETED, 20, ["running"])
        assert sorted(kind.log) == sorted(f"{what} r{n}#1" for n in range(20) for what in ("start", "work"))
        assert stage.progress[-1].completed == 20


async def test_the_second_worker_starts_before_the_first_ones_answer_after_its_report(tmp_path: Path) -> None:
    kind: ScriptedKind
    second_started = asyncio.Event()

    async def work(order: WorkOrder) -> Ended:
        await order.report({})
        if order.item_id == "r0":
            await kind.until("start r1#1")
            second_started.set()
        return Ended()

    kind = ScriptedKind(work)
    async with staged(tmp_path, kind, rows=2, capacity=1) as stage:
        await asyncio.wait_for(stage.runner.run(), BOUND)
        assert second_started.is_set()


async def test_the_job_ends_though_a_worker_that_reported_never_does(tmp_path: Path) -> None:
    async def work(order: WorkOrder) -> Ended:
        await order.report({})
        return await never_end(order)

    kind = ScriptedKind(work)
    async with staged(tmp_path, kind, rows=2) as stage:
        await asyncio.wait_for(stage.runner.run(), BOUND)
        assert (await stage.job()).status is JobStatus.COMPLETED
        assert {"end r0#1", "end r1#1"} <= set(kind.log)


async def test_starts_run_side_by_side(tmp_path: Path) -> None:
    kind: ScriptedKind

    async def start(order: WorkOrder) -> None:
        for item_id in ("r0", "r1", "r2"):
            await kind.until(f"start {item_id}#1")

    kind = ScriptedKind(report_at_once, on_start=start)
    async with staged(tmp_path, kind, rows=3, capacity=3) as stage:
        await asyncio.wait_for(stage.runner.run(), BOUND)
        assert kind.log[:3] == ["start r0#1", "start r1#1", "start r2#1"]


async def test_no_agent_slot_puts_the_row_back_without_an_error_and_does_not_spin(tmp_path: Path) -> None:
    starts = 0

    async def start(order: WorkOrder) -> None:
        nonlocal starts
        starts += 1
        if starts <= 2:
            raise LimitReached("no agent slot is free")

    async with staged(tmp_path, ScriptedKind(report_at_once, on_start=start), rows=1) as stage:
        running = asyncio.create_task(stage.runner.run())
        while not running.done():
            await asyncio.wait({running}, timeout=0.01)
            await stage.clock.advance(0.05)
        await running
        assert await stage.attempts() == {"r0": 1}
        assert starts == 3


async def test_any_other_start_error_is_an_attempt_that_failed(tmp_path: Path) -> None:
    async def start(order: WorkOrder) -> None:
        raise OSError("no such program")

    settings = JobSettings(worker="scripted", retry=RetryPolicy(max_attempts=1))
    async with staged(
        tmp_path, ScriptedKind(report_at_once, on_start=start), rows=1, settings=settings
    ) as stage:
        await asyncio.wait_for(stage.runner.run(), BOUND)
        assert await stage.errors() == {
            "r0": ("start_failed", "worker could not start: OSError: no such program")
        }
        assert await stage.attempts() == {"r0": 1}


async def test_a_worker_over_its_time_is_reaped_and_its_late_report_refused(tmp_path: Path) -> None:
    verdicts: list[Verdict] = []

    async def work(order: WorkOrder) -> Ended:
        if order.attempt == 1:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                verdicts.append(await order.report({"late": True}))
                raise
        await order.report({"attempt": order.attempt})
        return Ended()

    kind = ScriptedKind(work)
    settings = JobSettings(worker="scripted", max_runtime_seconds=2, retry=RetryPolicy(2, 1, 1))
    async with staged(tmp_path, kind, rows=1, settings=settings) as stage:
        running = asyncio.create_task(stage.runner.run())
        await kind.until("work r0#1")
        await stage.clock.advance(2.0)
        await kind.until("end r0#1")
        while not running.done():
            await stage.clock.advance(0.5)
            await asyncio.wait({running}, timeout=0.01)
        await running
        [attempts] = await stage.store.sql("SELECT group_concat(error, '|') FROM agent_job_attempts")
        results = await stage.store.sql("SELECT result_json FROM agent_job_items")
        assert attempts == ("worker exceeded max runtime of 2s",)
        assert results == [('{"attempt":2}',)]
        assert [verdict.accepted for verdict in verdicts] == [False]


async def test_a_start_that_outlives_the_time_limit_is_aborted_and_counts_as_a_time_out(
    tmp_path: Path,
) -> None:
    async def start(order: WorkOrder) -> None:
        if order.attempt == 1:
            await asyncio.Event().wait()

    kind = ScriptedKind(report_at_once, on_start=start)
    settings = JobSettings(worker="scripted", max_runtime_seconds=2, retry=RetryPolicy(2, 1, 1))
    async with staged(tmp_path, kind, rows=1, settings=settings) as stage:
        running = asyncio.create_task(stage.runner.run())
        await kind.until("start r0#1")
        while not running.done():
            await stage.clock.advance(0.5)
            await asyncio.wait({running}, timeout=0.01)
        await running
        assert await stage.attempts() == {"r0": 2}
        assert await stage.statuses() == {"r0": "completed"}


async def test_a_worker_that_ends_without_a_report_is_tried_again_and_then_failed(tmp_path: Path) -> None:
    async def work(order: WorkOrder) -> Ended:
        return Ended()

    async with staged(tmp_path, ScriptedKind(work), rows=1) as stage:
        running = asyncio.create_task(stage.runner.run())
        while not running.done():
            await stage.clock.advance(1.0)
            await asyncio.wait({running}, timeout=0.01)
        await running
        assert await stage.errors() == {
            "r0": ("no_report", "worker finished without calling report_agent_job_result")
        }
        assert await stage.attempts() == {"r0": 3}
        assert (await stage.job()).status is JobStatus.COMPLETED


async def test_stop_is_stored_with_its_report_and_halts_the_rows_to_come(tmp_path: Path) -> None:
    async def work(order: WorkOrder) -> Ended:
        await order.report({"n": order.item_id}, stop=order.item_id == "r1")
        return Ended()

    async with staged(tmp_path, ScriptedKind(work), rows=5, capacity=1) as stage:
        await asyncio.wait_for(stage.runner.run(), BOUND)
        job = await stage.job()
        assert (job.status, job.last_error) == (JobStatus.CANCELLED, "cancelled by worker request")
        assert list((await stage.statuses()).values()) == ["completed"] * 2 + ["pending"] * 3
        assert stage.exported == ["cancelled"]


async def test_a_report_for_another_row_is_refused_and_touches_nothing(tmp_path: Path) -> None:
    async def work(order: WorkOrder) -> Ended:
        verdict = await order.report([1, 2])
        assert (verdict.accepted, verdict.reason) == (False, "result must be a JSON object")
        await order.report({"mended": True})
        second = await order.report({"twice": True})
        assert not second.accepted
        return Ended()

    async with staged(tmp_path, ScriptedKind(work), rows=1) as stage:
        await asyncio.wait_for(stage.runner.run(), BOUND)
        assert await stage.store.sql("SELECT result_json FROM agent_job_items") == [('{"mended":true}',)]


async def test_a_result_that_misses_the_schema_may_be_mended_a_few_times(tmp_path: Path) -> None:
    schema = {"type": "object", "properties": {"score": {"type": "integer"}}, "required": ["score"]}
    verdicts: list[Verdict] = []

    async def work(order: WorkOrder) -> Ended:
        verdicts.extend([await order.report({"score": "high"}) for _ in range(3)])
        return Ended()

    settings = JobSettings(worker="scripted", retry=RetryPolicy(max_attempts=1))
    async with staged(tmp_path, ScriptedKind(work), rows=1, schema=schema, settings=settings) as stage:
        await asyncio.wait_for(stage.runner.run(), BOUND)
        assert [(verdict.accepted, verdict.mendable) for verdict in verdicts] == [
            (False, True),
            (False, True),
            (False, False),
        ]
        assert "$.score" in (verdicts[0].reason or "")
        assert (await stage.errors())["r0"][0] == "invalid_result"
        assert await stage.store.sql("SELECT raw_answer FROM agent_job_attempts") == [('{"score":"high"}',)]


async def test_a_rate_limit_holds_the_whole_provider_and_uses_no_attempt(tmp_path: Path) -> None:
    refused: list[str] = []

    async def work(order: WorkOrder) -> Ended:
        if not refused:
            refused.append(order.item_id)
            return Ended(ErrorClass.RATE_LIMITED, "slow down", retry_after=7, provider="p")
        await order.report({})
        return Ended()

    kind = ScriptedKind(work)
    async with staged(tmp_path, kind, rows=3, capacity=1) as stage:
        running = asyncio.create_task(stage.runner.run())
        await kind.until("work r0#1")
        while stage.run.provider is None:
            await asyncio.wait({running}, timeout=0.01)
        await stage.clock.advance(6.5)
        await asyncio.wait({running}, timeout=0.3)
        assert kind.log == ["start r0#1", "work r0#1"]
        while not running.done():
            await stage.clock.advance(0.3)
            await asyncio.wait({running}, timeout=0.01)
        await running
        assert await stage.attempts() == {"r0": 1, "r1": 1, "r2": 1}
        assert (await stage.job()).counts.completed == 3


async def test_a_rate_limit_of_one_row_lends_its_slot_to_others(tmp_path: Path) -> None:
    async def work(order: WorkOrder) -> Ended:
        if order.item_id == "r0" and "end" not in order.item_id and not waited.is_set():
            waited.set()
            return Ended(ErrorClass.RATE_LIMITED, "slow down", retry_after=2)
        await order.report({})
        return Ended()

    waited = asyncio.Event()
    kind = ScriptedKind(work)
    async with staged(tmp_path, kind, rows=3, capacity=1) as stage:
        running = asyncio.create_task(stage.runner.run())
        await kind.until("work r2#1")
        assert (await stage.statuses())["r0"] == "pending"
        while not running.done():
            await stage.clock.advance(0.5)
            await asyncio.wait({running}, timeout=0.01)
        await running
        assert await stage.attempts() == {"r0": 1, "r1": 1, "r2": 1}


async def test_an_account_without_credit_pauses_the_job_and_burns_no_row(tmp_path: Path) -> None:
    async def work(order: WorkOrder) -> Ended:
        if order.item_id == "r1":
            return Ended(ErrorClass.ACCOUNT, "no credit")
        await order.report({})
        return Ended()

    async with staged(tmp_path, ScriptedKind(work), rows=5, capacity=1) as stage:
        await asyncio.wait_for(stage.runner.run(), BOUND)
        job = await stage.job()
        assert (job.status, job.paused_reason, job.last_error) == (
            JobStatus.PAUSED,
            PausedReason.ACCOUNT,
            "no credit",
        )
        assert list((await stage.statuses()).values()) == ["completed"] + ["pending"] * 4
        assert set((await stage.attempts()).values()) == {0, 1}


async def test_an_interrupt_releases_what_is_in_flight_uncounted_and_pauses(tmp_path: Path) -> None:
    kind = ScriptedKind(never_end)
    async with staged(tmp_path, kind, rows=3, capacity=2) as stage:
        running = asyncio.create_task(stage.runner.run())
        await kind.until("work r1#1")
        stage.runner.interrupt()
        await asyncio.wait_for(running, BOUND)
        job = await stage.job()
        assert (job.status, job.paused_reason) == (JobStatus.PAUSED, PausedReason.INTERRUPTED)
        assert await stage.statuses() == {"r0": "pending", "r1": "pending", "r2": "pending"}
        assert await stage.attempts() == {"r0": 0, "r1": 0, "r2": 0}


class SlowToEnd(ScriptedWorker):
    """Uses up all the grace that it is given."""

    async def end(self, grace: float) -> None:
        self._kind.say(f"end within {grace:g} s", self._order)
        if grace:
            await asyncio.Event().wait()
        await super().end(grace)


class SlowKind(ScriptedKind):
    async def start(self, order: WorkOrder) -> Worker:
        return SlowToEnd(self, order)


async def test_an_abort_takes_the_grace_away_from_workers_that_are_ending(tmp_path: Path) -> None:
    kind = SlowKind(never_end)
    async with staged(tmp_path, kind, rows=1) as stage:
        running = asyncio.create_task(stage.runner.run())
        await kind.until("work r0#1")
        stage.runner.interrupt()
        await kind.until("end within 5 s r0#1")
        stage.runner.abort()
        await asyncio.wait_for(running, BOUND)
        assert kind.log == ["work r0#1", "end within 5 s r0#1", "end within 0 s r0#1", "end r0#1"]
        assert (await stage.job()).paused_reason is PausedReason.INTERRUPTED


async def test_a_worker_that_reports_while_it_is_asked_to_end_keeps_its_result(tmp_path: Path) -> None:
    async def work(order: WorkOrder) -> Ended:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await order.report({"last": "word"})
        return Ended()

    kind = ScriptedKind(work)
    async with staged(tmp_path, kind, rows=1) as stage:
        running = asyncio.create_task(stage.runner.run())
        await kind.until("work r0#1")
        stage.runner.interrupt()
        await asyncio.wait_for(running, BOUND)
        assert (await stage.job()).status is JobStatus.COMPLETED


async def test_a_cancel_by_another_process_is_noticed_and_never_overwritten(tmp_path: Path) -> None:
    kind = ScriptedKind(never_end)
    async with staged(tmp_path, kind, rows=3, capacity=2) as stage:
        running = asyncio.create_task(stage.runner.run())
        await kind.until("work r1#1")
        assert await stage.store.jobs(lambda jobs: jobs.cancel(JOB, message="by hand", now=9))
        while not running.done():
            await stage.clock.advance(0.1)
            await asyncio.wait({running}, timeout=0.01)
        await running
        job = await stage.job()
        assert (job.status, job.last_error, job.counts.pending) == (JobStatus.CANCELLED, "by hand", 3)


async def test_an_owner_that_lost_its_lease_stops_and_writes_nothing_more(tmp_path: Path) -> None:
    kind = ScriptedKind(never_end)
    async with staged(tmp_path, kind, rows=2, capacity=2) as stage:
        running = asyncio.create_task(stage.runner.run())
        await kind.until("work r1#1")
        await stage.store.jobs(
            lambda jobs: jobs.take_lease(JOB, claim_of("other"), now=9, is_dead=lambda _: True)
        )
        before = await stage.store.sql("SELECT * FROM agent_job_items")
        await stage.clock.until_sleeping()
        await stage.clock.advance(3.0)
        with pytest.raises(LeaseLost):
            await asyncio.wait_for(running, BOUND)
        assert await stage.store.sql("SELECT * FROM agent_job_items") == before
        assert stage.exported == []


async def test_what_a_dead_engine_left_running_is_run_again_with_its_attempt_counted(tmp_path: Path) -> None:
    async with staged(tmp_path, ScriptedKind(report_at_once), rows=3) as stage:
        epoch = stage.run.epoch
        await stage.store.items(lambda items: items.claim(JOB, limit=2, epoch=epoch, now=10**13))
        await stage.store.items(
            lambda items: items.assign(JOB, "r0", thread_id="dead", process=None, epoch=epoch, now=5)
        )
        await asyncio.wait_for(stage.runner.run(), BOUND)
        assert await stage.attempts() == {"r0": 2, "r1": 1, "r2": 1}
        assert (await stage.job()).counts.completed == 3


async def test_a_row_whose_last_attempt_died_with_the_engine_is_failed_as_crashed(tmp_path: Path) -> None:
    settings = JobSettings(worker="scripted", retry=RetryPolicy(max_attempts=1))
    async with staged(tmp_path, ScriptedKind(report_at_once), rows=1, settings=settings) as stage:
        epoch = stage.run.epoch
        await stage.store.items(lambda items: items.claim(JOB, limit=1, epoch=epoch, now=10**13))
        await stage.store.items(
            lambda items: items.assign(JOB, "r0", thread_id="dead", process=None, epoch=epoch, now=5)
        )
        await asyncio.wait_for(stage.runner.run(), BOUND)
        assert (await stage.errors())["r0"][0] == "crashed"


async def test_a_bug_in_a_worker_is_a_crash_of_its_row_alone(tmp_path: Path) -> None:
    async def work(order: WorkOrder) -> Ended:
        if order.item_id == "r0":
            raise KeyError("oops")
        return await report_at_once(order)

    settings = JobSettings(worker="scripted", retry=RetryPolicy(max_attempts=1))
    async with staged(tmp_path, ScriptedKind(work), rows=2, settings=settings) as stage:
        await asyncio.wait_for(stage.runner.run(), BOUND)
        assert await stage.errors() == {"r0": ("crashed", "KeyError: 'oops'"), "r1": (None, None)}


async def test_a_broken_store_fails_the_job_and_says_so(tmp_path: Path) -> None:
    kind = ScriptedKind(report_at_once)
    async with staged(tmp_path, kind, rows=3) as stage:

        def break_it(connection: Connection) -> None:
            connection.execute("DROP TABLE agent_job_attempts")

        await stage.store.database.write(break_it)
        with pytest.raises(StoreError):
            await asyncio.wait_for(stage.runner.run(), BOUND)
        job = await stage.job()
        assert job.status is JobStatus.FAILED
        assert "the engine could not go on" in (job.last_error or "")


async def test_a_job_of_no_rows_completes_at_once(tmp_path: Path) -> None:
    async with staged(tmp_path, ScriptedKind(report_at_once), rows=0) as stage:
        await asyncio.wait_for(stage.runner.run(), BOUND)
        assert (await stage.job()).status is JobStatus.COMPLETED
        assert stage.progress[-1].eta_seconds == 0.0
