"""The moves of a job item, each told as what may happen to it."""

from dataclasses import replace
from pathlib import Path

import pytest

from rowcrew.domain.attempt import AttemptOutcome, Usage
from rowcrew.domain.item import JobItemStatus
from rowcrew.errors import ErrorClass, LeaseLost, NotFound, StoreError
from rowcrew.processes import ProcessIdentity
from rowcrew.store.endings import AttemptEnd, ItemReport
from rowcrew.store.job_items import Leftover
from tests.store.job_store import JOB, Store, claim_of, open_store

END = AttemptEnd(ErrorClass.TIMEOUT, "too slow", "raw", Usage(1, 10, 2, 3, 1))


async def claim(store: Store, epoch: int, limit: int = 1, now: int = 5) -> list[str]:
    found = await store.items(lambda items: items.claim(JOB, limit=limit, epoch=epoch, now=now))
    return [item.item_id for item in found]


async def assign(
    store: Store, epoch: int, item_id: str = "r0", thread_id: str = "t", now: int = 6
) -> int | None:
    process = ProcessIdentity(42, "77", "boot")
    return await store.items(
        lambda items: items.assign(JOB, item_id, thread_id=thread_id, process=process, epoch=epoch, now=now)
    )


async def report(store: Store, item_id: str = "r0", thread_id: str = "t", result: str = '{"v":1}') -> str:
    return await store.items(
        lambda items: items.report(ItemReport(JOB, item_id, thread_id, result, Usage(1, 5, 0, 2, 0), now=8))
    )


async def test_a_claim_takes_the_lowest_rows_and_hides_them(tmp_path: Path) -> None:
    async with open_store(tmp_path) as store:
        await store.create(5)
        epoch = await store.run_job()
        assert await claim(store, epoch, 2) == ["r0", "r1"]
        assert await claim(store, epoch, 9) == ["r2", "r3", "r4"]
        assert await claim(store, epoch, 9) == []


async def test_a_row_waits_for_its_time_but_not_for_a_clock_that_was_set_back(tmp_path: Path) -> None:
    async with open_store(tmp_path) as store:
        await store.create(1)
        epoch = await store.run_job()
        await claim(store, epoch)
        await assign(store, epoch)
        await store.items(
            lambda items: items.retry(JOB, "r0", thread_id="t", end=END, not_before=90, epoch=epoch, now=50)
        )
        assert await claim(store, epoch, now=89) == []
        assert await claim(store, epoch, now=40) == ["r0"]


async def test_a_claim_counts_no_attempt_and_an_assign_does(tmp_path: Path) -> None:
    async with open_store(tmp_path) as store:
        await store.create(1)
        epoch = await store.run_job()
        await claim(store, epoch)
        assert (await store.items(lambda items: items.get(JOB, "r0"))).attempt_count == 0
        assert await assign(store, epoch) == 1
        item = await store.items(lambda items: items.get(JOB, "r0"))
        assert (item.attempt_count, item.assigned_thread_id) == (1, "t")


async def test_a_claim_may_assign_at_once_and_then_counts_the_attempt(tmp_path: Path) -> None:
    async with open_store(tmp_path) as store:
        await store.create(3)
        epoch = await store.run_job()
        taken = await store.items(lambda items: items.claim_assigned(JOB, limit=2, epoch=epoch, now=5))
        assert [(item.item_id, item.attempt_count, attempt) for item, _, attempt in taken] == [
            ("r0", 0, 1),
            ("r1", 0, 1),
        ]
        shown = await store.items(lambda items: items.list_page(JOB, status=None, offset=0, limit=9))
        threads = [thread_id for _, thread_id, _ in taken]
        assert [(item.status, item.attempt_count, item.assigned_thread_id) for item in shown] == [
            (JobItemStatus.RUNNING, 1, threads[0]),
            (JobItemStatus.RUNNING, 1, threads[1]),
            (JobItemStatus.PENDING, 0, None),
        ]
        assert await report(store, "r1", threads[1]) == "accepted"
        lost = await store.items(lambda items: items.claim_assigned(JOB, limit=2, epoch=epoch - 1, now=5))
        assert lost == []


async def test_a_second_assign_is_refused(tmp_path: Path) -> None:
    async with open_store(tmp_path) as store:
        await store.create(1)
        epoch = await store.run_job()
        await claim(store, epoch)
        assert await assign(store, epoch, thread_id="t") == 1
        assert await assign(store, epoch, thread_id="u") is None


async def test_a_report_completes_the_job_item_and_clears_what_went_before(tmp_path: Path) -> None:
    async with open_store(tmp_path) as store:
        await store.create(1)
        epoch = await store.run_job()
        await claim(store, epoch)
        await assign(store, epoch, thread_id="first")
        await store.items(
            lambda items: items.retry(JOB, "r0", thread_id="first", end=END, not_before=0, epoch=epoch, now=7)
        )
        await claim(store, epoch)
        await assign(store, epoch, thread_id="second")
        assert await report(store, thread_id="second") == "accepted"
        item = await store.items(lambda items: items.get(JOB, "r0"))
        assert item == replace(
            item,
            status=JobItemStatus.COMPLETED,
            result_json='{"v":1}',
            last_error=None,
            error_class=None,
            assigned_thread_id=None,
            attempt_count=2,
            reported_at_ms=8,
            completed_at_ms=8,
        )
        attempts = await store.items(lambda items: items.list_attempts(JOB, "r0"))
        assert [
            (a.number, a.thread_id, a.outcome, a.counted, a.error_class, a.raw_answer) for a in attempts
        ] == [
            (1, "first", AttemptOutcome.FAILED, True, ErrorClass.TIMEOUT, "raw"),
            (2, "second", AttemptOutcome.REPORTED, True, None, None),
        ]
        job = await store.jobs(lambda jobs: jobs.get(JOB))
        assert job.usage == Usage(2, 15, 2, 5, 1)


async def test_reports_that_are_late_repeated_foreign_or_unknown_change_nothing(tmp_path: Path) -> None:
    async with open_store(tmp_path) as store:
        await store.create(3)
        epoch = await store.run_job()
        await claim(store, epoch, 3)
        await assign(store, epoch, "r0", "t0")
        await assign(store, epoch, "r1", "t1")
        await assign(store, epoch, "r2", "t2")
        await store.items(
            lambda items: items.retry(JOB, "r2", thread_id="t2", end=END, not_before=0, epoch=epoch, now=7)
        )
        assert await report(store, "r0", "t0", '{"first":1}') == "accepted"
        before = await store.sql("SELECT * FROM agent_job_items")
        outcomes = [
            await report(store, "r0", "t0", '{"second":1}'),
            await report(store, "r1", "t0"),
            await report(store, "r2", "t2"),
            await report(store, "nothing", "t0"),
            await report(store, "r1", "stranger"),
        ]
        assert outcomes == ["already_reported", "other_thread", "too_late", "unknown_item", "other_thread"]
        assert await store.sql("SELECT * FROM agent_job_items") == before


async def test_a_release_uncounts_the_attempt_and_keeps_it_in_the_books(tmp_path: Path) -> None:
    async with open_store(tmp_path) as store:
        await store.create(1)
        epoch = await store.run_job()
        await claim(store, epoch)
        await assign(store, epoch)
        assert await store.items(
            lambda items: items.release(JOB, "r0", thread_id="t", epoch=epoch, now=7, not_before=50, end=END)
        )
        item = await store.items(lambda items: items.get(JOB, "r0"))
        assert (item.status, item.attempt_count, item.not_before_at_ms) == (JobItemStatus.PENDING, 0, 50)
        [attempt] = await store.items(lambda items: items.list_attempts(JOB, "r0"))
        assert (attempt.outcome, attempt.counted, attempt.error) == (
            AttemptOutcome.RELEASED,
            False,
            "too slow",
        )
        assert await claim(store, epoch, now=49) == []
        assert await store.items(lambda items: items.next_ready_at(JOB)) == 50
        assert await claim(store, epoch, now=50) == ["r0"]


async def test_a_move_for_another_threads_attempt_changes_nothing(tmp_path: Path) -> None:
    async with open_store(tmp_path) as store:
        await store.create(1)
        epoch = await store.run_job()
        await claim(store, epoch)
        await assign(store, epoch, thread_id="mine")
        for thread in ("other", None):
            assert not await store.items(
                lambda items, thread=thread: items.release(JOB, "r0", thread_id=thread, epoch=epoch, now=7)
            )
            assert not await store.items(
                lambda items, thread=thread: items.fail(
                    JOB, "r0", thread_id=thread, end=END, epoch=epoch, now=7
                )
            )


async def test_an_owner_that_lost_its_lease_writes_nothing_more(tmp_path: Path) -> None:
    async with open_store(tmp_path) as store:
        await store.create(2)
        old = await store.run_job()
        await claim(store, old, 1)
        await assign(store, old)
        new = await store.jobs(
            lambda jobs: jobs.take_lease(JOB, claim_of("other"), now=9, is_dead=lambda _: True)
        )
        assert new == old + 1
        assert await claim(store, old) == []
        with pytest.raises(LeaseLost):
            await assign(store, old, "r1")
        with pytest.raises(LeaseLost):
            await store.items(lambda items: items.fail(JOB, "r0", thread_id="t", end=END, epoch=old, now=9))
        with pytest.raises(LeaseLost):
            await store.items(lambda items: items.release(JOB, "r0", thread_id="t", epoch=old, now=9))
        assert not await store.jobs(lambda jobs: jobs.heartbeat(JOB, epoch=old, owner="me", now=9, up=9))


async def test_leftovers_are_what_runs_with_the_process_of_the_last_attempt(tmp_path: Path) -> None:
    async with open_store(tmp_path) as store:
        await store.create(3)
        epoch = await store.run_job()
        await claim(store, epoch, 2)
        await assign(store, epoch, "r1", "t1")
        found: list[Leftover] = await store.items(lambda items: items.leftovers(JOB))
        assert [(left.item.item_id, left.process) for left in found] == [
            ("r0", None),
            ("r1", ProcessIdentity(42, "77", "boot")),
        ]


async def test_failed_rows_are_run_again_on_a_users_word_with_all_their_attempts(tmp_path: Path) -> None:
    async with open_store(tmp_path) as store:
        await store.create(2)
        epoch = await store.run_job()
        await claim(store, epoch, 2)
        for item_id in ("r0", "r1"):
            await assign(store, epoch, item_id, f"t{item_id}")
            await store.items(
                lambda items, item_id=item_id: items.fail(
                    JOB, item_id, thread_id=f"t{item_id}", end=END, epoch=epoch, now=7
                )
            )
        assert await store.items(lambda items: items.retry_failed(JOB, "r1", now=8)) == 1
        assert await store.items(lambda items: items.retry_failed(JOB, None, now=8)) == 1
        item = await store.items(lambda items: items.get(JOB, "r0"))
        assert (item.status, item.attempt_count, item.last_error) == (JobItemStatus.PENDING, 0, "too slow")


async def test_invalid_reports_are_counted_and_the_last_is_kept(tmp_path: Path) -> None:
    async with open_store(tmp_path) as store:
        await store.create(1)
        epoch = await store.run_job()
        await claim(store, epoch)
        await assign(store, epoch)

        async def note(error: str) -> int | None:
            return await store.items(
                lambda items: items.note_invalid_report(
                    JOB, "r0", thread_id="t", error=error, raw_answer=f"raw {error}"
                )
            )

        assert [await note("one"), await note("two")] == [1, 2]
        assert await store.items(lambda items: items.find_invalid_report("t")) == ("two", "raw two")
        assert await report(store) == "accepted"
        assert await note("three") is None


async def test_the_accounting_is_a_rule_of_the_file_itself(tmp_path: Path) -> None:
    async with open_store(tmp_path) as store:
        await store.create(2)
        with pytest.raises(StoreError, match="CHECK constraint failed"):
            await store.sql("UPDATE agent_job_totals SET pending = pending + 1")


async def test_an_unknown_job_item_is_not_found(tmp_path: Path) -> None:
    async with open_store(tmp_path) as store:
        await store.create(1)
        with pytest.raises(NotFound, match="has no item 'x'"):
            await store.items(lambda items: items.get(JOB, "x"))


async def test_a_page_and_the_whole_come_in_row_order(tmp_path: Path) -> None:
    async with open_store(tmp_path) as store:
        await store.create(5)
        page = await store.items(lambda items: items.list_page(JOB, status=None, offset=1, limit=2))
        pending = await store.items(
            lambda items: items.list_page(JOB, status=JobItemStatus.PENDING, offset=4, limit=9)
        )
        whole = await store.items(lambda items: [item.row for item in items.iterate(JOB)])
        assert [item.item_id for item in page] == ["r1", "r2"]
        assert [item.item_id for item in pending] == ["r4"]
        assert whole == [{"id": f"r{n}", "text": f"text {n}"} for n in range(5)]
