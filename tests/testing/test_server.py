"""The scripted model server, driven by the official client and by bare HTTP."""

import asyncio
import json
from collections.abc import AsyncIterator

import aiohttp
import openai
import pytest

from rowcrew.testing import (
    CallTool,
    Cut,
    Failure,
    FakeClock,
    HalfJson,
    ModelServer,
    Received,
    Reply,
    Silence,
    context_too_long,
    out_of_credit,
    rate_limited,
)

TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}
FLAT_TOOL = {"type": "function", "name": "look", "parameters": {"type": "object", "properties": {}}}
ASKED = [{"role": "system", "content": "Be short."}, {"role": "user", "content": "What is it?"}]
REPLY = Reply(
    text="a text of some length, in pieces",
    calls=[CallTool("look", {"path": "."}), CallTool("look", "{broken", id="mine")],
    input_tokens=7,
    output_tokens=3,
    cached_tokens=2,
    reasoning_tokens=1,
)


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session


def client_of(server: ModelServer) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(base_url=server.url, api_key="none", max_retries=0)


async def test_a_chat_completion_has_text_calls_and_usage() -> None:
    async with ModelServer(REPLY) as server, client_of(server) as client:
        done = await client.chat.completions.create(model="m", messages=ASKED, tools=[TOOL])
    message = done.choices[0].message
    assert message.content == REPLY.text
    assert [(call.id, call.function.name, call.function.arguments) for call in message.tool_calls or []] == [
        ("call_0_0", "look", '{"path": "."}'),
        ("mine", "look", "{broken"),
    ]
    assert done.choices[0].finish_reason == "tool_calls"
    assert done.usage is not None
    assert (done.usage.prompt_tokens, done.usage.completion_tokens) == (7, 3)
    assert done.usage.prompt_tokens_details.cached_tokens == 2
    assert done.usage.completion_tokens_details.reasoning_tokens == 1


async def test_a_streamed_chat_completion_says_the_same_in_pieces() -> None:
    usage = {"include_usage": True}
    async with (
        ModelServer(REPLY) as server,
        client_of(server) as client,
        client.chat.completions.stream(model="m", messages=ASKED, stream_options=usage) as stream,
    ):
        done = await stream.get_final_completion()
    message = done.choices[0].message
    assert message.content == REPLY.text
    assert [call.function.arguments for call in message.tool_calls or []] == ['{"path": "."}', "{broken"]
    assert done.usage.total_tokens == 10


async def test_a_response_has_text_calls_and_usage() -> None:
    async with ModelServer(REPLY) as server, client_of(server) as client:
        done = await client.responses.create(model="m", input=ASKED, tools=[FLAT_TOOL])
    assert done.output_text == REPLY.text
    assert [(item.call_id, item.arguments) for item in done.output if item.type == "function_call"] == [
        ("call_0_0", '{"path": "."}'),
        ("mine", "{broken"),
    ]
    assert done.status == "completed"
    assert done.usage.model_dump(include={"input_tokens", "output_tokens"}) == {
        "input_tokens": 7,
        "output_tokens": 3,
    }
    assert done.usage.input_tokens_details.cached_tokens == 2
    assert done.usage.output_tokens_details.reasoning_tokens == 1


async def test_a_streamed_response_says_the_same_in_pieces() -> None:
    reply = Reply(text=REPLY.text, calls=[CallTool("look", {"path": "."})], reasoning="hm")
    async with (
        ModelServer(reply) as server,
        client_of(server) as client,
        client.responses.stream(model="m", input="What is it?") as stream,
    ):
        kinds = [event.type async for event in stream]
        done = await stream.get_final_response()
    assert done.output_text == REPLY.text
    assert [item.type for item in done.output] == ["reasoning", "message", "function_call"]
    assert (kinds[0], kinds[-1]) == ("response.created", "response.completed")
    assert kinds.count("response.output_item.added") == kinds.count("response.output_item.done") == 3


async def test_an_answer_at_the_token_limit_says_so_in_both_shapes() -> None:
    async with ModelServer(Reply(text="half", finish="length")) as server, client_of(server) as client:
        chat = await client.chat.completions.create(model="m", messages=ASKED)
        response = await client.responses.create(model="m", input="What?")
    assert chat.choices[0].finish_reason == "length"
    assert (response.status, response.incomplete_details.reason) == ("incomplete", "max_output_tokens")


async def test_the_models_are_listed() -> None:
    async with ModelServer(models=["one", "two"]) as server, client_of(server) as client:
        assert [model.id async for model in client.models.list()] == ["one", "two"]


async def test_requests_are_recorded_in_order_with_their_time() -> None:
    clock = FakeClock()
    async with ModelServer(["first", "second"], clock=clock) as server, client_of(server) as client:
        await client.chat.completions.create(model="m", messages=ASKED, tools=[TOOL])
        await clock.advance(5)
        await client.responses.create(model="m", input="And now?", instructions="Be long.", tools=[FLAT_TOOL])
        first, second = server.requests
    assert (first.number, first.at, first.api, first.outcome) == (0, 0.0, "chat", "answered")
    assert (first.last_user_text, first.text) == ("What is it?", "Be short.\nWhat is it?")
    assert (first.headers["authorization"], first.tool_names) == ("Bearer none", ["look"])
    assert (second.number, second.at, second.api) == (1, 5.0, "responses")
    assert (second.last_user_text, second.text) == ("And now?", "Be long.\nAnd now?")
    assert second.tool_names == ["look"]


async def test_tool_outputs_are_found_by_call_id_in_both_shapes() -> None:
    said = {"role": "assistant", "tool_calls": [{"id": "c1", "type": "function", "function": {}}]}
    async with ModelServer() as server, client_of(server) as client:
        await client.chat.completions.create(
            model="m",
            messages=[*ASKED, said, {"role": "tool", "tool_call_id": "c1", "content": "x"}],
        )
        await client.responses.create(
            model="m", input=[{"type": "function_call_output", "call_id": "c1", "output": "y"}]
        )
        assert [request.tool_outputs for request in server.requests] == [{"c1": "x"}, {"c1": "y"}]


async def test_failures_come_with_status_code_and_headers() -> None:
    seen = []
    script = [rate_limited(2, milliseconds=1500), out_of_credit(), context_too_long(), Failure(503)]
    async with ModelServer(script) as server, client_of(server) as client:
        for _ in script:
            with pytest.raises(openai.APIStatusError) as caught:
                await client.responses.create(model="m", input="What?")
            seen.append(
                (
                    caught.value.status_code,
                    caught.value.code,
                    caught.value.response.headers.get("retry-after"),
                )
            )
        with pytest.raises(openai.BadRequestError, match="no more answers than 4"):
            await client.responses.create(model="m", input="What?")
    assert seen == [
        (429, "rate_limit_exceeded", "2"),
        (429, "insufficient_quota", None),
        (400, "context_length_exceeded", None),
        (503, None, None),
    ]


async def test_a_script_that_raises_shows_in_the_client() -> None:
    def broken(_: Received) -> str:
        raise KeyError("nope")

    async with ModelServer(broken) as server, client_of(server) as client:
        with pytest.raises(openai.BadRequestError, match="KeyError"):
            await client.responses.create(model="m", input="What?")


@pytest.mark.parametrize("path", ["chat/completions", "responses"])
@pytest.mark.parametrize("stream", [False, True])
async def test_a_cut_connection_ends_in_mid_answer(
    http: aiohttp.ClientSession, path: str, stream: bool
) -> None:
    async with ModelServer(Cut()) as server:
        response = await http.post(f"{server.url}/{path}", json={"model": "m", "stream": stream})
        assert response.status == 200
        with pytest.raises(aiohttp.ClientPayloadError):
            await response.read()


async def test_half_json_ends_in_good_order(http: aiohttp.ClientSession) -> None:
    async with ModelServer(HalfJson()) as server:
        response = await http.post(f"{server.url}/responses", json={"model": "m"})
        text = await response.text()
    with pytest.raises(json.JSONDecodeError):
        json.loads(text)


async def test_silence_lasts_until_the_client_gives_up() -> None:
    async with ModelServer(Silence()) as server, client_of(server) as client:
        asking = asyncio.ensure_future(client.responses.create(model="m", input="What?"))
        await server.until(arrived=1)
        assert (server.in_flight, server.answered) == (1, 0)
        asking.cancel()
        await asyncio.wait([asking])
        await server.until(abandoned=1)
        assert (server.in_flight, server.requests[0].outcome) == (0, "abandoned")


async def test_a_silent_server_can_be_left(http: aiohttp.ClientSession) -> None:
    async with ModelServer(Silence()) as server:
        asking = asyncio.ensure_future(http.post(f"{server.url}/responses", json={}))
        await server.until(arrived=1)
    [done], _ = await asyncio.wait([asking])
    assert done.exception() is not None or done.result().status == 503


async def test_a_delay_runs_on_the_servers_clock() -> None:
    clock = FakeClock()
    async with ModelServer(Reply(text="late", delay=30), clock=clock) as server, client_of(server) as client:
        asking = asyncio.ensure_future(client.responses.create(model="m", input="What?"))
        await clock.until_sleeping(1)
        await clock.advance(30)
        assert (await asking).output_text == "late"


async def test_a_script_may_hold_answers_back_and_the_peak_is_known(http: aiohttp.ClientSession) -> None:
    gate = asyncio.Event()

    async def held(received: Received) -> str:
        await gate.wait()
        return f"answer {received.number}"

    async with ModelServer(held) as server:
        asking = [asyncio.ensure_future(http.post(f"{server.url}/responses", json={})) for _ in range(40)]
        await server.until(arrived=40)
        assert server.in_flight == 40
        gate.set()
        assert {response.status for response in await asyncio.gather(*asking)} == {200}
        assert (server.peak, server.answered) == (40, 40)


async def test_a_tool_of_a_namespace_is_named_and_called_with_it() -> None:
    script = [Reply(calls=[CallTool("look", {"at": 1}, id="c1", namespace="mcp__eyes")])]
    tools = [{"type": "namespace", "name": "mcp__eyes", "tools": [{"type": "function", "name": "look"}]}]
    async with ModelServer(script) as server, aiohttp.ClientSession() as session:
        asked = await session.post(
            f"{server.url}/responses", json={"model": "m", "input": "?", "tools": tools}
        )
        [item] = (await asked.json())["output"]
        assert server.requests[0].tool_names == ["mcp__eyes.look"]
    assert (item["namespace"], item["name"], item["call_id"]) == ("mcp__eyes", "look", "c1")
