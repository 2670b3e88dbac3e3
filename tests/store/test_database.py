"""One file, one writer: what is answered is on the disk, what failed left nothing."""

import asyncio
import subprocess
import sys
from pathlib import Path

import apsw
import pytest

from rowcrew.errors import Conflict, DiskFull, StoreDamaged, StoreError
from rowcrew.store.database import Database, NotTogether, retry_busy
from rowcrew.store.reserve import RESERVE_BYTES, Reserve
from tests.store.job_store import side_by_side


def add(number: int) -> object:
    return lambda connection: connection.execute("INSERT INTO numbers VALUES (?)", (number,))


def numbers(connection: apsw.Connection) -> list[int]:
    return [row[0] for row in connection.execute("SELECT n FROM numbers ORDER BY n")]


async def open_numbers(folder: Path) -> Database:
    database = await Database.open(folder / "state_1.sqlite", kind="state")
    await database.write(lambda connection: connection.execute("CREATE TABLE IF NOT EXISTS numbers (n)"))
    return database


async def test_many_writes_at_once_are_all_on_the_disk_when_answered(tmp_path: Path) -> None:
    database = await open_numbers(tmp_path)
    await asyncio.gather(*(database.write(add(n)) for n in range(1000)))
    other = apsw.Connection(str(database.path))
    assert numbers(other) == list(range(1000))
    other.close()
    await database.close()


async def test_a_write_that_raises_leaves_nothing_and_its_neighbours_stay(tmp_path: Path) -> None:
    database = await open_numbers(tmp_path)

    def half(connection: apsw.Connection) -> None:
        connection.execute("INSERT INTO numbers VALUES (666)")
        raise Conflict("no")

    results = await asyncio.gather(
        database.write(add(1)), database.write(half), database.write(add(2)), return_exceptions=True
    )
    assert isinstance(results[1], Conflict)
    assert await database.read(numbers) == [1, 2]
    await database.close()


async def test_a_write_that_raises_while_no_other_waits_leaves_nothing_either(tmp_path: Path) -> None:
    database = await open_numbers(tmp_path)

    def half(connection: apsw.Connection) -> None:
        connection.execute("INSERT INTO numbers VALUES (666)")
        raise Conflict("no")

    for number in (1, 2):
        with pytest.raises(Conflict):
            await database.write(half)
        await database.write(add(number))
    assert await database.read(numbers) == [1, 2]
    await database.close()


async def test_a_cancelled_caller_does_not_undo_its_write(tmp_path: Path) -> None:
    database = await open_numbers(tmp_path)
    task = asyncio.create_task(database.write(add(7)))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await database.write(add(8))
    assert database.peek(numbers) == [7, 8]
    await database.close()


async def test_a_rule_of_the_tables_that_is_broken_is_an_error_of_that_write_alone(tmp_path: Path) -> None:
    database = await open_numbers(tmp_path)
    await database.write(lambda connection: connection.execute("CREATE UNIQUE INDEX u ON numbers (n)"))
    results = await asyncio.gather(
        database.write(add(1)), database.write(add(1)), database.write(add(2)), return_exceptions=True
    )
    assert [type(result) for result in results if isinstance(result, Exception)] == [StoreError]
    assert await database.read(numbers) == [1, 2]
    await database.close()


async def test_writes_with_the_same_work_that_wait_side_by_side_are_one_call(tmp_path: Path) -> None:
    database = await open_numbers(tmp_path)
    calls: list[list[int]] = []

    def add_all(connection: apsw.Connection, given: list[int]) -> list[str]:
        calls.append(given)
        connection.executemany("INSERT INTO numbers VALUES (?)", [(n,) for n in given])
        return [f"added {n}" for n in given]

    one, two, three = (database.write_with_others(add_all, n) for n in (1, 2, 3))
    results = await side_by_side(database, one, two, database.write(numbers), three)
    assert results == ["added 1", "added 2", [1, 2], "added 3"]
    assert calls == [[1, 2], [3]]
    await database.close()


async def test_where_they_cannot_be_one_call_each_is_run_by_itself(tmp_path: Path) -> None:
    database = await open_numbers(tmp_path)
    await database.write(lambda connection: connection.execute("CREATE UNIQUE INDEX u ON numbers (n)"))

    def add_all(connection: apsw.Connection, given: list[int]) -> list[int]:
        connection.executemany("INSERT INTO numbers VALUES (?)", [(n,) for n in given])
        if 13 in given:
            raise Conflict("not that one")
        if 7 in given and len(given) > 1:
            raise NotTogether
        return given

    # Why the first call fails: one of them raises, one breaks a rule, one wants to be alone.
    for given, expected in (
        ((1, 13, 2), [1, Conflict, 2]),
        ((3, 3, 4), [3, StoreError, 4]),
        ((5, 7, 6), [5, 7, 6]),
    ):
        results = await side_by_side(database, *(database.write_with_others(add_all, n) for n in given))
        assert [type(one) if isinstance(one, Exception) else one for one in results] == expected
    assert await database.read(numbers) == [1, 2, 3, 4, 5, 6, 7]
    await database.close()


def test_a_lock_error_is_tried_three_times_and_another_error_once() -> None:
    tries: list[str] = []

    def fail_with(error: Exception) -> object:
        def work() -> None:
            tries.append(type(error).__name__)
            raise error

        return work

    with pytest.raises(apsw.BusyError):
        retry_busy(fail_with(apsw.BusyError("locked")))
    with pytest.raises(apsw.SQLError):
        retry_busy(fail_with(apsw.SQLError("syntax")))
    assert tries == ["BusyError", "BusyError", "BusyError", "SQLError"]


async def test_a_damaged_file_is_named_and_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "state_1.sqlite"
    path.write_bytes(b"this was never a database, but it may be somebody's" * 100)
    before = path.read_bytes()
    with pytest.raises(StoreDamaged, match=r"state_1\.sqlite is damaged"):
        await Database.open(path, kind="state")
    assert path.read_bytes() == before


async def test_opening_is_recorded_phase_by_phase(tmp_path: Path) -> None:
    database = await Database.open(tmp_path / "state_1.sqlite", kind="state")
    assert [phase.name for phase in database.phases] == ["open", "migrate", "reserve"]
    await database.close()


OPEN_AT_ONCE = """
import asyncio, pathlib, sys
from rowcrew.store.database import Database
async def main():
    database = await Database.open(pathlib.Path(sys.argv[1]), kind="state")
    await database.write(lambda c: c.execute("UPDATE agent_jobs SET name = name"))
    await database.close()
asyncio.run(main())
"""


def test_eight_processes_open_a_fresh_home_at_once(tmp_path: Path) -> None:
    command = [sys.executable, "-c", OPEN_AT_ONCE, str(tmp_path / "state_1.sqlite")]
    started = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(8)]
    assert [process.communicate(timeout=60)[1] for process in started] == [""] * 8


async def test_the_reserve_is_given_up_once_so_that_paid_results_still_fit(tmp_path: Path) -> None:
    database = await open_numbers(tmp_path)
    assert (tmp_path / "reserve").stat().st_size == RESERVE_BYTES
    room = iter([False, True])

    def full_once(connection: apsw.Connection) -> None:
        if not next(room):
            raise apsw.FullError("database or disk is full")
        connection.execute("INSERT INTO numbers VALUES (1)")

    await database.write(full_once)
    assert (database.out_of_room, (tmp_path / "reserve").exists()) == (True, False)
    assert await database.read(numbers) == [1]

    def full(connection: apsw.Connection) -> None:
        raise apsw.FullError("database or disk is full")

    with pytest.raises(DiskFull):
        await database.write(full)
    await database.write(add(2))
    assert await database.read(numbers) == [1, 2]
    await database.close()


def test_no_room_for_a_reserve_is_no_error(tmp_path: Path) -> None:
    reserve = Reserve(tmp_path / "missing" / "reserve")
    reserve.fill()
    assert reserve.release() is False
