"""OpenAI's client, for bodies that are plain JSON already. It knows no model and never retries.

The library walks through every message and every tool schema of every request, to find values that have to be
turned into JSON. pydantic-ai hands it none, and the walk costs more than all the rest of a request, the more
the longer a conversation is. Here a body goes out as it stands, by the library's own way to addresses that it
does not know (https://github.com/openai/openai-python#undocumented-endpoints). All else stays the library's.
"""

import ssl
from functools import cache, cached_property
from typing import Any

import httpx2
import openai
from openai.resources.chat import AsyncChat, AsyncCompletions
from openai.resources.responses import AsyncResponses
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import ValidationError

from rowcrew.agent.turnstile import Turnstile
from rowcrew.domain.ids import new_id

# Shorter than the five seconds after which common servers close an idle connection, so that no request
# goes out on one that is just being closed.
_KEEP_IDLE_SECONDS = 4.0
_MAX_CONNECTIONS = 10_000
_TIMEOUT = httpx2.Timeout(600.0, connect=30.0, pool=None)


def open_client(base_url: str | None, key: str) -> "PlainClient":
    """A client on the aiohttp transport; closing it closes its connections."""
    turnstile = Turnstile()

    async def hear(_: httpx2.Response) -> None:
        await turnstile.hear()

    http = openai.DefaultAioHttpClient(
        limits=httpx2.Limits(max_connections=_MAX_CONNECTIONS, keepalive_expiry=_KEEP_IDLE_SECONDS),
        timeout=_TIMEOUT,
        verify=_certificates(),
        event_hooks={"response": [hear]},
    )
    # Retries are the scheduler's: a second place that waits would hide rate limits from it.
    client = PlainClient(base_url=base_url, api_key=key, http_client=http, timeout=_TIMEOUT, max_retries=0)
    client.turnstile = turnstile
    return client


@cache
def _certificates() -> ssl.SSLContext:
    """Reading them takes longer than all else about a client, and a job opens its model more than once."""
    return httpx2.create_ssl_context()


class PlainClient(openai.AsyncOpenAI):
    """The client, with the two methods replaced by which models are asked.

    Its answers are heard through the turnstile; who asks goes through it too.
    """

    turnstile: Turnstile

    @cached_property
    def _urls(self) -> dict[str, httpx2.URL]:
        """Each address is put together once, not with every request."""
        return {}

    @cached_property
    def chat(self) -> AsyncChat:
        return _Chat(self)

    @cached_property
    def responses(self) -> AsyncResponses:
        return _Responses(self)

    def _prepare_url(self, url: str) -> httpx2.URL:
        known = self._urls.get(url)
        if known is None:
            known = self._urls[url] = super()._prepare_url(url)
        return known


class CheckedCompletion(ChatCompletion):
    """An answer that is wholly as the interface says.

    The library builds answers unchecked and slowly, and pydantic-ai takes them apart again to check them.
    """

    @classmethod
    def build(cls, *, response: httpx2.Response, data: object) -> object:
        """For the library, with the JSON of an answer. One that is not as it should be is built as always."""
        del response
        try:
            return cls.model_validate(data)
        except ValidationError:
            return ChatCompletion.construct(**data) if isinstance(data, dict) else data


class _Chat(AsyncChat):
    @cached_property
    def completions(self) -> AsyncCompletions:
        return _Completions(self._client)


class _Completions(AsyncCompletions):
    async def create(self, **given: Any) -> Any:
        return await _post(
            self._client,
            "/chat/completions",
            given,
            answer=CheckedCompletion,
            stream_cls=openai.AsyncStream[ChatCompletionChunk],
        )


class _Responses(AsyncResponses):
    async def create(self, **given: Any) -> Any:
        return await _post(
            self._client,
            "/responses",
            given,
            answer=Response,
            stream_cls=openai.AsyncStream[ResponseStreamEvent],
        )


async def _post(
    client: openai.AsyncOpenAI, path: str, given: dict[str, Any], *, answer: Any, stream_cls: Any
) -> Any:
    """The arguments of a `create` as one request."""
    # The library's own key costs a system call.
    options: Any = {"idempotency_key": new_id()}
    for argument, option in _OPTIONS.items():
        value = given.pop(argument, None)
        if value is not None and not isinstance(value, openai.NotGiven):
            options[option] = value
    return await client.post(
        path,
        body={name: value for name, value in given.items() if not isinstance(value, openai.Omit)},
        options=options,
        cast_to=answer,
        stream=given.get("stream") is True,
        stream_cls=stream_cls,
    )


_OPTIONS = {
    "extra_headers": "headers",
    "extra_query": "params",
    "extra_body": "extra_json",
    "timeout": "timeout",
}
