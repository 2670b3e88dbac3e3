"""What is said between a thread and its model, in the model library's messages. It asks and runs nothing."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelRequestPart,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.tools import ToolDefinition

from rowcrew.agent.tools import Tool, ToolCall
from rowcrew.domain.attempt import Usage
from rowcrew.domain.events import TurnItemKind


class Answered(Protocol):
    """What a model said, and what it cost."""

    @property
    def response(self) -> ModelResponse: ...

    @property
    def usage(self) -> Usage: ...


class TextListener(Protocol):
    """Hears what a model says while it says it. Neither call waits."""

    def begin(self) -> None:
        """A request starts, or starts anew: what it says is said from the beginning."""
        ...

    def hear(self, place: int, kind: TurnItemKind, text: str) -> None:
        """A further piece of the text at a place in the answer."""
        ...


class Model(Protocol):
    """The seam to a language model, as a turn sees it. Raises ModelError."""

    async def ask(
        self,
        messages: list[ModelMessage],
        *,
        tools: Sequence[ToolDefinition] = (),
        output_schema: dict[str, Any] | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - the client's own limit for one request
        listener: TextListener | None = None,
    ) -> Answered: ...


@dataclass(frozen=True, slots=True)
class Said:
    """A model's answer, taken apart: texts in order, and the calls that it asks for."""

    texts: list[tuple[TurnItemKind, str]]
    calls: list[ToolCall]


class Conversation:
    """The messages of one thread as its model gets them, and what they have cost since it was opened."""

    def __init__(self, instructions: str = "", messages: Iterable[ModelMessage] = ()) -> None:
        self.messages: list[ModelMessage] = list(messages)
        self.usage = Usage()
        self._instructions = instructions

    def add_user_text(self, text: str) -> ModelMessage:
        parts: list[ModelRequestPart] = [UserPromptPart(text)]
        if self._instructions and not self.messages:
            parts.insert(0, SystemPromptPart(self._instructions))
        return self._add(ModelRequest(parts))

    def add_answer(self, answer: Answered) -> ModelMessage:
        self.usage += answer.usage
        return self._add(answer.response)

    def add_results(self, answers: Iterable[tuple[ToolCall, str]]) -> ModelMessage:
        """Answer calls, each with its output. A model refuses a call that is left unanswered."""
        return self._add(
            ModelRequest(
                # Always as a success: the library would wrap what failed in JSON, and the sentence is ours.
                [ToolReturnPart(call.name, output, tool_call_id=call.id) for call, output in answers]
            )
        )

    def _add(self, message: ModelMessage) -> ModelMessage:
        self.messages.append(message)
        return message


def take_apart(response: ModelResponse, *, thread_id: str) -> Said:
    """The texts and calls of an answer. Parts of other kinds are kept in the conversation only."""
    said = Said([], [])
    for part in response.parts:
        match part:
            case TextPart() if part.content:
                said.texts.append((TurnItemKind.AGENT_MESSAGE, part.content))
            case ThinkingPart() if part.content:
                said.texts.append((TurnItemKind.REASONING, part.content))
            case ToolCallPart():
                arguments = part.args if part.args is not None else {}
                said.calls.append(ToolCall(part.tool_call_id, part.tool_name, arguments, thread_id))
            case _:
                pass
    return said


def define(tool: Tool) -> ToolDefinition:
    """A tool as the model library wants it described."""
    # Strict mode demands that every argument is required; optional arguments are what tools here are made of.
    return ToolDefinition(
        name=tool.name,
        parameters_json_schema=dict(tool.parameters),
        description=tool.description,
        strict=False,
    )
