"""Every job item state with every event, on the real store: the table in domain/lifecycle.py decides."""

from pathlib import Path
from typing import Any

import pytest

from rowcrew.domain.item import JobItemStatus
from rowcrew.domain.lifecycle import JOB_ITEM, JobItemEvent, next_state
from rowcrew.errors import ErrorClass
from rowcrew.store.endings import NO_USAGE, AttemptEnd, ItemReport
from tests.store.job_store import JOB, Store, open_store

END = AttemptEnd(ErrorClass.CRASHED, "boom")


async def put_into(store: Store, status: JobItemStatus, *, assigned: bool) -> int:
    """One job item in the state, by the moves that lead there."""
    epoch = await store.run_job()
    if status is JobItemStatus.PENDING:
        return epoch
    await store.items(lambda items: items.claim(JOB, limit=1, epoch=epoch, now=3))
    if assigned or status is not JobItemStatus.RUNNING:
        await do(store, JobItemEvent.ASSIGN, epoch)
    if status is JobItemStatus.COMPLETED:
        await do(store, JobItemEvent.REPORT, epoch)
    if status is JobItemStatus.FAILED:
        await do(store, JobItemEvent.FAIL, epoch)
    return epoch


async def do(store: Store, event: JobItemEvent, epoch: int) -> bool:
    mine: dict[str, Any] = {"thread_id": "t", "epoch": epoch, "now": 9}
    moves = {
        JobItemEvent.CLAIM: lambda items: bool(items.claim(JOB, limit=1, epoch=epoch, now=9)),
        JobItemEvent.ASSIGN: lambda items: items.assign(JOB, "r0", process=None, **mine) is not None,
        JobItemEvent.REPORT: lambda items: (
            items.report(ItemReport(JOB, "r0", "t", "{}", NO_USAGE, now=9)) == "accepted"
        ),
        JobItemEvent.FAIL: lambda items: items.fail(JOB, "r0", end=END, **mine),
        JobItemEvent.RETRY: lambda items: items.retry(JOB, "r0", end=END, not_before=0, **mine),
        JobItemEvent.RELEASE: lambda items: items.release(JOB, "r0", **mine),
        JobItemEvent.RETRY_FAILED: lambda items: items.retry_failed(JOB, None, now=9) > 0,
    }
    return await store.items(moves[event])


@pytest.mark.parametrize("event", JobItemEvent)
@pytest.mark.parametrize("status", JobItemStatus)
async def test_the_store_moves_a_job_item_as_the_table_says(
    tmp_path: Path, status: JobItemStatus, event: JobItemEvent
) -> None:
    async with open_store(tmp_path) as store:
        await store.create(1)
        # A second assign of the same job item is another rule: see the store's own tests.
        epoch = await put_into(store, status, assigned=event is not JobItemEvent.ASSIGN)
        moved = await do(store, event, epoch)
        wanted = next_state(JOB_ITEM, status, event)
        [(found,)] = await store.sql("SELECT status FROM agent_job_items")
        assert (moved, found) == (wanted is not None, str(wanted or status))
        counts = await store.sql("SELECT total, pending, running, completed, failed FROM agent_job_totals")
        assert counts == [
            (1, *(int(found == state) for state in ("pending", "running", "completed", "failed")))
        ]
