"""After a crash: end what its workers left running, and put their job items back. It starts nothing."""

import asyncio

from rowcrew.clock import Clock
from rowcrew.domain.job import Job
from rowcrew.domain.retry import Retry, after
from rowcrew.errors import ErrorClass
from rowcrew.processes import end_sessions
from rowcrew.store.database import Database
from rowcrew.store.endings import AttemptEnd
from rowcrew.store.job_items import JobItemStore, Leftover

CRASHED = AttemptEnd(ErrorClass.CRASHED, "the engine was killed while this attempt ran")


async def rescue(database: Database, clock: Clock, job: Job, epoch: int) -> int:
    """Put right every job item that is running though no worker of this process has it. Returns how many.

    First the surviving worker processes are ended, then their job items go back: so a row never has two
    workers. A job item with an attempt keeps it counted, and fails when that was its last; one that had been
    claimed but not assigned goes back untouched.
    """
    leftovers = await database.read(lambda connection: JobItemStore(connection).leftovers(job.id))
    if not leftovers:
        return 0
    await asyncio.to_thread(_end_processes, leftovers)
    now = clock.now_ms()
    await database.write(
        lambda connection: _put_back(JobItemStore(connection), job, leftovers, epoch=epoch, now=now)
    )
    return len(leftovers)


async def end_lingering(database: Database, job_id: str, *, owner: str) -> None:
    """End workers that a dead owner left though their attempts are over: reported, and still there.

    To be called before its lease is taken: from then on nobody can tell them from the next owner's.
    """
    processes = await database.read(
        lambda connection: JobItemStore(connection).lingering(job_id, owner=owner)
    )
    if processes:
        await asyncio.to_thread(end_sessions, list(processes))


def _end_processes(leftovers: list[Leftover]) -> None:
    end_sessions(
        [
            (leftover.process, leftover.item.assigned_thread_id)
            for leftover in leftovers
            if leftover.process is not None
        ]
    )


def _put_back(items: JobItemStore, job: Job, leftovers: list[Leftover], *, epoch: int, now: int) -> None:
    for leftover in leftovers:
        item = leftover.item
        thread_id = item.assigned_thread_id
        if thread_id is None:
            items.release(job.id, item.item_id, thread_id=None, epoch=epoch, now=now)
            continue
        verdict = after(
            ErrorClass.CRASHED, attempts=item.attempt_count, policy=job.settings.retry, jitter=0.0
        )
        if isinstance(verdict, Retry):
            # The row was not at fault; the time the engine was away is delay enough.
            items.retry(
                job.id, item.item_id, thread_id=thread_id, end=CRASHED, not_before=0, epoch=epoch, now=now
            )
        else:
            items.fail(job.id, item.item_id, thread_id=thread_id, end=CRASHED, epoch=epoch, now=now)
