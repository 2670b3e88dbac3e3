"""A scripted model at the agent's model seam: each answer is what a test says, when it says so."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ThinkingPart, ToolCallPart

from rowcrew.domain.attempt import Usage

ONE_REQUEST = Usage(requests=1, input_tokens=10, output_tokens=5)


@dataclass
class Answer:
    response: ModelResponse
    usage: Usage = ONE_REQUEST


@dataclass
class ScriptedModel:
    """Gives the scripted answers in order. An exception is raised; a function is called and awaited."""

    script: Sequence[Any]
    provider: str = "scripted"
    asked: list[list[ModelMessage]] = field(default_factory=list)
    tools: list[Sequence[Any]] = field(default_factory=list)

    async def ask(self, messages: list[ModelMessage], *, tools: Sequence[Any] = (), **_: Any) -> Answer:
        place = len(self.asked)
        self.asked.append(messages)
        self.tools.append(tools)
        step = self.script[min(place, len(self.script) - 1)]
        if callable(step):
            step = await step()
        if isinstance(step, Exception):
            raise step
        return Answer(step)

    def told(self, number: int = -1) -> list[str]:
        """What the tools said in the last message of a request."""
        return [str(part.content) for part in self.asked[number][-1].parts]  # type: ignore[union-attr]


class Say:
    """Builds answers."""

    @staticmethod
    def text(text: str, thinking: str | None = None) -> ModelResponse:
        parts = [ThinkingPart(thinking)] if thinking else []
        return ModelResponse([*parts, TextPart(text)])

    @staticmethod
    def call(*calls: tuple[str, Any], text: str | None = None) -> ModelResponse:
        parts = [TextPart(text)] if text else []
        return ModelResponse(
            [
                *parts,
                *(ToolCallPart(name, arguments, f"call-{n}") for n, (name, arguments) in enumerate(calls)),
            ]
        )


@dataclass
class Gate:
    """Something that waits until a test opens it, and tells that it has been reached."""

    reached: asyncio.Event = field(default_factory=asyncio.Event)
    opened: asyncio.Event = field(default_factory=asyncio.Event)

    def then(self, value: Any) -> Callable[[], Awaitable[Any]]:
        async def wait() -> Any:
            self.reached.set()
            await self.opened.wait()
            return value

        return wait


@pytest.fixture
def model() -> type[ScriptedModel]:
    return ScriptedModel


@pytest.fixture
def say() -> type[Say]:
    return Say


@pytest.fixture
def gate() -> type[Gate]:
    return Gate
