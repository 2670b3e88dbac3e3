"""The scripted worker does what its rows say, as far as one process can show without an engine."""

import asyncio
import csv
import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from rowcrew.domain.ids import new_id
from rowcrew.errors import ErrorClass
from rowcrew.processes import is_alive
from rowcrew.testing import RecordingReporter, make_order
from rowcrew.testing.scripted_worker import VERBS, notes_of, read_task
from rowcrew.workers.command import open_command
from rowcrew.workers.contract import Ended, Verdict, WorkerKind

ROWS = Path(__file__).parent.parent / "data" / "00-scripted-worker-rows" / "in.csv"


@pytest.fixture
async def kind(tmp_path: Path) -> AsyncIterator[WorkerKind]:
    kind = open_command(f"'{sys.executable}' -m rowcrew.testing.scripted_worker", folder=tmp_path)
    yield kind
    await kind.close()


async def _attempts(
    kind: WorkerKind, home: Path, do: str, count: int = 1
) -> tuple[list[Ended], list[object]]:
    """What so many attempts came to, and all that was reported."""
    reporter = RecordingReporter()
    ended = []
    for attempt in range(1, count + 1):
        order = make_order(
            report=reporter,
            home=home,
            row={"id": "w01", "do": do},
            attempt=attempt,
            thread_id=new_id(),
        )
        ended.append(await (await kind.start(order)).work())
    return ended, [reported.result for reported in reporter.reports]


def test_every_verb_of_the_case_is_known(tmp_path: Path) -> None:
    with ROWS.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    tasks = [
        read_task({"job_id": "j", "item_id": row["id"], "attempt": 1, "row": row}, tmp_path) for row in rows
    ]
    assert {task.verb for task in tasks} == set(VERBS)
    assert (tasks[5].argument, tasks[5].options) == ("", {"retry-after": "2", "times": "2"})


@pytest.mark.parametrize(
    ("do", "count", "ended", "results"),
    [
        ("ok", 1, [Ended()], [{"v": "w01"}]),
        ("ok:after=0.1", 1, [Ended()], [{"v": "w01"}]),
        ("kill9-self", 2, [Ended(ErrorClass.CRASHED, "killed by SIGKILL"), Ended()], [{"v": "w01"}]),
        ("kill9-self:always", 2, [Ended(ErrorClass.CRASHED, "killed by SIGKILL")] * 2, []),
        (
            "429:retry-after=2:times=2",
            3,
            [Ended(ErrorClass.RATE_LIMITED, "429 Too Many Requests", retry_after=2.0)] * 2 + [Ended()],
            [{"v": "w01"}],
        ),
        (
            "500:times=1",
            2,
            [Ended(ErrorClass.PROVIDER, "exited with status 75: 500 Internal Server Error"), Ended()],
            [{"v": "w01"}],
        ),
        ("end-without-report", 1, [Ended()], []),
        ("quota-exhausted", 1, [Ended(ErrorClass.ACCOUNT, "the credit of this account is used up")], []),
        ("stderr-flood=5000000", 1, [Ended()], [{"v": "w01"}]),
    ],
)
async def test_a_verb_that_ends_by_itself(
    do: str, count: int, ended: list[Ended], results: list[object], kind: WorkerKind, tmp_path: Path
) -> None:
    assert await _attempts(kind, tmp_path, do, count) == (ended, results)


async def test_a_huge_line_has_as_many_bytes_as_asked_for(kind: WorkerKind, tmp_path: Path) -> None:
    ended, [result] = await _attempts(kind, tmp_path, "huge-line=200000")
    assert ended == [Ended()]
    assert len(json.dumps(result)) + 1 == 200_000


async def test_an_unknown_verb_is_a_crash_that_names_the_known(kind: WorkerKind, tmp_path: Path) -> None:
    [ended], results = await _attempts(kind, tmp_path, "dance")
    assert (ended.error_class, results) == (ErrorClass.CRASHED, [])
    assert ended.message is not None
    assert ended.message.startswith("exited with status 2: unknown verb 'dance'; known: 429, 500, end-")


class Arrival(RecordingReporter):
    """Says when a report has come."""

    __slots__ = ("came",)

    def __init__(self) -> None:
        super().__init__()
        self.came = asyncio.Event()

    async def __call__(self, result: object, **options: Any) -> Verdict:
        self.came.set()
        return await super().__call__(result, **options)


async def test_a_report_is_taken_from_a_worker_that_then_hangs(kind: WorkerKind, tmp_path: Path) -> None:
    reporter = Arrival()
    row = {"id": "w19", "do": "report-then-hang"}
    worker = await kind.start(make_order(report=reporter, home=tmp_path, row=row, thread_id=new_id()))
    work = asyncio.create_task(worker.work())
    await asyncio.wait_for(reporter.came.wait(), 30)
    assert worker.process is not None
    assert is_alive(worker.process)
    await worker.end(5)
    assert await work == Ended()
    assert [reported.result for reported in reporter.reports] == [{"v": "w19"}]


async def test_notes_are_kept_per_job_item_without_its_text_in_a_name(
    kind: WorkerKind, tmp_path: Path
) -> None:
    await _attempts(kind, tmp_path, "500:times=1", 2)
    assert notes_of(tmp_path) == [
        {"item_id": "row-1", "attempt": 1, "event": "overloaded"},
        {"item_id": "row-1", "attempt": 2, "event": "overloaded"},
    ]
    assert [len(path.name) for path in (tmp_path / "scripted").iterdir()] == [len("0123456789abcdef.jsonl")]
