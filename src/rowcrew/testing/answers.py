"""What a scripted model can answer, good and bad, and what it was asked. It speaks no HTTP."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

Api = Literal["chat", "responses"]


@dataclass(frozen=True, slots=True)
class CallTool:
    """One tool call of a reply. Text as `arguments` is sent as it stands, so it may be broken JSON.

    `namespace` is the group of tools that the name is from; only the Responses interface has them.
    """

    name: str
    arguments: Mapping[str, Any] | str = field(default_factory=dict)
    id: str | None = None
    namespace: str | None = None


@dataclass(frozen=True, slots=True)
class Reply:
    """A good answer: text, tool calls or both. `delay` is in seconds.

    `finish` is "length" for an answer that ran into the token limit, "content_filter" for one that was
    withheld; None says what fits.
    """

    text: str | None = None
    calls: Sequence[CallTool] = ()
    reasoning: str | None = None
    delay: float = 0.0
    finish: Literal["length", "content_filter"] | None = None
    input_tokens: int = 10
    output_tokens: int = 5
    cached_tokens: int = 0
    reasoning_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Failure:
    """An HTTP error as providers give it. `delay` is in seconds."""

    status: int
    code: str | None = None
    message: str = "scripted failure"
    kind: str = "scripted_error"
    headers: Mapping[str, str] = field(default_factory=dict)
    delay: float = 0.0


@dataclass(frozen=True, slots=True)
class Cut:
    """The connection is cut after half of the reply."""

    reply: Reply = Reply(text="half of this is lost")
    delay: float = 0.0


@dataclass(frozen=True, slots=True)
class HalfJson:
    """The answer ends in good order, but its JSON is only half there."""

    reply: Reply = Reply(text="half of this is lost")
    delay: float = 0.0


@dataclass(frozen=True, slots=True)
class Silence:
    """No answer ever: the connection stays open until the client or the server ends."""


Answer = Reply | Failure | Cut | HalfJson | Silence


def rate_limited(retry_after: float | str | None = None, *, milliseconds: int | None = None) -> Failure:
    """429. `retry_after` is seconds or an HTTP date; `milliseconds` goes into `retry-after-ms`."""
    headers = {}
    if retry_after is not None:
        headers["Retry-After"] = str(retry_after)
    if milliseconds is not None:
        headers["Retry-After-Ms"] = str(milliseconds)
    return Failure(429, "rate_limit_exceeded", "Rate limit reached", "requests", headers)


def out_of_credit(status: int = 429) -> Failure:
    """No credit left, which OpenAI says with a 429."""
    message = "You exceeded your current quota, please check your plan and billing details."
    return Failure(status, "insufficient_quota", message, "insufficient_quota")


def unauthorized() -> Failure:
    """401: a wrong key. Its message repeats the key's end, as OpenAI's does."""
    return Failure(
        401, "invalid_api_key", "Incorrect API key provided: sk-te****7890.", "invalid_request_error"
    )


def context_too_long() -> Failure:
    """400: the prompt is too long for the model."""
    message = "This model's maximum context length is 8192 tokens."
    return Failure(400, "context_length_exceeded", message, "invalid_request_error")


def overloaded(status: int = 503) -> Failure:
    """The provider has too much to do."""
    return Failure(status, "overloaded", "The server is overloaded", "server_error")


@dataclass(slots=True, kw_only=True)
class Received:
    """One request as it arrived. `number` counts from 0; `at` is seconds on the server's clock."""

    number: int
    at: float
    api: Api
    headers: Mapping[str, str]
    body: dict[str, Any]
    outcome: Literal["open", "answered", "abandoned"] = "open"

    @property
    def streaming(self) -> bool:
        return bool(self.body.get("stream"))

    @property
    def entries(self) -> list[dict[str, Any]]:
        """The conversation as sent: `messages` of Chat Completions, `input` of Responses."""
        sent = self.body.get("messages" if self.api == "chat" else "input", [])
        return [{"role": "user", "content": sent}] if isinstance(sent, str) else list(sent)

    @property
    def text(self) -> str:
        """All text of the conversation, one entry a line: good for `in`."""
        texts = [str(self.body.get("instructions") or "")]
        for entry in self.entries:
            texts.append(_text_of(entry.get("content")))
            texts.append(_text_of(entry.get("output")))
        return "\n".join(text for text in texts if text)

    @property
    def last_user_text(self) -> str:
        """What the user said last."""
        said = [_text_of(entry.get("content")) for entry in self.entries if entry.get("role") == "user"]
        return said[-1] if said else ""

    @property
    def tool_names(self) -> list[str]:
        """The tools on offer, in order, those of a namespace as `namespace.name`.

        Tools that are neither functions nor in a namespace are named by their type.
        """
        names: list[str] = []
        for tool in self.body.get("tools") or []:
            name = str((tool.get("function") or tool).get("name") or tool.get("type"))
            inner = tool.get("tools") if tool.get("type") == "namespace" else None
            names += [name] if inner is None else [f"{name}.{one.get('name')}" for one in inner]
        return names

    @property
    def tool_outputs(self) -> dict[str, str]:
        """What tool calls answered, by call id."""
        if self.api == "chat":
            return {
                str(entry["tool_call_id"]): _text_of(entry.get("content"))
                for entry in self.entries
                if entry.get("role") == "tool"
            }
        return {
            str(entry["call_id"]): _text_of(entry.get("output"))
            for entry in self.entries
            if str(entry.get("type", "")).endswith("_call_output")
        }


def _text_of(content: object) -> str:
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return ""


ScriptFunction = Callable[[Received], Answer | str | Awaitable[Answer | str]]
Script = ScriptFunction | Sequence[Answer | str] | Answer | str
"""A function of the request, a list answered in order of arrival, or one answer for all; text is a Reply."""
