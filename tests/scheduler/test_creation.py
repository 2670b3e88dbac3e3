"""What is checked of a request before a job of it is stored."""

import asyncio
import os
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from rowcrew.clock import SystemClock
from rowcrew.domain.intake import Table
from rowcrew.domain.job import JobSettings
from rowcrew.errors import Interrupted, InvalidRequest
from rowcrew.scheduler.creation import (
    JobRequest,
    Prepared,
    find_input,
    in_thread,
    prepare,
    read_chunks,
    store,
)
from tests.store.job_store import open_store

FOREIGN = os.fsdecode(b"caf\xe9")


@pytest.fixture
def request_of_a_table(tmp_path: Path) -> JobRequest:
    path = tmp_path / "in.csv"
    path.write_text("id,name\n1,Ada\n")
    return JobRequest(path, "Greet {name}")


def test_what_is_no_utf_8_is_refused_by_name_and_not_by_the_store(request_of_a_table: JobRequest) -> None:
    asked = request_of_a_table
    foreign_table = asked.input_path.with_name(f"{FOREIGN}.csv")
    foreign_table.write_text("id,name\n1,Ada\n")
    refusals = []
    for request in (
        replace(asked, instruction=FOREIGN),
        replace(asked, instruction=f"{{{FOREIGN}}}"),
        replace(asked, name=FOREIGN),
        replace(asked, input_path=foreign_table),
        replace(asked, output_path=Path(FOREIGN)),
        replace(asked, settings=JobSettings(worker=f"command:{FOREIGN}")),
        replace(asked, settings=JobSettings(model=FOREIGN)),
        replace(asked, settings=JobSettings(base_url=FOREIGN)),
        replace(asked, settings=JobSettings(working_folder=FOREIGN)),
    ):
        with pytest.raises(InvalidRequest) as caught:
            prepare(request)
        refusals.append(caught.value.message)
    assert refusals == [
        "the instruction is not UTF-8 text: caf\\udce9",
        "the instruction is not UTF-8 text: {caf\\udce9}",
        "the name of the job is not UTF-8 text: caf\\udce9",
        f"the path of the table is not UTF-8 text: {foreign_table.parent}/caf\\udce9.csv",
        "the path of the output is not UTF-8 text: caf\\udce9",
        "the worker is not UTF-8 text: command:caf\\udce9",
        "the model is not UTF-8 text: caf\\udce9",
        "the base URL is not UTF-8 text: caf\\udce9",
        "the folder that the job starts from is not UTF-8 text: caf\\udce9",
    ]


@pytest.mark.parametrize("seconds", [0.0, -1.0, 1e9, float("inf"), float("nan")])
def test_a_time_limit_that_is_none_is_refused_with_both_its_bounds(
    request_of_a_table: JobRequest, seconds: float
) -> None:
    with pytest.raises(InvalidRequest, match="must be greater than 0 and less than 1,000,000,000"):
        prepare(replace(request_of_a_table, settings=JobSettings(max_runtime_seconds=seconds)))


def test_a_path_that_leads_to_no_table_is_refused_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "file").touch()
    os.mkfifo(tmp_path / "pipe")
    long = "x" * 300
    refusals = []
    for name in ("nowhere", "file/below", "a\0b", "loop", long, ".", "pipe"):
        with pytest.raises(InvalidRequest) as caught:
            find_input(tmp_path / name)
        refusals.append(caught.value.message.replace(f"{tmp_path}/", ""))
    assert refusals == [
        "there is no file nowhere",
        "there is no file file/below",
        "there is no file a\0b",
        "cannot read loop: Too many levels of symbolic links",
        f"cannot read {long}: File name too long",
        f"{tmp_path} is a folder",
        "pipe is not a regular file, and a table is read twice",
    ]


class TableInHand:
    """A table whose second reading, the one that stores it, waits until it is given up."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.gone = threading.Event()
        self.is_being_stored = threading.Event()
        self.readings = 0

    def prepared(self, request: JobRequest, *, heeds: bool) -> Prepared:
        usual = prepare(request)
        table = Table.survey(lambda: self._chunks(heeds=heeds), request.table)
        return replace(usual, table=table, gone=self.gone)

    def _chunks(self, *, heeds: bool) -> Iterator[bytes]:
        self.readings += 1
        if self.readings == 2:
            self.is_being_stored.set()
            assert self.gone.wait(60)
        yield from read_chunks(self.path, self.gone if heeds else None)


@pytest.mark.parametrize("heeds", [True, False], ids=["given up half-way", "stored all the same"])
async def test_who_gives_up_while_a_job_is_stored_leaves_no_job_behind(
    request_of_a_table: JobRequest, tmp_path: Path, heeds: bool
) -> None:
    hand = TableInHand(request_of_a_table.input_path)
    prepared = hand.prepared(request_of_a_table, heeds=heeds)
    async with open_store(tmp_path) as opened:
        storing = asyncio.create_task(store(opened.database, SystemClock(), request_of_a_table, prepared))
        await asyncio.to_thread(hand.is_being_stored.wait, 60)
        storing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await storing
        assert await opened.sql("SELECT count(*) FROM agent_jobs") == [(0,)]
        assert await opened.sql("SELECT count(*) FROM agent_job_items") == [(0,)]


async def test_a_table_is_read_no_further_for_nobody(request_of_a_table: JobRequest) -> None:
    begun, ended = threading.Event(), threading.Event()

    def work(gone: threading.Event) -> None:
        begun.set()
        assert gone.wait(60)
        with pytest.raises(Interrupted):
            prepare(request_of_a_table, gone)
        ended.set()

    reading = asyncio.create_task(in_thread(work))
    await asyncio.to_thread(begun.wait, 60)
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    assert await asyncio.to_thread(ended.wait, 60)
