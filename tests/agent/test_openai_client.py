"""Our client beside the library's own: the same requests on the wire, and the same answers back."""

import asyncio
import dataclasses
import json
import math
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

import openai
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from pydantic_ai.direct import model_request, model_request_stream
from pydantic_ai.exceptions import AgentRunError, ModelConnectionError, ModelTimeoutError
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.output import OutputObjectDefinition
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition

from rowcrew.agent.openai_client import open_client
from rowcrew.agent.preparing import ChatModel, ResponsesModel
from rowcrew.testing import CallTool, ModelServer, Received, Reply

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"ünïcode": {"type": "string"}, "n": {"type": ["integer", "null"]}},
    "required": ["ünïcode"],
}
TOOL = ToolDefinition(
    name="look",
    description="Look at it.",
    parameters_json_schema={"type": "object", "properties": {"at": {"type": "number", "default": 1.5}}},
)
TALK: list[ModelMessage] = [
    ModelRequest([SystemPromptPart("Be short."), UserPromptPart("What is “it”? \u2028 🍎")]),
    ModelResponse([ThinkingPart("Hm."), TextPart("I look."), ToolCallPart("look", {"at": 2}, "c1")]),
    ModelRequest([ToolReturnPart("look", {"seen": ["an apple", None, 1.25]}, "c1"), UserPromptPart("And?")]),
]
PLAIN = ModelRequestParameters()
TOOLS = ModelRequestParameters(function_tools=[TOOL])
OUTPUT = ModelRequestParameters(
    output_mode="native", output_object=OutputObjectDefinition(SCHEMA, name="result", strict=False)
)
SETTINGS = ModelSettings(temperature=0.0, max_tokens=7, seed=3, extra_body={"top_k": 4}, timeout=9.0)
REPLY = Reply(text="an apple", calls=[CallTool("look", {"at": 1}, id="c2")], reasoning_tokens=2)
NO_TIME = datetime(2000, 1, 1, tzinfo=UTC)
# What the library says of itself, and what HTTP means anyway, is no part of a request.
OF_THE_MOMENT = ("host", "x-stainless-read-timeout", "x-stainless-retry-count", "connection")

Models = dict[str, Callable[[OpenAIProvider], Any]]
Handler = Callable[[web.Request], Awaitable[web.Response]]
LIBRARY: Models = {
    "chat": lambda provider: OpenAIChatModel("m", provider=provider),
    "responses": lambda provider: OpenAIResponsesModel("m", provider=provider),
}
OURS: Models = {
    "chat": lambda provider: ChatModel("m", provider=provider),
    "responses": lambda provider: ResponsesModel("m", provider=provider),
}
BOTH = pytest.mark.parametrize("api", ["chat", "responses"])


def on_the_wire(received: Received) -> tuple[Any, dict[str, str]]:
    headers = {name: text for name, text in received.headers.items() if name not in OF_THE_MOMENT}
    assert headers.pop("content-length")
    return json.loads(json.dumps(received.body)), headers


def library_client(url: str) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(
        base_url=url, api_key="k", http_client=openai.DefaultAioHttpClient(), max_retries=0
    )


SIDES = ((library_client, LIBRARY), (lambda url: open_client(url, "k"), OURS))


@BOTH
@pytest.mark.parametrize("settings", [None, SETTINGS], ids=["plain", "settings"])
@pytest.mark.parametrize("parameters", [PLAIN, TOOLS, OUTPUT], ids=["text", "tools", "schema"])
async def test_a_request_and_its_answer_are_the_librarys(
    api: str, settings: ModelSettings | None, parameters: ModelRequestParameters
) -> None:
    seen = []
    for client_at, models in SIDES:
        async with ModelServer(REPLY) as server, client_at(server.url) as client:
            model = models[api](OpenAIProvider(openai_client=client))
            # Twice, because the second request finds its schemas adapted.
            answers = [
                await model_request(model, TALK, model_settings=settings, model_request_parameters=parameters)
                for _ in range(2)
            ]
            said = [(answer.parts, answer.usage, answer.finish_reason) for answer in answers]
            seen.append(([on_the_wire(received) for received in server.requests], said))
    assert seen[0][0][0][0]["model"] == "m"
    assert seen[1] == seen[0]


def completion(**changes: Any) -> dict[str, Any]:
    whole = {
        "id": "c",
        "object": "chat.completion",
        "created": 1_700_000_000,
        "model": "m",
        "choices": [
            {"index": 0, "message": {"role": "assistant", "content": "an apple"}, "finish_reason": "stop"}
        ],
        "usage": {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7},
    }
    return {**whole, **changes}


def saying(finish_reason: str | None = "stop", **message: Any) -> dict[str, Any]:
    said = {"index": 0, "message": {"role": "assistant", "content": None, **message}}
    return completion(choices=[{**said, "finish_reason": finish_reason}])


CALL = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"at":1}'}}
COMPLETIONS: dict[str, Any] = {
    "as the interface says": completion(service_tier="default", system_fingerprint="f"),
    "with a call": saying("tool_calls", tool_calls=[CALL]),
    "with a refusal": saying(refusal="no"),
    "with thoughts": saying(content="so", reasoning_content="Hm."),
    "with more of its own": completion(timings={"ms": 1.5}, x=None),
    "with a service tier of its own": completion(service_tier="standard"),
    "with parts for its text": saying(
        content=[{"type": "text", "text": "an"}, {"type": "text", "text": " apple"}]
    ),
    "without a time": completion(created=None),
    "without a reason to end": saying(None, content="so"),
    "without usage": completion(usage=None),
    "without an id": {name: value for name, value in completion().items() if name != "id"},
    "with a number as text": completion(created="1700000000"),
    "with a call of no kind": saying("tool_calls", tool_calls=[{**CALL, "type": "other"}]),
    "without choices": completion(choices=[]),
    "an error that is none": {"error": {"message": "no"}},
    "no object": [1],
    "null": None,
}


def response(*output: dict[str, Any], **changes: Any) -> dict[str, Any]:
    whole = {
        "id": "r",
        "object": "response",
        "created_at": 1_700_000_000,
        "model": "m",
        "status": "completed",
        "output": list(output),
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [{"type": "function", "name": "look", "parameters": {}, "strict": False}],
        "usage": {
            "input_tokens": 5,
            "input_tokens_details": {"cached_tokens": 3},
            "output_tokens": 2,
            "output_tokens_details": {"reasoning_tokens": 1},
            "total_tokens": 7,
        },
    }
    return {**whole, **changes}


def message(**changes: Any) -> dict[str, Any]:
    text = {"type": "output_text", "text": "an apple", "annotations": []}
    return {
        "type": "message",
        "id": "o",
        "role": "assistant",
        "status": "completed",
        "content": [text],
        **changes,
    }


FUNCTION_CALL = {"type": "function_call", "id": "f", "call_id": "c1", "name": "look", "arguments": '{"at":1}'}
THOUGHT = {"type": "reasoning", "id": "t", "summary": [{"type": "summary_text", "text": "Hm."}]}
RESPONSES: dict[str, Any] = {
    "as the interface says": response(message()),
    "with a call": response(FUNCTION_CALL),
    "with thoughts, text and a call": response(THOUGHT, message(), FUNCTION_CALL),
    "with a refusal": response(message(content=[{"type": "refusal", "refusal": "no"}])),
    "with a kind of output that is new": response({"type": "dream", "id": "d"}, message()),
    "with more of its own": response(message(more=1), timings={"ms": 1.5}),
    "with text of no annotations": response(message(content=[{"type": "output_text", "text": "so"}])),
    "with a status that is new": response(message(), status="resting"),
    "cut short": response(message(), status="incomplete", incomplete_details={"reason": "max_output_tokens"}),
    "failed": response(status="failed", error={"code": "server_error", "message": "no"}),
    "without details of usage": response(
        message(), usage={"input_tokens": 5, "output_tokens": 2, "total_tokens": 7}
    ),
    "without usage": response(message(), usage=None),
    "without an echo of the tools": {
        name: value for name, value in response(message()).items() if name != "tools"
    },
    "without a time": response(message(), created_at=None),
    "without output": response(),
    "an error that is none": {"error": {"code": "server_error", "message": "no"}},
    "no object": [1],
    "null": None,
}
EVERY_ANSWER = [
    *(pytest.param("chat", answer, id=f"chat {name}") for name, answer in COMPLETIONS.items()),
    *(pytest.param("responses", answer, id=f"responses {name}") for name, answer in RESPONSES.items()),
]


async def told_by_both(api: str, serve: Handler, **settings: Any) -> list[object]:
    """What the library and we make of the same answer: the response, or the error with all it says."""
    told: list[object] = []
    app = web.Application()
    app.router.add_post("/v1/chat/completions", serve)
    app.router.add_post("/v1/responses", serve)
    async with TestServer(app) as server:
        for client_at, models in SIDES:
            async with client_at(str(server.make_url("/v1"))) as client:
                model = models[api](OpenAIProvider(openai_client=client))
                try:
                    response = await model_request(model, TALK, model_settings=ModelSettings(**settings))
                except (AgentRunError, LookupError, AttributeError, TypeError, ValueError) as error:
                    said = [getattr(error, name, None) for name in ("status_code", "body", "retry_after")]
                    told.append((type(error), str(error), said, type(error.__cause__)))
                else:
                    # The time of the answer is the one thing that is ours.
                    told.append(dataclasses.replace(response, timestamp=NO_TIME))
    return told


@pytest.mark.parametrize(("api", "answer"), EVERY_ANSWER)
async def test_whatever_a_server_answers_is_taken_as_the_library_takes_it(api: str, answer: Any) -> None:
    async def serve(_: web.Request) -> web.Response:
        return web.json_response(answer)

    theirs, ours = await told_by_both(api, serve)
    assert ours == theirs


def refusal(status: int, text: str, **headers: str) -> web.Response:
    return web.Response(status=status, text=text, headers=headers)


REFUSALS: dict[str, Callable[[], web.Response]] = {
    "a bad request": lambda: refusal(400, '{"error":{"message":"no","code":"c","type":"t"}}'),
    "a bad key": lambda: refusal(401, '{"error":{"message":"whose is sk-123?"}}'),
    "no credit": lambda: refusal(429, '{"error":{"message":"pay","code":"insufficient_quota"}}'),
    "a limit": lambda: refusal(429, '{"error":{"message":"wait"}}', **{"Retry-After": "7"}),
    "a limit in milliseconds": lambda: refusal(429, "{}", **{"Retry-After-Ms": "250"}),
    "a page of a gateway": lambda: refusal(502, "<html>bad gateway</html>"),
    "overload": lambda: refusal(529, '{"error":{"message":"overloaded"}}'),
    "nothing but a status": lambda: refusal(503, ""),
    "text where JSON was due": lambda: web.Response(text='{"half', content_type="application/json"),
    "an unpacked error": lambda: packed(web.json_response({"error": {"message": "no"}}, status=400)),
    "an unpacked answer": lambda: packed(web.json_response({"error": None})),
}


def packed(response: web.Response) -> web.Response:
    response.enable_compression(web.ContentCoding.gzip)
    return response


@BOTH
@pytest.mark.parametrize("answer", REFUSALS.values(), ids=REFUSALS.keys())
async def test_whatever_goes_wrong_is_told_as_the_library_tells_it(
    api: str, answer: Callable[[], web.Response]
) -> None:
    async def serve(_: web.Request) -> web.Response:
        return answer()

    theirs, ours = await told_by_both(api, serve)
    assert ours == theirs


@BOTH
async def test_a_connection_that_breaks_and_an_answer_that_never_comes_are_told_apart(api: str) -> None:
    async def hang_up(request: web.Request) -> web.Response:
        assert request.transport is not None
        request.transport.close()
        return web.Response()

    async def never(_: web.Request) -> web.Response:
        await asyncio.Event().wait()
        return web.Response()

    [_, broken] = await told_by_both(api, hang_up)
    theirs, late = await told_by_both(api, never, timeout=0.2)
    # The library calls both of them late.
    assert broken == (ModelConnectionError, "Connection error.", [None] * 3, openai.APIConnectionError)
    assert late == theirs == (ModelTimeoutError, "Request timed out.", [None] * 3, openai.APITimeoutError)


@BOTH
async def test_what_no_request_can_hold_is_said_before_anything_is_sent(api: str) -> None:
    async with ModelServer(REPLY) as server, open_client(server.url, "k") as client:
        model = OURS[api](OpenAIProvider(openai_client=client))
        with pytest.raises(UnicodeEncodeError):
            await model_request(model, [ModelRequest([UserPromptPart("half \ud83c")])])
        nothing = ModelSettings(temperature=math.nan)
        await model_request(model, [ModelRequest([UserPromptPart("?")])], model_settings=nothing)
    assert [received.body["temperature"] for received in server.requests] == [None]


@BOTH
async def test_a_stream_is_the_librarys(api: str) -> None:
    seen = []
    for client_at, models in SIDES:
        async with ModelServer(Reply(text="an apple a day")) as server, client_at(server.url) as client:
            model = models[api](OpenAIProvider(openai_client=client))
            async with model_request_stream(model, TALK, model_request_parameters=TOOLS) as stream:
                events = [type(event).__name__ async for event in stream]
            seen.append((on_the_wire(server.requests[0]), events, stream.get().text))
    assert (seen[0][0][0]["stream"], seen[0][2]) == (True, "an apple a day")
    assert seen[1] == seen[0]


@BOTH
async def test_a_request_is_prepared_once_and_another_one_is_not_taken_for_it(api: str) -> None:
    client = open_client("http://127.0.0.1:1/v1", "k")
    async with client:
        model = OURS[api](OpenAIProvider(openai_client=client))
        library = LIBRARY[api](OpenAIProvider(openai_client=client))
        others = [(SETTINGS, ModelRequestParameters(function_tools=[TOOL])) for _ in range(40)]
        others += [(None, others[-1][1])]
        prepared = [model.prepare_request(*one) for one in others]
        assert model.prepare_request(*others[-1]) is prepared[-1]
        for one in others:
            assert model.prepare_request(*one) == library.prepare_request(*one)
