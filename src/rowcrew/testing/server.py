"""A scripted model behind HTTP on loopback: Chat Completions, Responses, model list. It decides no answer.

    async with ModelServer(["first answer", rate_limited(2), Reply(calls=[CallTool("shell", {})])]) as server:
        client = await ModelClient.open(ModelChoice("openai-chat:test", base_url=server.url))

Discipline: all of it lives on the event loop that entered the `async with`; a script function is called when
a request has arrived, one after the other, and may be async to hold its answer back.
"""

import asyncio
import inspect
import json
from collections.abc import Sequence
from typing import Any, Self

from aiohttp import web

from rowcrew.clock import Clock, SystemClock
from rowcrew.testing import wire
from rowcrew.testing.answers import (
    Answer,
    Api,
    Cut,
    Failure,
    HalfJson,
    Received,
    Reply,
    Script,
    ScriptFunction,
    Silence,
)

_MAX_BODY_BYTES = 256 * 1024 * 1024
_BAD_SCRIPT = "the script of the test server"
DEFAULT_PATIENCE = 30.0


class ModelServer:
    """The server, what it was asked (`requests`), and how much of it at once (`in_flight`, `peak`).

    `record=False` keeps no requests, for measuring; the counts are kept all the same.
    """

    def __init__(
        self,
        script: Script = "ok",
        *,
        models: Sequence[str] = ("scripted",),
        clock: Clock | None = None,
        record: bool = True,
        port: int = 0,
    ) -> None:
        self.requests: list[Received] = []
        self.arrived = 0
        self.answered = 0
        self.abandoned = 0
        self.in_flight = 0
        self.peak = 0
        self._answer = _as_function(script)
        self._models = list(models)
        self._clock: Clock = clock or SystemClock()
        self._record = record
        self._port = port
        self._closing = asyncio.Event()
        self._changed = asyncio.Event()
        self._runner: web.AppRunner | None = None

    @property
    def url(self) -> str:
        """What goes into `--base-url`."""
        return f"{self.origin}/v1"

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    async def until(self, *, arrived: int = 0, answered: int = 0, abandoned: int = 0) -> None:
        """Wait until that many requests came, were answered, were given up by their client. Bounded."""

        async with asyncio.timeout(DEFAULT_PATIENCE):
            while self.arrived < arrived or self.answered < answered or self.abandoned < abandoned:
                await self._changed.wait()

    async def __aenter__(self) -> Self:
        app = web.Application(client_max_size=_MAX_BODY_BYTES)
        app.router.add_post("/v1/chat/completions", self._chat)
        app.router.add_post("/v1/responses", self._responses)
        app.router.add_get("/v1/models", self._list_models)
        self._runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=1.0)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self._port, backlog=4096)
        await site.start()
        self._port = self._runner.addresses[0][1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._closing.set()
        if self._runner is not None:
            await self._runner.cleanup()

    async def _list_models(self, _: web.Request) -> web.Response:
        return web.json_response(wire.models(self._models))

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        return await self._serve(request, "chat")

    async def _responses(self, request: web.Request) -> web.StreamResponse:
        return await self._serve(request, "responses")

    async def _serve(self, request: web.Request, api: Api) -> web.StreamResponse:
        received = Received(
            number=self.arrived,
            at=self._clock.monotonic(),
            api=api,
            headers={name.lower(): value for name, value in request.headers.items()},
            body={},
        )
        self.arrived += 1
        self.in_flight += 1
        self.peak = max(self.peak, self.in_flight)
        if self._record:
            self.requests.append(received)
        try:
            try:
                received.body = json.loads(await request.read())
            except ValueError as error:
                return self._fail(Failure(400, "invalid_json", str(error)))
            self._tell()
            done = await self._carry_out(request, received, await self._decide(received))
            received.outcome = "answered"
            self.answered += 1
            return done
        except (asyncio.CancelledError, ConnectionError):
            received.outcome = "abandoned"
            self.abandoned += 1
            raise
        finally:
            self.in_flight -= 1
            self._tell()

    def _tell(self) -> None:
        """Wake all who wait in `until`; whoever comes later waits for the next change."""
        self._changed.set()
        self._changed = asyncio.Event()

    async def _decide(self, received: Received) -> Answer:
        try:
            answer = self._answer(received)
            if inspect.isawaitable(answer):
                answer = await answer
        except Exception as error:  # a mistake in a test must show in its client, not hang it
            return Failure(400, "script_error", f"{_BAD_SCRIPT} raised {error!r}")
        return Reply(text=answer) if isinstance(answer, str) else answer

    async def _carry_out(
        self, request: web.Request, received: Received, answer: Answer
    ) -> web.StreamResponse:
        if not isinstance(answer, Silence) and answer.delay > 0:
            await self._clock.sleep(answer.delay)
        match answer:
            case Failure():
                return self._fail(answer)
            case Silence():
                await self._closing.wait()
                return web.Response(status=503)
            case Cut(reply=reply) | HalfJson(reply=reply):
                return await self._break_off(request, received, reply, cut=isinstance(answer, Cut))
            case Reply():
                if not received.streaming:
                    return web.json_response(wire.plain(received, answer))
                response = await self._open_stream(request)
                for event in wire.events(received, answer):
                    await response.write(event.encode())
                await response.write_eof()
                return response

    def _fail(self, failure: Failure) -> web.Response:
        return web.json_response(wire.error(failure), status=failure.status, headers=dict(failure.headers))

    async def _open_stream(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(
            headers={"Content-Type": "text/event-stream", "Cache-Control": "no-cache"}
        )
        await response.prepare(request)
        return response

    async def _break_off(
        self, request: web.Request, received: Received, reply: Reply, *, cut: bool
    ) -> web.StreamResponse:
        """Half of the reply, then either the end of the connection or a proper end of the response."""
        whole = _whole(received, reply).encode()
        half = whole[: len(whole) // 2]
        if received.streaming:
            response = await self._open_stream(request)
        elif cut:
            response = web.StreamResponse(headers={"Content-Type": "application/json"})
            response.content_length = len(whole)
            await response.prepare(request)
        else:
            return web.Response(body=half, content_type="application/json")
        await response.write(half)
        if cut:
            if request.transport is not None:
                request.transport.close()
        else:
            await response.write_eof()
        return response


def _whole(received: Received, reply: Reply) -> str:
    if received.streaming:
        return "".join(wire.events(received, reply))
    return json.dumps(wire.plain(received, reply))


def _as_function(script: Script) -> ScriptFunction:
    if callable(script):
        return script
    if isinstance(script, str | Reply | Failure | Cut | HalfJson | Silence):
        answer = script
        return lambda _: answer
    answers = list[Any](script)

    def in_order(received: Received) -> Answer | str:
        if received.number < len(answers):
            scripted: Answer | str = answers[received.number]
            return scripted
        return Failure(400, "script_exhausted", f"{_BAD_SCRIPT} has no more answers than {len(answers)}")

    return in_order
