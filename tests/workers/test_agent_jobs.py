"""Whole jobs with agent workers: the real engine, the real client, a scripted model on a socket."""

import csv
import json
import re
from pathlib import Path
from typing import Any

import pytest

from rowcrew.config import Settings
from rowcrew.domain.item import JobItemStatus
from rowcrew.domain.job import JobSettings, JobStatus, RetryPolicy
from rowcrew.engine import Engine
from rowcrew.scheduler.creation import JobRequest
from rowcrew.scheduler.views import JobResult
from rowcrew.testing import CallTool, ModelServer, Reply
from rowcrew.testing.answers import Received

SCHEMA = {"type": "object", "properties": {"score": {"type": "integer", "maximum": 5}}, "required": ["score"]}


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")


def ids(received: Received) -> dict[str, str]:
    found = re.search(r"Job ID: (\S+)\nItem ID: (\S+)", received.text)
    assert found
    return {"job_id": found[1], "item_id": found[2]}


def report(received: Received, result: Any) -> Reply:
    return Reply(calls=[CallTool("report_agent_job_result", {**ids(received), "result": result})])


async def run_job(
    server: ModelServer,
    folder: Path,
    rows: int,
    *,
    model: str = "openai-chat:m",
    schema: dict[str, Any] = SCHEMA,
    config: dict[str, str] | None = None,
) -> tuple[JobResult, list[tuple[Any, ...]], int]:
    """The result, each item as (id, status, attempts, result, error), and the model requests paid for."""
    table = folder / "in.csv"
    table.write_text("name\n" + "".join(f"n{number}\n" for number in range(rows)), encoding="utf-8")
    settings = Settings.load(config or {}, folder=folder)
    job = JobSettings(
        worker="agent",
        model=model,
        base_url=server.url,
        max_concurrency=4,
        retry=RetryPolicy(max_attempts=1),
        working_folder=str(folder),
    )
    async with Engine.open(settings) as engine:
        created = await engine.jobs.create_from_table(
            JobRequest(table, "Score {name}.", output_schema=schema, settings=job)
        )
        result = await (await engine.jobs.start(created.job.id)).done()
        items = await engine.jobs.items(created.job.id)
        usage = (await engine.jobs.view(created.job.id)).job.usage
    told = [
        (item.item_id, item.status, item.attempt_count, item.result_json, item.last_error) for item in items
    ]
    return result, told, usage.requests


async def test_every_row_is_worked_on_by_one_agent_and_one_request(tmp_path: Path) -> None:
    async with ModelServer(lambda received: report(received, {"score": 3})) as server:
        result, items, requests = await run_job(server, tmp_path, 12)
    assert (result.status, result.completed_items, requests) == (JobStatus.COMPLETED, 12, 12)
    assert items == [(f"row-{n}", JobItemStatus.COMPLETED, 1, '{"score":3}', None) for n in range(1, 13)]


async def test_a_result_that_misses_the_schema_is_mended_by_the_same_attempt(tmp_path: Path) -> None:
    def answer(received: Received) -> Reply:
        mended = any(entry["role"] == "tool" for entry in received.entries)
        return report(received, {"score": 5 if mended else 9})

    async with ModelServer(answer) as server:
        result, items, _ = await run_job(server, tmp_path, 1)
    assert result.status == JobStatus.COMPLETED
    assert items == [("row-1", JobItemStatus.COMPLETED, 1, '{"score":5}', None)]
    told = next(entry["content"] for entry in server.requests[1].entries if entry["role"] == "tool")
    assert told.startswith('{"accepted":false,"reason":"at $.score: 9 is greater than the maximum of 5')


async def test_a_result_that_is_never_mended_is_an_invalid_attempt(tmp_path: Path) -> None:
    async with ModelServer(lambda received: report(received, {"score": 9})) as server:
        result, items, requests = await run_job(server, tmp_path, 1)
    assert (result.failed_items, server.arrived, requests) == (1, 3, 3)
    [(_, status, attempts, _, error)] = items
    assert (status, attempts) == (JobItemStatus.FAILED, 1)
    assert "greater than the maximum of 5" in error


async def test_an_agent_that_only_talks_has_not_reported(tmp_path: Path) -> None:
    async with ModelServer(lambda _: Reply("It is a three.")) as server:
        _, items, requests = await run_job(server, tmp_path, 1)
    sentence = "worker finished without calling report_agent_job_result"
    assert (items, requests) == ([("row-1", JobItemStatus.FAILED, 1, None, sentence)], 1)


@pytest.mark.parametrize("api", ["chat", "responses"])
async def test_text_that_cannot_be_stored_ends_no_job(tmp_path: Path, api: str) -> None:
    def answer(received: Received) -> Reply:
        if received.tool_outputs:
            return Reply("I \ud800 give up")
        return Reply("te\ud800xt", reasoning="h\ud800m", calls=[CallTool("list\ud800", {"path": "\ud800"})])

    async with ModelServer(answer) as server:
        _, items, requests = await run_job(server, tmp_path, 1, model=f"openai-{api}:m")
    sentence = "worker finished without calling report_agent_job_result"
    assert (items, requests) == ([("row-1", JobItemStatus.FAILED, 1, None, sentence)], 2)


async def test_a_result_comes_out_of_the_table_as_it_was_written(tmp_path: Path) -> None:
    result = '{"score":1.10,"id":12345678901234567890}'

    def answer(received: Received) -> Reply:
        text = json.dumps({**ids(received), "result": 0}).replace('"result": 0', f'"result": {result}')
        return Reply(calls=[CallTool("report_agent_job_result", text)])

    schema = {"type": "object", "properties": {"score": {"type": "number", "maximum": 5}}}
    async with ModelServer(answer) as server:
        done, items, _ = await run_job(server, tmp_path, 1, schema=schema)
    assert items == [("row-1", JobItemStatus.COMPLETED, 1, result, None)]
    assert [row["result.score"] for row in rows_of(done)] == ["1.10"]


def rows_of(done: JobResult) -> list[dict[str, str]]:
    with Path(done.output_csv_path).open(encoding="utf-8", newline="") as table:
        return [*csv.DictReader(table)]


async def test_a_row_whose_agent_goes_in_circles_ends_in_good_time(tmp_path: Path) -> None:
    async with ModelServer(Reply(calls=[CallTool("nope")])) as server:
        _, items, requests = await run_job(server, tmp_path, 1, config={"agents.max_turn_requests": "4"})
    [(_, status, attempts, _, error)] = items
    said = "the model was asked 4 times in one turn and came to no end (agents.max_turn_requests)"
    assert (status, attempts, error, requests) == (JobItemStatus.FAILED, 1, said, 4)
