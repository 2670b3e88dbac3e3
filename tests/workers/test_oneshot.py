"""One model request for each row, against a scripted server over real sockets."""

import asyncio
from typing import Any

import pytest

from rowcrew.agent.models import ModelChoice
from rowcrew.domain.attempt import Usage
from rowcrew.domain.job import JobSettings
from rowcrew.errors import ErrorClass, InvalidRequest
from rowcrew.testing import (
    Failure,
    ModelServer,
    RecordingReporter,
    Reply,
    Reported,
    Script,
    Silence,
    make_order,
    rate_limited,
)
from rowcrew.workers.contract import Ended, Verdict
from rowcrew.workers.kinds import Surroundings, open_kind
from rowcrew.workers.oneshot import OneshotKind, OneshotWorker, open_oneshot

GOOD = '{"answer": "fruit"}'
ONE = Usage(requests=1, input_tokens=10, output_tokens=5)


async def open_on(server: ModelServer) -> OneshotKind:
    return await open_oneshot(ModelChoice("openai-chat:m", server.url), environment={})


async def run(
    script: Script, reporter: RecordingReporter | None = None, **more: Any
) -> tuple[Ended, list[Reported], ModelServer]:
    reporter = reporter or RecordingReporter()
    async with ModelServer(script) as server:
        kind = await open_on(server)
        ended = await (await kind.start(make_order(report=reporter, **more))).work()
        await kind.close()
    return ended, reporter.reports, server


async def test_the_answer_is_reported_with_its_usage() -> None:
    ended, reports, server = await run(GOOD, prompt="Name the kind of Äpfel.")
    assert ended == Ended()
    assert reports == [Reported({"answer": "fruit"}, stop=False, usage=ONE)]
    [request] = server.requests
    assert request.last_user_text == "Name the kind of Äpfel."
    assert request.body["response_format"]["json_schema"]["schema"]["required"] == ["answer"]


async def test_the_jobs_schema_is_asked_for() -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    _, reports, server = await run('```json\n{"n": 3}\n```', output_schema=schema)
    assert [report.result for report in reports] == [{"n": 3}]
    asked = server.requests[0].body["response_format"]["json_schema"]["schema"]
    assert asked["properties"] == {"n": {"type": "integer"}}


async def test_an_answer_that_is_no_object_is_asked_for_again() -> None:
    ended, reports, server = await run(["Sure! It is a fruit.", GOOD])
    assert ended == Ended()
    assert reports == [Reported({"answer": "fruit"}, stop=False, usage=ONE + ONE)]
    assert (
        "That answer cannot be used: the answer is not one JSON object" in server.requests[1].last_user_text
    )
    assert [entry["role"] for entry in server.requests[1].entries][-2:] == ["assistant", "user"]


async def test_a_verdict_that_may_be_mended_is_told_to_the_model() -> None:
    reporter = RecordingReporter([Verdict(accepted=False, reason="at $.answer: too short", mendable=True)])
    ended, reports, server = await run(GOOD, reporter)
    assert ended == Ended()
    assert [report.usage for report in reports] == [ONE, ONE], "each request is booked once"
    assert "at $.answer: too short" in server.requests[1].last_user_text


async def test_a_verdict_that_may_not_be_mended_ends_the_work() -> None:
    reporter = RecordingReporter([Verdict(accepted=False, reason="the job item is no longer running")])
    ended, reports, server = await run(GOOD, reporter)
    assert (ended, reports[0].usage, server.arrived) == (Ended(), ONE, 1)


async def test_after_two_repairs_the_result_is_invalid_and_the_answer_kept() -> None:
    ended, reports, server = await run(["no", "still no", "[1]"])
    assert ended == Ended(
        ErrorClass.INVALID_RESULT,
        "no usable answer: result must be a JSON object",
        raw_answer="[1]",
        provider=server.origin.removeprefix("http://"),
        usage=ONE + ONE + ONE,
    )
    assert (reports, server.arrived) == ([], 3)


async def test_an_answer_cut_at_the_limit_is_not_asked_for_again() -> None:
    ended, reports, server = await run(Reply(text='{"answer": "and on and', finish="length"))
    assert (ended.error_class, ended.message) == (
        ErrorClass.INVALID_RESULT,
        "the answer was cut off at the token limit",
    )
    assert (ended.raw_answer, ended.usage, reports, server.arrived) == ('{"answer": "and on and', ONE, [], 1)


async def test_a_withheld_answer_is_refused() -> None:
    ended, _, _ = await run(Reply(text="", finish="content_filter"))
    assert ended.error_class is ErrorClass.REFUSED


async def test_a_failure_of_the_model_ends_the_work_with_its_class() -> None:
    ended, _, server = await run(["what?", rate_limited(3)])
    assert (ended.error_class, ended.retry_after) == (ErrorClass.RATE_LIMITED, 3.0)
    assert (ended.provider, ended.usage) == (server.origin.removeprefix("http://"), ONE)
    ended, _, _ = await run(Failure(400, None, "no such thing"))
    assert (ended.error_class, (ended.message or "").partition(": ")[2]) == (
        ErrorClass.REFUSED,
        "answered 400: no such thing",
    )


async def start(server: ModelServer) -> tuple[OneshotKind, OneshotWorker, "asyncio.Task[Ended]"]:
    kind = await open_on(server)
    worker = await kind.start(make_order(report=RecordingReporter()))
    return kind, worker, asyncio.create_task(worker.work())


async def test_end_breaks_the_request_off_and_may_be_called_twice() -> None:
    async with ModelServer(Silence()) as server:
        kind, worker, working = await start(server)
        await server.until(arrived=1)
        await asyncio.gather(worker.end(5), worker.end(0))
        assert await working == Ended()
        await server.until(abandoned=1)
        await kind.close()


async def test_a_worker_that_was_ended_does_no_work() -> None:
    async with ModelServer(GOOD) as server:
        kind = await open_on(server)
        worker = await kind.start(make_order(report=RecordingReporter()))
        await worker.end(5)
        assert (await worker.work(), server.arrived, worker.process) == (Ended(), 0, None)
        await kind.close()


async def test_cancelling_the_work_breaks_the_request_off() -> None:
    async with ModelServer(Silence()) as server:
        kind, _, working = await start(server)
        await server.until(arrived=1)
        working.cancel()
        await asyncio.wait([working])
        assert working.cancelled()
        await server.until(abandoned=1)
        await kind.close()


async def test_the_kind_is_opened_by_its_name_with_the_jobs_settings(tmp_path: Any) -> None:
    around = Surroundings(tmp_path, concurrency=4, model_providers={}, max_threads=None, max_depth=1)
    with pytest.raises(InvalidRequest, match="no model is chosen"):
        await open_kind(JobSettings(worker="oneshot"), around)
    async with ModelServer(GOOD) as server:
        settings = JobSettings(worker="oneshot", model="m", base_url=server.url)
        kind = await open_kind(settings, around)
        reporter = RecordingReporter()
        assert kind.max_concurrency is None
        assert await (await kind.start(make_order(report=reporter))).work() == Ended()
        await kind.close()
    assert [report.result for report in reporter.reports] == [{"answer": "fruit"}]
