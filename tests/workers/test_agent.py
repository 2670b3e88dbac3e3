"""Workers that are agents, against a scripted server over real sockets: reporting, mending, ending."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from rowcrew.agent.builtin import Sandbox
from rowcrew.agent.control import AgentControl
from rowcrew.agent.models import ModelChoice
from rowcrew.agent.registry import AgentRegistry
from rowcrew.domain.attempt import Usage
from rowcrew.domain.events import TurnEnded
from rowcrew.domain.job import JobSettings
from rowcrew.domain.json_text import compact
from rowcrew.domain.lifecycle import TurnStatus
from rowcrew.errors import ErrorClass, InvalidRequest, LimitReached
from rowcrew.testing import (
    CallTool,
    EventLog,
    Failure,
    ModelServer,
    RecordingReporter,
    Reply,
    Reported,
    Silence,
    make_order,
    rate_limited,
)
from rowcrew.workers.agent import AgentKind, open_agent
from rowcrew.workers.contract import Ended, Verdict
from rowcrew.workers.kinds import Surroundings, open_kind

ONE = Usage(requests=1, input_tokens=10, output_tokens=5)
TWO = ONE + ONE


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")


def report(result: Any, *, item_id: str = "row-1", **more: Any) -> Reply:
    arguments = {"job_id": "job-1", "item_id": item_id, "result": result, **more}
    return Reply(calls=[CallTool("report_agent_job_result", arguments)])


@asynccontextmanager
async def crew(
    script: Any, folder: Path, *, max_threads: int | None = None
) -> AsyncIterator[tuple[AgentKind, ModelServer, AgentControl]]:
    async with ModelServer(script) as server, AgentControl(AgentRegistry(max_threads=max_threads)) as control:
        choice = ModelChoice("openai-chat:m", server.url)
        kind = await open_agent(choice, control=control, sandbox=Sandbox.open("read-only", folder))
        try:
            yield kind, server, control
        finally:
            await kind.close()
        assert control.registry.slots_used == 0


async def run(script: Any, folder: Path, *verdicts: Verdict) -> tuple[Ended, list[Reported], ModelServer]:
    reporter = RecordingReporter(verdicts)
    async with crew(script, folder) as (kind, server, _):
        worker = await kind.start(make_order(report=reporter))
        ended = await worker.work()
    return ended, reporter.reports, server


def told(server: ModelServer) -> list[Any]:
    """What the tools answered, in the last request."""
    return [entry["content"] for entry in server.requests[-1].entries if entry["role"] == "tool"]


async def test_a_worker_uses_its_tools_reports_and_is_not_asked_again(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("apple\n", encoding="utf-8")
    script = [Reply(calls=[CallTool("read_file", {"path": "a.txt"})]), report({"kind": "fruit"})]
    ended, reports, server = await run(script, tmp_path)
    assert ended == Ended()
    assert reports == [Reported({"kind": "fruit"}, stop=False, usage=TWO)]
    assert (server.arrived, told(server)) == (2, ["apple"])
    assert server.requests[0].last_user_text == "Say what this is."
    assert server.requests[0].tool_names == [
        "shell",
        "read_file",
        "list_dir",
        "search_files",
        "report_agent_job_result",
    ]


async def test_a_worker_can_stop_the_job(tmp_path: Path) -> None:
    _, reports, _ = await run([report({}, stop=True)], tmp_path)
    assert reports == [Reported({}, stop=True, usage=ONE)]


async def test_a_refused_result_is_mended_by_the_live_worker(tmp_path: Path) -> None:
    miss = Verdict(accepted=False, reason="at $.score: 7 is greater than the maximum of 5", mendable=True)
    ended, reports, server = await run([report({"score": 7}), report({"score": 5})], tmp_path, miss)
    assert ended == Ended()
    assert [one.result for one in reports] == [{"score": 7}, {"score": 5}]
    assert [one.usage for one in reports] == [ONE, ONE]
    assert [json.loads(text) for text in told(server)] == [{"accepted": False, "reason": miss.reason}]


async def test_a_result_that_is_no_object_reaches_the_check(tmp_path: Path) -> None:
    miss = Verdict(accepted=False, reason="result must be a JSON object", mendable=True)
    _, reports, _ = await run([report("text"), report({})], tmp_path, miss)
    assert [one.result for one in reports] == ["text", {}]


@pytest.mark.parametrize("last", [False, True])
async def test_a_result_that_is_not_mended_is_invalid_with_the_raw_answer(tmp_path: Path, last: bool) -> None:
    # Either the engine says that it has been enough, or the model gives up.
    verdict = Verdict(accepted=False, reason="at $: too small", mendable=not last)
    ended, reports, server = await run([report({"n": 1}), Reply("I give up")], tmp_path, verdict)
    usage = Usage() if last else ONE
    assert ended == Ended(ErrorClass.INVALID_RESULT, "at $: too small", raw_answer='{"n":1}', usage=usage)
    assert (len(reports), server.arrived) == (1, 1 if last else 2)


async def test_a_report_for_another_item_is_refused_and_only_so_often(tmp_path: Path) -> None:
    ended, reports, server = await run(lambda _: report({}, item_id="row-2"), tmp_path)
    reason = "your job id is job-1 and your item id is row-1: report those"
    assert ended == Ended(ErrorClass.INVALID_RESULT, reason, raw_answer="{}", usage=TWO + ONE)
    assert (reports, server.arrived) == ([], 3)


async def test_a_worker_that_ends_without_a_report_ends_in_good_order(tmp_path: Path) -> None:
    ended, reports, _ = await run(["it is a fruit"], tmp_path)
    assert (ended, reports) == (Ended(raw_answer="it is a fruit", usage=ONE), [])


async def test_broken_arguments_are_answered_and_can_be_mended(tmp_path: Path) -> None:
    broken = Reply(calls=[CallTool("report_agent_job_result", '{"job_id": "job-1", "item')])
    ended, reports, server = await run([broken, report({})], tmp_path)
    assert (ended, len(reports)) == (Ended(), 1)
    assert told(server)[0].startswith("the arguments are not valid JSON")


@pytest.mark.parametrize(
    "arguments",
    ['{"job_id": "job-1", "item', '{"job_id": "job-1", "item_id": "row-1", "result": {"a": NaN}}', "{}"],
)
async def test_a_report_that_cannot_be_read_is_one_all_the_same_and_only_so_often(
    tmp_path: Path, arguments: str
) -> None:
    broken = Reply(calls=[CallTool("report_agent_job_result", arguments)])
    ended, reports, server = await run(lambda _: broken, tmp_path)
    assert (ended.error_class, ended.raw_answer) == (ErrorClass.INVALID_RESULT, arguments)
    assert (reports, server.arrived) == ([], 3)


async def test_a_result_keeps_its_numbers_as_they_were_written(tmp_path: Path) -> None:
    result = '{"price":1.10,"id":12345678901234567890,"big":1e5}'
    text = f'{{"job_id":"job-1","item_id":"row-1","result":{result}}}'
    _, reports, _ = await run([Reply(calls=[CallTool("report_agent_job_result", text)])], tmp_path)
    assert [compact(one.result) for one in reports] == [result]


async def test_a_model_error_keeps_its_class_and_its_wait(tmp_path: Path) -> None:
    ended, _, _ = await run([rate_limited(7)], tmp_path)
    assert (ended.error_class, ended.retry_after, bool(ended.provider)) == (ErrorClass.RATE_LIMITED, 7, True)
    refused, _, _ = await run([Failure(400)], tmp_path)
    assert refused.error_class is ErrorClass.REFUSED


async def test_no_free_agent_slot_is_a_limit_and_ending_frees_it(tmp_path: Path) -> None:
    async with crew([Silence()], tmp_path, max_threads=1) as (kind, server, control):
        assert kind.max_concurrency == 1
        worker = await kind.start(make_order(report=RecordingReporter(), thread_id="a"))
        with pytest.raises(LimitReached):
            await kind.start(make_order(report=RecordingReporter(), thread_id="b"))
        async with asyncio.TaskGroup() as group:
            working = group.create_task(worker.work())
            await server.until(arrived=1)
            await worker.end(30)
        assert working.result() == Ended()
        assert control.registry.slots_free == 1


async def test_a_worker_ended_before_it_worked_does_nothing(tmp_path: Path) -> None:
    async with crew([report({})], tmp_path) as (kind, server, _):
        worker = await kind.start(make_order(report=RecordingReporter()))
        await worker.end(0)
        await worker.end(0)
        assert await worker.work() == Ended()
        assert server.arrived == 0


async def test_a_worker_ended_while_it_hears_that_it_is_done_has_completed_its_turn(tmp_path: Path) -> None:
    ending: list[asyncio.Task[None]] = []

    async def take(result: object, *, stop: bool = False, usage: Usage | None = None) -> Verdict:
        # What a runner does whose last row this was: it sees the stored report before the worker does.
        ending.append(asyncio.create_task(worker.end(5.0)))
        await asyncio.sleep(0)
        return Verdict(accepted=True)

    async with crew([report({})], tmp_path) as (kind, _, control):
        log = EventLog(control.bus)
        worker = await kind.start(make_order(report=take))
        assert await worker.work() == Ended()
        await asyncio.gather(*ending)
    assert [fact.status for fact in log.of(TurnEnded)] == [TurnStatus.COMPLETED]


async def test_cancelled_work_ends_its_agent(tmp_path: Path) -> None:
    async with crew([Silence()], tmp_path) as (kind, server, control):
        worker = await kind.start(make_order(report=RecordingReporter()))
        working = asyncio.create_task(worker.work())
        await server.until(arrived=1)
        working.cancel()
        with pytest.raises(asyncio.CancelledError):
            await working
        assert control.registry.slots_used == 0


async def test_many_workers_share_one_model_and_every_slot_comes_back(tmp_path: Path) -> None:
    async with crew(lambda _: report({"ok": 1}), tmp_path, max_threads=8) as (kind, server, control):

        async def one(number: int) -> Ended:
            order = make_order(report=RecordingReporter(), thread_id=f"t{number}")
            return await (await kind.start(order)).work()

        for start in range(0, 40, 8):
            ends = await asyncio.gather(*(one(number) for number in range(start, start + 8)))
            assert ends == [Ended()] * 8
        assert (server.arrived, control.registry.slots_free) == (40, 8)


def surroundings(home: Path) -> Surroundings:
    return Surroundings(home, 4, {}, 2, 1)


async def test_a_job_opens_the_kind_with_its_settings(tmp_path: Path) -> None:
    async with ModelServer([report({})]) as server:
        settings = JobSettings(model="openai-chat:m", base_url=server.url, working_folder=str(tmp_path))
        kind = await open_kind(settings, surroundings(tmp_path))
        reporter = RecordingReporter()
        assert kind.max_concurrency == 2
        assert await (await kind.start(make_order(report=reporter))).work() == Ended()
        await kind.close()
    assert len(reporter.reports) == 1


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda _: {"model": None}, "no model is chosen"),
        (lambda _: {"sandbox_mode": "open"}, "no sandbox mode 'open'"),
        (lambda folder: {"working_folder": str(folder / "none")}, "there is no folder"),
    ],
)
async def test_what_is_known_to_be_wrong_is_refused_before_row_one(
    tmp_path: Path, change: Callable[[Path], dict[str, Any]], sentence: str
) -> None:
    values = {"model": "openai-chat:m", "base_url": "http://127.0.0.1:9", **change(tmp_path)}
    with pytest.raises(InvalidRequest, match=sentence):
        await open_kind(JobSettings(**values), surroundings(tmp_path))
