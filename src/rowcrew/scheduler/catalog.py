"""The jobs of a home as they are stored: found, viewed, listed, waited for. It makes, runs and moves none.

It loads nothing that does, so that who only looks does not wait for that.
"""

import re

from rowcrew.clock import Clock
from rowcrew.domain.attempt import Attempt
from rowcrew.domain.ids import short
from rowcrew.domain.item import JobItem, JobItemStatus
from rowcrew.domain.job import Job, JobStatus
from rowcrew.domain.json_text import is_clean
from rowcrew.errors import InvalidRequest, NotFound
from rowcrew.scheduler.views import JobResult, JobView, result_of, view_of
from rowcrew.store.database import Connection, Database
from rowcrew.store.job_items import JobItemStore
from rowcrew.store.jobs import JobStore

POLL_SECONDS = 0.1


def check_can_exist(job_id: str, item_id: str) -> None:
    """A name that is no UTF-8, as a command line may have it, is no job item's. Raises NotFound."""
    if not is_clean(item_id):
        raise NotFound(f"job {job_id} has no item {item_id!r}")


class JobCatalog:
    """Jobs of one home, for who looks at them."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    async def find(self, prefix: str | None, *, unfinished: bool = False) -> Job:
        """The job whose id begins so; without a prefix the latest (unfinished) one.

        Raises NotFound, and InvalidRequest when several begin so.
        """
        if prefix is None:
            job_id = self._database.peek(
                lambda connection: JobStore(connection).latest_id(unfinished=unfinished)
            )
            if job_id is None:
                what = "no unfinished job" if unfinished else "no job yet"
                raise NotFound(
                    f"there is {what}", hint="`rowcrew list` shows the jobs, `rowcrew run` makes one"
                )
            return self.get(job_id)
        if not re.fullmatch(r"[0-9a-fA-F-]+", prefix):
            raise NotFound(f"{prefix!r} is no job id", hint="`rowcrew list` shows the jobs")
        ids = self._database.peek(lambda connection: JobStore(connection).list_ids_like(prefix.lower()))
        if not ids:
            raise NotFound(f"no job id begins with {prefix}", hint="`rowcrew list` shows the jobs")
        if len(ids) > 1:
            some = ", ".join(short(found) for found in ids[:5])
            raise InvalidRequest(f"several job ids begin with {prefix}: {some}", hint="give more of the id")
        return self.get(ids[0])

    async def view(self, job_id: str) -> JobView:
        """Raises NotFound."""
        return view_of(self.get(job_id), self._clock)

    async def items(
        self, job_id: str, *, status: JobItemStatus | None = None, offset: int = 0, limit: int = 100
    ) -> list[JobItem]:
        """A page of job items in row order. Raises NotFound."""
        self.get(job_id)
        return await self._database.read(
            lambda connection: JobItemStore(connection).list_page(
                job_id, status=status, offset=offset, limit=limit
            )
        )

    async def item(self, job_id: str, item_id: str) -> tuple[JobItem, list[Attempt]]:
        """One job item with all attempts, oldest first. Raises NotFound."""
        self.get(job_id)
        check_can_exist(job_id, item_id)

        def read(connection: Connection) -> tuple[JobItem, list[Attempt]]:
            items = JobItemStore(connection)
            return items.get(job_id, item_id), items.list_attempts(job_id, item_id)

        return await self._database.read(read)

    async def result(self, job_id: str) -> JobResult:
        """What `spawn_agents_on_csv` answers. Raises NotFound."""
        self.get(job_id)
        return await self._database.read(lambda connection: result_of(connection, job_id))

    async def wait(self, job_id: str, *, timeout: float | None) -> tuple[JobView, bool]:  # noqa: ASYNC109
        """Until the job is final or paused and its runner has let go. (view, timed out)."""
        deadline = None if timeout is None else self._clock.monotonic() + timeout
        while True:
            view = await self.view(job_id)
            at_rest = view.job.status.is_final or view.job.status is JobStatus.PAUSED
            if at_rest and not view.runner_active:
                return view, False
            if deadline is not None and self._clock.monotonic() >= deadline:
                return view, True
            await self._clock.sleep(POLL_SECONDS)

    def get(self, job_id: str) -> Job:
        """Raises NotFound."""
        return self._database.peek(lambda connection: JobStore(connection).get(job_id))

    # Last, because its name hides the builtin from the annotations below it.
    async def list(self) -> list[JobView]:
        """All jobs, the newest first."""
        jobs = self._database.peek(lambda connection: JobStore(connection).list_all())
        return [view_of(job, self._clock) for job in jobs]
