"""Answers that are heard piece by piece: what is heard, what comes back, and what half an answer is."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from pydantic_ai.messages import ModelRequest, UserPromptPart

from rowcrew.agent import models
from rowcrew.agent.models import Answer, ModelChoice, ModelClient
from rowcrew.domain.attempt import Usage
from rowcrew.domain.events import TurnItemKind
from rowcrew.errors import ErrorClass, ModelError
from rowcrew.testing import CallTool, Cut, HalfJson, ModelServer, Reply, overloaded, rate_limited

APIS = ["chat", "responses"]
LONG = "a text that does not fit into one piece of the stream"


class Ears:
    """Keeps what it hears: the texts so far, anew with each request."""

    def __init__(self) -> None:
        self.begun = 0
        self.pieces: list[tuple[TurnItemKind, str]] = []

    def begin(self) -> None:
        self.begun += 1
        self.pieces.clear()

    def hear(self, place: int, kind: TurnItemKind, text: str) -> None:
        self.pieces.append((kind, text))

    def text(self, kind: TurnItemKind = TurnItemKind.AGENT_MESSAGE) -> str:
        return "".join(text for one, text in self.pieces if one is kind)


@asynccontextmanager
async def asked(api: str, script: Any) -> AsyncIterator[tuple[ModelClient, ModelServer]]:
    async with ModelServer(script) as server:
        choice = ModelChoice(f"openai-{api}:m", base_url=server.url)
        async with await ModelClient.open(choice, environment={}) as client:
            yield client, server


async def ask(client: ModelClient, ears: Ears | None) -> Answer:
    return await client.ask([ModelRequest([UserPromptPart("go")])], listener=ears)


@pytest.mark.parametrize("api", APIS)
async def test_an_answer_is_heard_in_pieces_and_comes_back_whole(api: str) -> None:
    reply = Reply(
        LONG, reasoning="hm", calls=[CallTool("look", {"n": 1})], cached_tokens=3, reasoning_tokens=2
    )
    ears = Ears()
    async with asked(api, reply) as (client, server):
        streamed, plain = await ask(client, ears), await ask(client, None)
    assert (ears.begun, len(ears.pieces) > 2) == (1, True)
    assert (ears.text(), ears.text(TurnItemKind.REASONING)) == (LONG, "hm")
    assert streamed.response.text == plain.response.text == LONG
    names = [(call.tool_name, call.args_as_dict()) for call in streamed.response.tool_calls]
    assert names == [("look", {"n": 1})]
    reasoning = 2 if api == "chat" else plain.usage.reasoning_tokens
    assert streamed.usage == Usage(1, 10, 3, 5, reasoning)
    assert [received.streaming for received in server.requests] == [True, False]


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("broken", [Cut(Reply(LONG * 3)), HalfJson(Reply(LONG * 3))])
async def test_half_an_answer_is_the_providers_error(api: str, broken: Any) -> None:
    ears = Ears()
    async with asked(api, broken) as (client, _):
        with pytest.raises(ModelError) as caught:
            await ask(client, ears)
    assert caught.value.error_class is ErrorClass.PROVIDER
    assert ears.text() != ""
    assert (LONG * 3).startswith(ears.text())


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize(
    ("failure", "error_class", "wait"),
    [(overloaded(), ErrorClass.PROVIDER, None), (rate_limited(2), ErrorClass.RATE_LIMITED, 2.0)],
)
async def test_an_error_has_the_class_that_it_has_without_a_stream(
    api: str, failure: Any, error_class: ErrorClass, wait: float | None
) -> None:
    async with asked(api, failure) as (client, _):
        with pytest.raises(ModelError) as caught:
            await ask(client, Ears())
    assert (caught.value.error_class, caught.value.retry_after) == (error_class, wait)


async def test_a_server_that_never_says_why_it_ends_is_asked_without_a_stream_from_then_on() -> None:
    async with asked("chat", [HalfJson(Reply(LONG)), "whole"]) as (client, server):
        with pytest.raises(ModelError, match="the answer ended in the middle"):
            await ask(client, Ears())
        assert (await ask(client, Ears())).response.text == "whole"
    assert [received.streaming for received in server.requests] == [True, False]


async def test_a_model_that_cannot_stream_is_asked_plainly(monkeypatch: pytest.MonkeyPatch) -> None:
    async def cannot(*_: object) -> None:
        raise NotImplementedError

    monkeypatch.setattr(models, "stream", cannot)
    async with asked("chat", "ok") as (client, server):
        assert (await ask(client, Ears())).response.text == "ok"
    assert [received.streaming for received in server.requests] == [False]
