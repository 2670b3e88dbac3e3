"""Where a job's table goes, and what it may replace there."""

import asyncio
import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from rowcrew.domain.job import Job
from rowcrew.errors import Interrupted, InvalidRequest, StoreBusy
from rowcrew.scheduler.tables import write_job_table
from rowcrew.store.database import Database
from tests.store.job_store import JOB, Store, open_store


def parts_in(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir() if path.name.endswith(".part")]


async def job_of(store: Store) -> Job:
    return await store.jobs(lambda jobs: jobs.get(JOB))


async def test_a_table_may_be_written_any_number_of_times(tmp_path: Path) -> None:
    async with open_store(tmp_path) as store:
        await store.create(2, input_path=str(tmp_path / "in.csv"), output_path=str(tmp_path / "out.csv"))
        for _ in range(3):
            written = await write_job_table(store.database, await job_of(store))
        assert (written.path, written.row_count) == (tmp_path / "out.csv", 2)


async def test_a_file_that_another_put_there_meanwhile_is_not_replaced(tmp_path: Path) -> None:
    async with open_store(tmp_path) as store:
        await store.create(2, input_path=str(tmp_path / "in.csv"), output_path=str(tmp_path / "out.csv"))
        (tmp_path / "out.csv").write_text("another's")
        with pytest.raises(InvalidRequest, match="exists already"):
            await write_job_table(store.database, await job_of(store))
        assert (tmp_path / "out.csv").read_text() == "another's"


async def test_another_format_goes_beside_the_table_and_leaves_it_alone(tmp_path: Path) -> None:
    output = tmp_path / f"in.agent-job-{JOB[:8]}.csv"
    async with open_store(tmp_path) as store:
        await store.create(2, input_path=str(tmp_path / "in.csv"), output_path=str(output))
        await write_job_table(store.database, await job_of(store))
        before = output.read_text()
        for _ in range(2):
            written = await write_job_table(store.database, await job_of(store), output_format="jsonl")
        assert written.path == output.with_suffix(".jsonl")
        assert (output.read_text(), len(written.path.read_text().splitlines())) == (before, 2)


async def test_another_format_replaces_no_file_that_is_not_the_jobs(tmp_path: Path) -> None:
    async with open_store(tmp_path) as store:
        await store.create(2, input_path=str(tmp_path / "in.csv"), output_path=str(tmp_path / "out.csv"))
        (tmp_path / "out.jsonl").write_text("another's")
        with pytest.raises(InvalidRequest, match="exists already"):
            await write_job_table(store.database, await job_of(store), output_format="jsonl")


class SlowReader:
    """Keeps the work that it is to do in a thread, for the test to do it when its caller has gone."""

    def __init__(self) -> None:
        self.has_work = asyncio.Event()
        self.work: Callable[[Any], Any] = print

    async def read(self, work: Callable[[Any], Any]) -> None:
        self.work = work
        self.has_work.set()
        await asyncio.Event().wait()


async def test_a_table_that_nobody_waits_for_is_not_put_in_place(tmp_path: Path) -> None:
    target = tmp_path / "out.csv"
    async with open_store(tmp_path) as store:
        await store.create(2, input_path=str(tmp_path / "in.csv"), output_path=str(target))
        await write_job_table(store.database, await job_of(store))
        target.write_text("the one before")
        reader = SlowReader()
        writing = asyncio.create_task(write_job_table(cast("Database", reader), await job_of(store)))
        await reader.has_work.wait()
        writing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await writing
        with pytest.raises(Interrupted):
            await store.database.read(reader.work)
        assert target.read_text() == "the one before"
        assert parts_in(tmp_path) == []


async def test_a_table_put_in_place_by_a_process_that_then_died_is_the_jobs_own(tmp_path: Path) -> None:
    target = tmp_path / "out.csv"
    async with open_store(tmp_path) as store:
        await store.create(2, input_path=str(tmp_path / "in.csv"), output_path=str(target))
        for _ in range(2):  # dies of it more than once
            with pytest.raises(StoreBusy):
                await write_job_table(cast("Database", DiesBeforeNoting(store.database)), await job_of(store))
            assert (await job_of(store)).output_is_ours is False
            assert target.stat().st_nlink == 2
        written = await write_job_table(store.database, await job_of(store))
        assert (written.row_count, parts_in(tmp_path)) == (2, [])
        assert target.stat().st_nlink == 1
        assert (await job_of(store)).output_is_ours is True


async def test_a_table_that_someone_replaced_before_it_was_noted_is_theirs(tmp_path: Path) -> None:
    target = tmp_path / "out.csv"
    async with open_store(tmp_path) as store:
        await store.create(2, input_path=str(tmp_path / "in.csv"), output_path=str(target))
        with pytest.raises(StoreBusy):
            await write_job_table(cast("Database", DiesBeforeNoting(store.database)), await job_of(store))
        target.unlink()
        target.write_text("another's")
        with pytest.raises(InvalidRequest, match="exists already"):
            await write_job_table(store.database, await job_of(store))
        assert target.read_text() == "another's"
        target.unlink()
        await write_job_table(store.database, await job_of(store))
        assert parts_in(tmp_path) == []


async def test_where_a_file_has_but_one_name_the_table_is_written_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_links(*_: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", no_links)
    async with open_store(tmp_path) as store:
        await store.create(2, input_path=str(tmp_path / "in.csv"), output_path=str(tmp_path / "out.csv"))
        for _ in range(2):
            assert (await write_job_table(store.database, await job_of(store))).row_count == 2
    assert parts_in(tmp_path) == []


class DiesBeforeNoting:
    """The store of a process that is killed when the table stands, before it is noted whose it is."""

    def __init__(self, database: Any) -> None:
        self.read = database.read

    async def write(self, _: Callable[[Any], Any]) -> None:
        raise StoreBusy("killed")
