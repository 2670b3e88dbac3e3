"""The seam to a language model, against a scripted server over real sockets."""

import asyncio
import json
import time
from email.utils import formatdate
from typing import Any

import pytest
from pydantic_ai.exceptions import ModelHTTPError, ModelRequestRejectedError
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    SystemPromptPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.tools import ToolDefinition

from rowcrew.agent.model_errors import translate
from rowcrew.agent.models import ModelChoice, ModelClient, choose
from rowcrew.domain.attempt import Usage
from rowcrew.errors import ErrorClass, InvalidRequest, ModelError
from rowcrew.testing import (
    CallTool,
    Cut,
    Failure,
    HalfJson,
    ModelServer,
    Received,
    Reply,
    Script,
    Silence,
    context_too_long,
    out_of_credit,
    overloaded,
    rate_limited,
    unauthorized,
)

KEY = "sk-test1234567890"
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"label": {"type": "string"}},
    "required": ["label"],
    "additionalProperties": False,
}
LOOK = ToolDefinition(
    name="look", description="Look.", parameters_json_schema={"type": "object", "properties": {}}
)
BOTH = pytest.mark.parametrize("prefix", ["openai-chat", "openai-responses"])


def question(text: str = "What is it?") -> list[ModelMessage]:
    return [ModelRequest([SystemPromptPart("Be short."), UserPromptPart(text)])]


async def client_of(server: ModelServer, name: str = "openai-chat:m", **more: Any) -> ModelClient:
    return await ModelClient.open(ModelChoice(name, server.url, **more), environment={"OPENAI_API_KEY": KEY})


async def error_of(script: Script, name: str = "openai-chat:m", **more: Any) -> ModelError:
    async with ModelServer(script) as server, await client_of(server, name) as client:
        with pytest.raises(ModelError) as caught:
            await client.ask(question(), **more)
        assert server.arrived == 1, "retries are the scheduler's"
    return caught.value


# --- what is asked and answered ---


@BOTH
async def test_an_answer_has_its_text_and_its_usage(prefix: str) -> None:
    reply = Reply(text="an apple", input_tokens=9, output_tokens=4, cached_tokens=3, reasoning_tokens=2)
    async with ModelServer(reply) as server, await client_of(server, f"{prefix}:m") as client:
        answer = await client.ask(question())
    assert answer.response.text == "an apple"
    assert answer.usage == Usage(
        requests=1, input_tokens=9, cached_input_tokens=3, output_tokens=4, reasoning_tokens=2
    )


@BOTH
async def test_tools_are_offered_called_and_answered(prefix: str) -> None:
    script = [Reply(text="I look.", calls=[CallTool("look", {"at": 1}, id="c1"), CallTool("look")]), "done"]
    async with ModelServer(script) as server, await client_of(server, f"{prefix}:m") as client:
        messages = question()
        first = await client.ask(messages, tools=[LOOK])
        calls = [part for part in first.response.parts if isinstance(part, ToolCallPart)]
        results = [
            ToolReturnPart(call.tool_name, f"seen {call.tool_call_id}", call.tool_call_id) for call in calls
        ]
        second = await client.ask([*messages, first.response, ModelRequest(results)], tools=[LOOK])
        outputs = list(server.requests[1].tool_outputs.values())
        assert [request.tool_names for request in server.requests] == [["look"], ["look"]]
    assert [call.args_as_dict() for call in calls] == [{"at": 1}, {}]
    assert second.response.text == "done"
    assert len(outputs) == 2
    assert outputs[0] == "seen c1"


async def test_the_name_decides_between_chat_and_responses_and_the_key_is_sent() -> None:
    names = ["openai:m", "openai-responses:m", "openai-chat:m", "m", "llama3.2:3b"]
    async with ModelServer() as server:
        for name in names:
            async with await client_of(server, name) as client:
                await client.ask(question())
        assert [request.api for request in server.requests] == [
            "responses",
            "responses",
            "chat",
            "chat",
            "chat",
        ]
        assert [request.body["model"] for request in server.requests] == ["m", "m", "m", "m", "llama3.2:3b"]
        assert {request.headers["authorization"] for request in server.requests} == {f"Bearer {KEY}"}


async def test_a_server_of_ones_own_needs_no_key() -> None:
    async with ModelServer("ok") as server:
        async with await ModelClient.open(ModelChoice("m", server.url), environment={}) as client:
            assert (await client.ask(question())).response.text == "ok"
        assert server.requests[0].headers["authorization"] == "Bearer no-key-needed"
        assert client.provider == server.origin.removeprefix("http://")


async def test_a_schema_is_asked_for_in_the_request_and_in_the_prompt() -> None:
    async with ModelServer('{"label": "x"}') as server, await client_of(server, "m") as client:
        await client.ask(question(), output_schema=SCHEMA)
        request = server.requests[0]
    assert request.body["response_format"] == {
        "type": "json_schema",
        "json_schema": {"name": "result", "schema": SCHEMA, "strict": True},
    }
    assert '"label"' in request.text


async def test_a_schema_of_several_is_not_asked_for_strictly() -> None:
    schema = {"anyOf": [SCHEMA, {"type": "object", "properties": {"none": {"type": "boolean"}}}]}
    async with ModelServer("{}") as server, await client_of(server, "openai-responses:m") as client:
        await client.ask(question(), output_schema=schema)
        asked = server.requests[0].body["text"]["format"]
    assert (asked["type"], asked["strict"], asked["schema"]["type"]) == ("json_schema", False, "object")


async def test_a_server_that_refuses_schemas_is_asked_in_the_prompt_from_then_on() -> None:
    def script(received: Received) -> Reply | Failure:
        if received.body.get("response_format", {}).get("type") == "json_schema":
            return Failure(400, "invalid_request_error", "This response_format type is unavailable now")
        return Reply(text='{"label": "x"}')

    async with ModelServer(script) as server, await client_of(server) as client:
        for _ in range(2):
            assert (await client.ask(question(), output_schema=SCHEMA)).response.text == '{"label": "x"}'
        assert server.arrived == 3
        assert '"label"' in server.requests[2].text


async def test_many_requests_go_out_at_once() -> None:
    gate = asyncio.Event()

    async def held(_: Received) -> str:
        await gate.wait()
        return "ok"

    async with ModelServer(held) as server, await client_of(server) as client:
        asking = [asyncio.ensure_future(client.ask(question())) for _ in range(150)]
        await server.until(arrived=150)
        gate.set()
        await asyncio.gather(*asking)
        assert server.peak == 150


async def test_a_cancelled_question_is_broken_off() -> None:
    async with ModelServer(Silence()) as server, await client_of(server) as client:
        asking = asyncio.ensure_future(client.ask(question()))
        await server.until(arrived=1)
        asking.cancel()
        await asyncio.wait([asking])
        await server.until(abandoned=1)
        assert asking.cancelled()


# --- what goes wrong ---

CLASSES: list[tuple[str, Any, ErrorClass]] = [
    ("400", Failure(400), ErrorClass.REFUSED),
    ("context too long", context_too_long(), ErrorClass.REFUSED),
    ("404", Failure(404, "model_not_found"), ErrorClass.REFUSED),
    ("413", Failure(413), ErrorClass.REFUSED),
    ("422", Failure(422), ErrorClass.REFUSED),
    ("401", unauthorized(), ErrorClass.ACCOUNT),
    ("402", Failure(402), ErrorClass.ACCOUNT),
    ("403", Failure(403), ErrorClass.ACCOUNT),
    ("no credit as 429", out_of_credit(), ErrorClass.ACCOUNT),
    ("no credit as 400", out_of_credit(400), ErrorClass.ACCOUNT),
    ("429", rate_limited(), ErrorClass.RATE_LIMITED),
    ("408", Failure(408), ErrorClass.PROVIDER),
    ("409", Failure(409), ErrorClass.PROVIDER),
    ("500", Failure(500), ErrorClass.PROVIDER),
    ("502", Failure(502), ErrorClass.PROVIDER),
    ("503", overloaded(), ErrorClass.PROVIDER),
    ("529", overloaded(529), ErrorClass.PROVIDER),
    ("cut", Cut(), ErrorClass.PROVIDER),
    ("half JSON", HalfJson(), ErrorClass.PROVIDER),
]


@BOTH
@pytest.mark.parametrize(
    ("answer", "expected"), [row[1:] for row in CLASSES], ids=[row[0] for row in CLASSES]
)
async def test_every_failure_has_its_class(prefix: str, answer: Any, expected: ErrorClass) -> None:
    error = await error_of(answer, f"{prefix}:m")
    assert error.error_class is expected
    assert error.message.startswith("127.0.0.1:")


async def test_flagged_text_is_that_rows_matter_alone() -> None:
    flagged = ModelHTTPError.for_category(ModelRequestRejectedError, status_code=403, model_name="m")
    assert translate(flagged, provider="p").error_class is ErrorClass.REFUSED


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (rate_limited(7), 7.0),
        (rate_limited(0.25), 0.25),
        (rate_limited(9, milliseconds=1500), 1.5),
        (rate_limited("soon"), None),
        (rate_limited("-1.5"), None),
        (rate_limited("inf"), None),
    ],
)
async def test_how_long_to_wait_is_handed_on(answer: Failure, expected: float | None) -> None:
    assert (await error_of(answer)).retry_after == expected


async def test_a_date_to_wait_for_is_handed_on_as_seconds() -> None:
    error = await error_of(rate_limited(formatdate(time.time() + 60, usegmt=True)))
    assert error.retry_after == pytest.approx(60, abs=5)


async def test_no_answer_in_time_is_the_providers_failure() -> None:
    async with ModelServer(Silence()) as server, await client_of(server) as client:
        with pytest.raises(ModelError, match=r"no answer within 0\.05s") as caught:
            await client.ask(question(), timeout=0.05)
    assert caught.value.error_class is ErrorClass.PROVIDER


async def test_a_server_that_is_not_there_is_the_providers_failure() -> None:
    async with ModelServer() as server:
        pass
    async with await client_of(server) as client:
        with pytest.raises(ModelError, match="the connection failed") as caught:
            await client.ask(question())
    assert caught.value.error_class is ErrorClass.PROVIDER


@pytest.mark.parametrize("body", ["{}", '{"choices": null}', '{"choices": []}', "[]", "7", '"x"', "null"])
async def test_an_answer_of_another_shape_is_the_providers_failure(body: str) -> None:
    from aiohttp import web

    async def odd(_: web.Request) -> web.Response:
        return web.Response(text=body, content_type="application/json")

    app = web.Application()
    app.router.add_post("/v1/chat/completions", odd)
    app.router.add_post("/v1/responses", odd)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
        for name in ("openai-chat:m", "openai-responses:m"):
            async with await ModelClient.open(ModelChoice(name, url), environment={}) as client:
                with pytest.raises(ModelError) as caught:
                    await client.ask(question())
                assert caught.value.error_class is ErrorClass.PROVIDER
    finally:
        await runner.cleanup()


async def test_no_secret_is_in_a_message() -> None:
    said = f"bad key {KEY}, Bearer abcdefghijk, sk-proj-zzzzzzzz, http://me:hidden@host/, api_key=qwertyuiop"
    error = await error_of(Failure(401, "invalid_api_key", said))
    for secret in (KEY, "abcdefghijk", "zzzzzzzz", "hidden", "qwertyuiop"):
        assert secret not in error.message
    assert "bad key ***" in error.message


async def test_a_long_message_is_bounded() -> None:
    assert len((await error_of(Failure(400, None, "x" * 5000))).message) == 500


# --- what is refused before the first row ---


@pytest.mark.parametrize(
    ("name", "said", "hint"),
    [
        ("gpt-5", "'gpt-5' names no model", "openai:gpt-5"),
        ("nope:m", "'nope:m' names no model", "--base-url"),
        ("openai:", "'openai:' names no model", "openai:gpt-5"),
        ("", "'' names no model", "openai:gpt-5"),
        ("openai:gpt-5", "needs OPENAI_API_KEY", "--model local"),
        ("deepseek:deepseek-chat", "needs DEEPSEEK_API_KEY", "--model local"),
        ("groq:m", "package that is not installed", "pip install 'pydantic-ai-slim[groq]'"),
        ("local:nowhere.gguf", "cannot be read", ".gguf"),
        ("local", "run `rowcrew models pull`", "SmolLM2"),
    ],
)
async def test_a_model_that_cannot_be_used_is_refused(
    name: str, said: str, hint: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    monkeypatch.delenv("DEEPSEEK_API_KEY", raising=False)
    with pytest.raises(InvalidRequest) as caught:
        await ModelClient.open(ModelChoice(name, home=tmp_path), environment={})
    assert said in caught.value.message
    assert hint in (caught.value.hint or "")


@pytest.mark.parametrize(
    "url", ["localhost:8000", "ftp://host/v1", "http://", "http://[::1", "http://h:99999999"]
)
async def test_a_base_url_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(InvalidRequest, match="is no address of a server"):
        await ModelClient.open(ModelChoice("m", url), environment={})


async def test_the_embedded_model_has_no_base_url() -> None:
    with pytest.raises(InvalidRequest, match="has no base URL"):
        await ModelClient.open(ModelChoice("local", "http://127.0.0.1:1/v1"), environment={})


async def test_an_openai_compatible_provider_is_opened_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEEPSEEK_API_KEY", "deepseek-secret-key")
    async with ModelServer(rate_limited(1)) as server:
        choice = ModelChoice("vllm:m", server.url)
        async with await ModelClient.open(choice, environment={}) as client:
            with pytest.raises(ModelError) as caught:
                await client.ask(question())
        assert (caught.value.error_class, client.provider, server.arrived) == (
            ErrorClass.RATE_LIMITED,
            "vllm",
            1,
        )
    async with await ModelClient.open(ModelChoice("deepseek:deepseek-chat"), environment={}) as client:
        assert client.provider == "deepseek"


async def test_a_users_own_provider_is_chosen_by_its_name() -> None:
    async with ModelServer("ok") as server:
        own = {"mine": {"base_url": server.url, "env_key": "MINE_KEY", "wire_api": "responses"}}
        choice = choose("mine:a:b", model_providers=own)
        assert choice == ModelChoice("a:b", server.url, key_variable="MINE_KEY", wire_api="responses")
        with pytest.raises(InvalidRequest, match="needs MINE_KEY"):
            await ModelClient.open(choice, environment={})
        async with await ModelClient.open(choice, environment={"MINE_KEY": "mine-secret"}) as client:
            await client.ask(question())
        [request] = server.requests
        assert (request.api, request.body["model"], request.headers["authorization"]) == (
            "responses",
            "a:b",
            "Bearer mine-secret",
        )
    assert choose("openai:m", "http://h/v1", model_providers=own) == ModelChoice("openai:m", "http://h/v1")
    with pytest.raises(InvalidRequest, match="has no base_url"):
        choose("mine:m", model_providers={"mine": {}})


async def test_the_whole_conversation_is_json_with_what_was_written() -> None:
    text = 'ü "quoted"\nline \u2028 😀'
    async with ModelServer("ok") as server, await client_of(server) as client:
        await client.ask(question(text))
        assert server.requests[0].last_user_text == text
        assert json.dumps(server.requests[0].body)
