"""The one seam to a language model. It keeps no conversation, runs no tools and never retries.

A `ModelClient` may be used by many tasks of one event loop at once; cancelling `ask` breaks the request off.
"""

import asyncio
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from pydantic_ai.direct import model_request
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ThinkingPart, ToolCallPart
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.output import OutputObjectDefinition
from pydantic_ai.tools import ToolDefinition

from rowcrew.agent.conversation import TextListener
from rowcrew.agent.model_errors import translate
from rowcrew.agent.prices import pricing_of
from rowcrew.agent.providers import ModelChoice, OpenedModel, open_model
from rowcrew.agent.streaming import NoFinishReason, stream
from rowcrew.domain.attempt import Usage
from rowcrew.domain.json_text import clean, clean_text, is_clean
from rowcrew.domain.price import Price
from rowcrew.errors import ErrorClass, InvalidRequest, ModelError
from rowcrew.store.backlog import Backlog

__all__ = ["Answer", "ModelChoice", "ModelClient", "choose"]

_RESULT_NAME = "result"
# Jobs with different schemas may share a client; few do at a time.
_REMEMBERED = 16
_COMBINING_KEYWORDS = frozenset({"$ref", "allOf", "anyOf", "oneOf", "not", "if"})
_SCHEMA_WORDS = ("response_format", "json_schema", "text.format")


@dataclass(frozen=True, slots=True)
class Answer:
    """What the model said, as the library's message, and what it cost."""

    response: ModelResponse
    usage: Usage


def choose(
    name: str,
    base_url: str | None = None,
    *,
    model_providers: Mapping[str, Mapping[str, Any]] | None = None,
    prices: Mapping[str, Mapping[str, float]] | None = None,
    home: Path | None = None,
) -> ModelChoice:
    """The choice that settings mean: `<provider>:<model>` may name one of the user's own model providers."""
    prefix, _, rest = name.partition(":")
    own = (model_providers or {}).get(prefix)
    price = Price.of(prices[name]) if prices and name in prices else None
    if own is None or not rest:
        return ModelChoice(name, base_url, home=home, price=price)
    url = base_url or own.get("base_url")
    if not url:
        raise InvalidRequest(
            f"the model provider {prefix!r} has no base_url", hint=f"set model_providers.{prefix}.base_url"
        )
    return ModelChoice(
        rest,
        url,
        key_variable=own.get("env_key"),
        wire_api=own.get("wire_api") or "chat",
        home=home,
        price=price,
    )


class ModelClient:
    """One model, ready to be asked. `provider` names whose rate limits count for it."""

    def __init__(self, opened: OpenedModel, *, price: Price | None = None) -> None:
        self._opened = opened
        self._pricing = pricing_of(opened.model, price)
        self._native = bool(opened.model.profile.get("supports_json_schema_output", False))
        self._streams = True
        self._asked_before: list[ModelRequestParameters] = []
        self.provider = opened.provider
        self.turnstile = opened.turnstile

    @classmethod
    async def open(
        cls,
        choice: ModelChoice,
        *,
        environment: Mapping[str, str] = os.environ,
        backlog: Backlog | None = None,
    ) -> Self:
        """Get a model ready. Raises InvalidRequest: bad name, no key, package or weights missing.

        Its answers are read no faster than `backlog`, that of what becomes of them, allows.
        """
        client = cls(await open_model(choice, environment), price=choice.price)
        client.turnstile.backlog = backlog
        return client

    @property
    def max_concurrency(self) -> int | None:
        """How many requests at once make sense; None is as many as asked."""
        return self._opened.max_concurrency

    async def ask(
        self,
        messages: list[ModelMessage],
        *,
        tools: Sequence[ToolDefinition] = (),
        output_schema: dict[str, Any] | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - one request's limit, and its own error class
        listener: TextListener | None = None,
    ) -> Answer:
        """One request. Text comes back as the model wrote it: a schema is asked for, not checked.

        With a listener the answer is streamed, where the model can. `timeout` is in seconds.
        Raises ModelError.
        """
        try:
            return await self._ask(messages, tools, output_schema, timeout, listener)
        except ModelError as error:
            if output_schema is None or not self._native or not _refuses_schemas(error):
                raise
            # The server knows no schemas: from now on the prompt alone says what the answer must look like.
            self._native = False
            return await self._ask(messages, tools, output_schema, timeout, listener)

    async def _ask(
        self,
        messages: list[ModelMessage],
        tools: Sequence[ToolDefinition],
        output_schema: dict[str, Any] | None,
        timeout: float | None,  # noqa: ASYNC109
        listener: TextListener | None,
    ) -> Answer:
        opened = self._opened
        await self.turnstile.ask()
        parameters = self._parameters(tools, output_schema)
        try:
            async with asyncio.timeout(timeout):
                response = await self._request(messages, parameters, listener)
        except TimeoutError as error:
            late = TimeoutError(f"no answer within {timeout:g}s" if timeout is not None else str(error))
            raise translate(late, provider=self.provider) from error
        except Exception as error:
            raise translate(error, provider=self.provider, secrets=opened.secrets) from error
        _clean(response)
        return Answer(response, _usage(response, self._pricing(response)))

    async def _request(
        self,
        messages: list[ModelMessage],
        parameters: ModelRequestParameters,
        listener: TextListener | None,
    ) -> ModelResponse:
        opened = self._opened
        if listener is not None and self._streams:
            try:
                return await stream(opened.model, messages, opened.settings, parameters, listener)
            except NotImplementedError:
                # Not every provider's class can.
                self._streams = False
            except NoFinishReason:
                # Some servers never say why an answer ends; what they stream cannot be told from half of it.
                self._streams = False
                raise
        return await model_request(
            opened.model,
            messages,
            model_settings=opened.settings,
            model_request_parameters=parameters,
        )

    def _parameters(
        self, tools: Sequence[ToolDefinition], output_schema: dict[str, Any] | None
    ) -> ModelRequestParameters:
        """The same object for the same request: by that a model knows what it has adapted already."""
        parameters = ModelRequestParameters(function_tools=list(tools))
        if output_schema is not None:
            parameters.output_mode = "native" if self._native else "prompted"
            parameters.output_object = _output_object(output_schema)
        for known in self._asked_before:
            if known == parameters:
                return known
        if len(self._asked_before) >= _REMEMBERED:
            self._asked_before.clear()
        self._asked_before.append(parameters)
        return parameters

    async def close(self) -> None:
        """Give back connections, and the memory of an embedded model."""
        await self._opened.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


def _refuses_schemas(error: ModelError) -> bool:
    return error.error_class is ErrorClass.REFUSED and any(word in error.message for word in _SCHEMA_WORDS)


def _output_object(schema: dict[str, Any]) -> OutputObjectDefinition:
    """The schema as providers take it: an object at the root, strict only where the root is plain."""
    combined = not _COMBINING_KEYWORDS.isdisjoint(schema)
    whole = schema if "$ref" in schema else {"type": "object", **schema}
    return OutputObjectDefinition(whole, name=_RESULT_NAME, strict=False if combined else None)


def _clean(response: ModelResponse) -> None:
    """What JSON can say and UTF-8 cannot hold would break the store and the next request."""
    for part in response.parts:
        if isinstance(part, TextPart | ThinkingPart) and not is_clean(part.content):
            part.content = clean_text(part.content)
        elif isinstance(part, ToolCallPart):
            part.tool_name, part.tool_call_id = clean_text(part.tool_name), clean_text(part.tool_call_id)
            part.args = clean(part.args)


def _usage(response: ModelResponse, cost_nanos: int | None) -> Usage:
    said = response.usage
    return Usage(
        requests=1,
        input_tokens=said.input_tokens,
        cached_input_tokens=said.cache_read_tokens,
        output_tokens=said.output_tokens,
        reasoning_tokens=said.output_reasoning_tokens or int(said.details.get("reasoning_tokens", 0)),
        priced_requests=0 if cost_nanos is None else 1,
        cost_nanos=cost_nanos or 0,
    )
