"""Every job state with every event, on the real store: the table in domain/lifecycle.py decides."""

from pathlib import Path

import pytest

from rowcrew.domain.job import JobStatus, PausedReason
from rowcrew.domain.lifecycle import JOB, JobEvent, next_state
from tests.store.job_store import JOB as JOB_ID
from tests.store.job_store import Store, open_store

FINAL = "status IN ('completed', 'failed', 'cancelled')"


async def put_into(store: Store, status: JobStatus) -> int:
    epoch = await store.run_job()
    reason = "user" if status is JobStatus.PAUSED else None
    done = 3 if status.is_final else None
    await store.sql(
        "UPDATE agent_jobs SET status = ?, paused_reason = ?, completed_at_ms = ?", str(status), reason, done
    )
    return epoch


async def do(store: Store, event: JobEvent, epoch: int) -> bool:
    if event is JobEvent.COMPLETE:
        await store.sql("UPDATE agent_job_items SET status = 'failed', completed_at_ms = 4")
        return await store.jobs(lambda jobs: jobs.complete(JOB_ID, epoch=epoch, now=5))
    if event is JobEvent.FAIL:
        return await store.jobs(lambda jobs: jobs.fail(JOB_ID, message="m", now=5))
    if event is JobEvent.CANCEL:
        return await store.jobs(lambda jobs: jobs.cancel(JOB_ID, message="m", now=5))
    if event is JobEvent.PAUSE:
        return await store.jobs(lambda jobs: jobs.pause(JOB_ID, reason=PausedReason.USER, message="m", now=5))
    return await store.jobs(lambda jobs: jobs.start(JOB_ID, now=5))


# A start is told from a resume by the state it finds; a running job is started again at a takeover.
def expected(status: JobStatus, event: JobEvent) -> JobStatus | None:
    if event in (JobEvent.START, JobEvent.RESUME):
        if status is JobStatus.RUNNING:
            return JobStatus.RUNNING
        return next_state(JOB, status, JobEvent.START) or next_state(JOB, status, JobEvent.RESUME)
    return next_state(JOB, status, event)


@pytest.mark.parametrize("event", JobEvent)
@pytest.mark.parametrize("status", JobStatus)
async def test_the_store_moves_a_job_as_the_table_says(
    tmp_path: Path, status: JobStatus, event: JobEvent
) -> None:
    async with open_store(tmp_path) as store:
        await store.create()
        epoch = await put_into(store, status)
        moved = await do(store, event, epoch)
        [(found, completed_at, reason)] = await store.sql(
            "SELECT status, completed_at_ms, paused_reason FROM agent_jobs"
        )
        wanted = expected(status, event)
        assert (moved, found) == (wanted is not None, str(wanted or status))
        assert (completed_at is not None) == JobStatus(found).is_final
        assert (reason is not None) == (found == "paused")


@pytest.mark.parametrize("status", [status for status in JobStatus if status.is_final])
async def test_a_final_job_without_pending_rows_is_not_started_again(
    tmp_path: Path, status: JobStatus
) -> None:
    async with open_store(tmp_path) as store:
        await store.create()
        await put_into(store, status)
        await store.sql("UPDATE agent_job_items SET status = 'failed', completed_at_ms = 4")
        assert not await store.jobs(lambda jobs: jobs.start(JOB_ID, now=5))


async def test_a_job_with_open_rows_is_not_completed(tmp_path: Path) -> None:
    async with open_store(tmp_path) as store:
        await store.create()
        epoch = await store.run_job()
        assert not await store.jobs(lambda jobs: jobs.complete(JOB_ID, epoch=epoch, now=5))
