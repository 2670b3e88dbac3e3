"""OpenAI's client, for bodies that are plain JSON already. It knows no model and never retries.

The library walks through every message and every tool schema of every request, to find values that have to
be turned into JSON; pydantic-ai hands it none. It then puts each request together in its own classes and once
more in those of its HTTP library, before aiohttp sends it. That takes longer than all that an agent does with
the answer. Here a request that is answered in one piece goes straight to aiohttp, with the library's headers,
and with the library's errors where it fails. Streams, of which there are few, go the library's own way to
addresses that it does not know (https://github.com/openai/openai-python#undocumented-endpoints).
"""

import json
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import aiohttp
import httpx2
import openai
from openai.resources.chat import AsyncChat, AsyncCompletions
from openai.resources.responses import AsyncResponses
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.responses import Response, ResponseStreamEvent
from pydantic_core import PydanticSerializationError, to_json

from rowcrew.agent.openai_answers import read_completion, read_response
from rowcrew.agent.proxies import proxy_for
from rowcrew.agent.turnstile import Turnstile

# Shorter than the five seconds after which common servers close an idle connection, so that no request
# goes out on one that is just being closed.
_KEEP_IDLE_SECONDS = 4.0
_MAX_CONNECTIONS = 10_000
_CONNECT_SECONDS = 30.0
_READ_SECONDS = 600.0
_OPENAI = "https://api.openai.com/v1"
_PATIENCE = aiohttp.ClientTimeout(sock_connect=_CONNECT_SECONDS, sock_read=_READ_SECONDS)


def open_client(base_url: str | None, key: str) -> "PlainClient":
    """A client on aiohttp; closing it closes its connections. Raises InvalidRequest: a proxy that is none."""
    turnstile = Turnstile()

    async def hear(_: httpx2.Response) -> None:
        await turnstile.hear()

    proxy = proxy_for(base_url or _OPENAI)
    timeout = httpx2.Timeout(_READ_SECONDS, connect=_CONNECT_SECONDS, pool=None)
    http = openai.DefaultAioHttpClient(
        limits=httpx2.Limits(max_connections=_MAX_CONNECTIONS, keepalive_expiry=_KEEP_IDLE_SECONDS),
        timeout=timeout,
        verify=_certificates(),
        proxy=proxy,
        trust_env=False,
        event_hooks={"response": [hear]},
    )
    # Retries are the scheduler's: a second place that waits would hide rate limits from it.
    client = PlainClient(base_url=base_url, api_key=key, http_client=http, timeout=timeout, max_retries=0)
    client.turnstile, client.proxy = turnstile, proxy
    return client


@cache
def _certificates() -> ssl.SSLContext:
    """Reading them takes longer than all else about a client, and a job opens its model more than once."""
    return httpx2.create_ssl_context()


@dataclass(frozen=True, slots=True)
class _Interface:
    """One of the two addresses under which models are asked, and how its answers are read."""

    path: str
    read: Callable[[object], Any]
    answer: Any
    stream: Any


_CHAT = _Interface(
    "/chat/completions", read_completion, ChatCompletion, openai.AsyncStream[ChatCompletionChunk]
)
_RESPONSES = _Interface("/responses", read_response, Response, openai.AsyncStream[ResponseStreamEvent])
# Arguments of `create` that do not go into the body, and what the library's `post` calls them.
_OPTIONS = {
    "extra_headers": "headers",
    "extra_query": "params",
    "extra_body": "extra_json",
    "timeout": "timeout",
}


class PlainClient(openai.AsyncOpenAI):
    """The client, with the two methods replaced by which models are asked.

    Its answers are heard through the turnstile; who asks goes through it too.
    """

    turnstile: Turnstile
    proxy: str | None = None
    _opened_session: aiohttp.ClientSession | None = None

    @cached_property
    def chat(self) -> AsyncChat:
        return _Chat(self)

    @cached_property
    def responses(self) -> AsyncResponses:
        return _Responses(self)

    async def create(self, interface: _Interface, given: dict[str, Any]) -> Any:
        """The arguments of a `create` as one request. Raises openai.APIError and JSONDecodeError."""
        options: Any = {}
        for argument, option in _OPTIONS.items():
            value = given.pop(argument, None)
            if value is not None and not isinstance(value, openai.NotGiven):
                options[option] = value
        body = {name: value for name, value in given.items() if not isinstance(value, openai.Omit)}
        streams = body.get("stream") is True
        if streams or "params" in options:
            return await self.post(
                interface.path,
                body=body,
                options=options,
                cast_to=interface.answer,
                stream=streams,
                stream_cls=interface.stream,
            )
        body |= options.get("extra_json", {})
        headers = {**self._common_headers, **options.get("headers", {})}
        content = await self._post_plain(
            interface.path, _json(body), headers, _patience(options.get("timeout"))
        )
        return interface.read(json.loads(content))

    async def _post_plain(
        self, path: str, body: bytes, headers: dict[str, str], patience: aiohttp.ClientTimeout
    ) -> bytes:
        """What the server answers, in one piece."""
        url = f"{self._base}{path}"
        try:
            async with self._session.post(
                url, data=body, headers=headers, timeout=patience, proxy=self.proxy
            ) as response:
                await self.turnstile.hear()
                content = await response.read()
        except TimeoutError as error:
            raise openai.APITimeoutError(request=httpx2.Request("POST", url)) from error
        except aiohttp.ClientError as error:
            raise openai.APIConnectionError(request=httpx2.Request("POST", url)) from error
        if response.status >= 400:
            raise self._make_status_error_from_response(_as_the_librarys(response, content))
        return content

    async def close(self) -> None:
        await super().close()
        if self._opened_session is not None:
            await self._opened_session.close()

    @cached_property
    def _base(self) -> str:
        return str(self.base_url).rstrip("/")

    @cached_property
    def _common_headers(self) -> dict[str, str]:
        """What goes with every request."""
        given = {**self.default_headers, **self.auth_headers}
        return {name: value for name, value in given.items() if isinstance(value, str)}

    @property
    def _session(self) -> aiohttp.ClientSession:
        # It belongs to the event loop that asks first.
        if self._opened_session is None:
            self._opened_session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(
                    limit=_MAX_CONNECTIONS, keepalive_timeout=_KEEP_IDLE_SECONDS, ssl=_certificates()
                ),
                cookie_jar=aiohttp.DummyCookieJar(),
            )
        return self._opened_session


class _Chat(AsyncChat):
    @cached_property
    def completions(self) -> AsyncCompletions:
        return _Completions(self._client)


class _Completions(AsyncCompletions):
    _client: PlainClient

    async def create(self, **given: Any) -> Any:
        return await self._client.create(_CHAT, given)


class _Responses(AsyncResponses):
    _client: PlainClient

    async def create(self, **given: Any) -> Any:
        return await self._client.create(_RESPONSES, given)


def _json(body: dict[str, Any]) -> bytes:
    """A number that JSON does not have becomes null. Raises UnicodeEncodeError for half a character."""
    try:
        return to_json(body, inf_nan_mode="null")
    except PydanticSerializationError:
        # The standard library's error says what is wrong.
        return json.dumps(body, ensure_ascii=False).encode()


def _patience(timeout: httpx2.Timeout | float | None) -> aiohttp.ClientTimeout:
    """A request's own limit in seconds, where it has one."""
    match timeout:
        case None:
            return _PATIENCE
        case httpx2.Timeout(connect=connect, read=read):
            return aiohttp.ClientTimeout(sock_connect=connect, sock_read=read)
        case _:
            return aiohttp.ClientTimeout(sock_connect=timeout, sock_read=timeout)


def _as_the_librarys(response: aiohttp.ClientResponse, content: bytes) -> httpx2.Response:
    # The content is unpacked already.
    headers = [(name, value) for name, value in response.headers.items() if name != "Content-Encoding"]
    request = httpx2.Request("POST", str(response.url))
    return httpx2.Response(response.status, headers=headers, content=content, request=request)
