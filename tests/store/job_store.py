"""A job in a real state file, for tests of the store."""

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import apsw

from rowcrew.domain.item import JobItemSpec
from rowcrew.domain.job import JobSettings
from rowcrew.processes import ProcessIdentity
from rowcrew.store.database import Database
from rowcrew.store.job_items import JobItemStore
from rowcrew.store.jobs import JobStore, LeaseClaim, NewJob

JOB = "11111111-0000-4000-8000-000000000001"
HEADERS = ("id", "text")


def new_job(job_id: str = JOB, **changes: Any) -> NewJob:
    values: dict[str, Any] = {
        "id": job_id,
        "name": "test",
        "instruction": "do {text}",
        "auto_export": True,
        "settings": JobSettings(worker="python:m:f"),
        "output_schema": None,
        "input_headers": HEADERS,
        "input_path": "/in.csv",
        "input_digest": "d",
        "input_size": 1,
        "output_path": "/out.csv",
        "output_is_ours": False,
        "fingerprint": "f",
    }
    return NewJob(**{**values, **changes})


def specs(count: int) -> list[JobItemSpec]:
    return [JobItemSpec(f"r{n}", n, f"r{n}", (f"r{n}", f"text {n}")) for n in range(count)]


def claim_of(owner: str, pid: int = 1) -> LeaseClaim:
    return LeaseClaim(owner=owner, host="here", process=ProcessIdentity(pid, "0", "boot"), up_ms=0)


class Store:
    """Short forms over a database; every call is a transaction of its own."""

    def __init__(self, database: Database) -> None:
        self.database = database

    async def jobs(self, work: Callable[[JobStore], Any]) -> Any:
        return await self.database.write(lambda connection: work(JobStore(connection)))

    async def items(self, work: Callable[[JobItemStore], Any]) -> Any:
        return await self.database.write(lambda connection: work(JobItemStore(connection)))

    async def sql(self, text: str, *values: Any) -> list[tuple[Any, ...]]:
        def run(connection: apsw.Connection) -> list[tuple[Any, ...]]:
            return list(connection.execute(text, values))

        return await self.database.write(run)

    async def create(self, count: int = 3, **changes: Any) -> None:
        await self.jobs(lambda jobs: jobs.create(new_job(**changes), specs(count), now=1))

    async def run_job(self) -> int:
        """Take the lease and start. The epoch."""
        epoch = await self.jobs(
            lambda jobs: jobs.take_lease(JOB, claim_of("me"), now=2, is_dead=lambda _: True)
        )
        assert await self.jobs(lambda jobs: jobs.start(JOB, now=2))
        return epoch


@asynccontextmanager
async def busy_writer(database: Database) -> AsyncIterator[None]:
    """While this is open, the writer is at work on something and all other writes wait."""
    busy, go_on = threading.Event(), threading.Event()

    def occupy(_: apsw.Connection) -> None:
        busy.set()
        go_on.wait(30)

    occupied = asyncio.create_task(database.write(occupy))
    await asyncio.to_thread(busy.wait, 30)
    try:
        yield
    finally:
        go_on.set()
        await occupied


async def side_by_side(database: Database, *writes: Awaitable[Any]) -> list[Any]:
    """What the writes come to, exceptions among it, when all of them wait for the writer at the same time."""
    async with busy_writer(database):
        waiting = [asyncio.ensure_future(write) for write in writes]
        await asyncio.sleep(0)
    return await asyncio.gather(*waiting, return_exceptions=True)


@asynccontextmanager
async def open_store(folder: Path) -> AsyncIterator[Store]:
    database = await Database.open(folder / "state_1.sqlite", kind="state")
    try:
        yield Store(database)
    finally:
        await database.close()
