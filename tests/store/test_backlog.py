"""Who makes writes can see how many wait, and is told when there are fewer."""

import asyncio
from pathlib import Path

from rowcrew.store.backlog import LONG, Backlog
from rowcrew.store.database import Database
from tests.store.job_store import busy_writer


async def test_a_file_says_when_many_of_its_writes_wait_and_when_they_do_no_more(tmp_path: Path) -> None:
    database = await Database.open(tmp_path / "state_1.sqlite", kind="state")
    told: list[int] = []
    seen = []
    async with busy_writer(database):
        # The one that keeps the writer busy counts too.
        for _ in range(LONG - 1):
            seen.append(database.backlog.is_long)
            asyncio.ensure_future(database.write(lambda _: None))  # noqa: RUF006 - the last write waits for it
            await asyncio.sleep(0)
        seen.append(database.backlog.is_long)
        database.backlog.when_shorter(lambda: told.append(1))
        await asyncio.sleep(0)
        assert told == []
    await database.write(lambda _: None)
    assert seen == [False] * (LONG - 1) + [True]
    assert told == [1]
    assert not database.backlog.is_long
    await database.close()


async def test_a_write_that_failed_or_whose_caller_left_waits_no_more_either(tmp_path: Path) -> None:
    database = await Database.open(tmp_path / "state_1.sqlite", kind="state")
    async with busy_writer(database):
        broken = [asyncio.ensure_future(database.write(lambda _: 1 / 0)) for _ in range(LONG)]
        left = [asyncio.ensure_future(database.write(lambda _: None)) for _ in range(LONG)]
        await asyncio.sleep(0)
        for write in left:
            write.cancel()
        assert database.backlog.is_long
    answers = await asyncio.gather(*broken, *left, return_exceptions=True)
    assert [type(answer) for answer in answers] == [ZeroDivisionError] * LONG + [
        asyncio.CancelledError
    ] * LONG
    await database.write(lambda _: None)
    assert not database.backlog.is_long
    await database.close()


async def test_who_asks_when_little_waits_is_told_at_once() -> None:
    told: list[str] = []
    backlog = Backlog(lambda: 0)
    backlog.when_shorter(lambda: told.append("now"))
    assert told == []
    await asyncio.sleep(0)
    assert told == ["now"]


def test_each_is_told_once_on_its_own_event_loop_and_a_closed_one_is_passed_over() -> None:
    count = LONG
    backlog = Backlog(lambda: count)
    told: list[str] = []

    async def wait(name: str) -> None:
        backlog.when_shorter(lambda: told.append(name))

    asyncio.run(wait("its loop is closed"))

    async def told_here() -> None:
        await wait("here")
        await asyncio.to_thread(backlog.shortened)
        await asyncio.to_thread(backlog.shortened)
        await asyncio.sleep(0)

    asyncio.run(told_here())
    assert told == ["here"]
