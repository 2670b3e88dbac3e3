"""Our client beside the library's own: the same requests on the wire, and the same answers back."""

import dataclasses
import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import openai
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from pydantic_ai.direct import model_request, model_request_stream
from pydantic_ai.exceptions import AgentRunError
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

from rowcrew.agent.adapting import ChatModel, ResponsesModel
from rowcrew.agent.openai_client import open_client
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
# What the library measures of itself is no part of a request.
OF_THE_MOMENT = ("host", "x-stainless-read-timeout")

Models = dict[str, Callable[[OpenAIProvider], Any]]
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
    headers.pop("content-length")
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
ANSWERS: dict[str, Any] = {
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


@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS.keys())
async def test_whatever_a_server_answers_is_taken_as_the_library_takes_it(answer: Any) -> None:
    async def serve(_: web.Request) -> web.Response:
        return web.json_response(answer)

    seen: list[object] = []
    app = web.Application()
    app.router.add_post("/v1/chat/completions", serve)
    async with TestServer(app) as server:
        for client_at, models in SIDES:
            async with client_at(str(server.make_url("/v1"))) as client:
                model = models["chat"](OpenAIProvider(openai_client=client))
                try:
                    response = await model_request(model, TALK)
                except (AgentRunError, LookupError) as error:
                    seen.append((type(error), str(error)))
                else:
                    # The time of the answer is the one thing that is ours.
                    seen.append(dataclasses.replace(response, timestamp=NO_TIME))
    assert seen[1] == seen[0]


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
async def test_a_schema_is_adapted_once_and_another_one_is_not_taken_for_it(api: str) -> None:
    client = open_client("http://127.0.0.1:1/v1", "k")
    async with client:
        model = OURS[api](OpenAIProvider(openai_client=client))
        others = [ModelRequestParameters(function_tools=[TOOL]) for _ in range(40)]
        adapted = [model.customize_request_parameters(one) for one in others]
        assert model.customize_request_parameters(others[-1]) is adapted[-1]
        for one in others:
            expected = LIBRARY[api](OpenAIProvider(openai_client=client)).customize_request_parameters(one)
            assert model.customize_request_parameters(one) == expected
