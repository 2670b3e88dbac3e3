"""WebSocket on loopback as a transport, and the server that listens there. It knows no method.

Only this machine may connect, and no web page: a request that names an origin is refused.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from ipaddress import ip_address

from aiohttp import WSCloseCode, WSMsgType, web

from rowcrew.appserver.connection import Transport
from rowcrew.appserver.framing import MAX_MESSAGE_BYTES, TooLong
from rowcrew.errors import InvalidRequest

# Longer messages than allowed are answered up to this; beyond it the connection is closed.
MAX_FRAME_BYTES = 64 * 1024 * 1024
PING_SECONDS = 30.0

Serve = Callable[[Transport], Awaitable[None]]


class WebSocketTransport:
    """One message for each frame."""

    def __init__(self, socket: web.WebSocketResponse) -> None:
        self._socket = socket

    async def receive(self) -> bytes | TooLong | None:
        while True:
            message = await self._socket.receive()
            if message.type not in (WSMsgType.TEXT, WSMsgType.BINARY):
                return None
            data = message.data.encode("utf-8") if message.type is WSMsgType.TEXT else message.data
            if len(data) > MAX_MESSAGE_BYTES:
                return TooLong()
            if data.strip():
                return bytes(data)

    async def send(self, frames: Sequence[bytes]) -> None:
        for frame in frames:
            if self._socket.closed:
                raise ConnectionResetError
            await self._socket.send_str(frame.decode("ascii"))


def parse_address(listen: str) -> tuple[str, int]:
    """(host, port) of `ws://127.0.0.1:PORT`. Raises InvalidRequest for anything but loopback."""
    rest = listen.removeprefix("ws://").removesuffix("/")
    host, colon, port = rest.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if listen == rest or not colon or not port.isdigit() or int(port) > 65535:
        raise InvalidRequest(
            f"{listen!r} is no address to listen on", hint="give stdio:// or ws://127.0.0.1:PORT"
        )
    try:
        is_loopback = host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        is_loopback = False
    if not is_loopback:
        raise InvalidRequest(
            f"{host!r} is not this machine alone: whoever reaches the app-server can run commands here",
            hint="give ws://127.0.0.1:PORT, and forward it over SSH where it must be reached from elsewhere",
        )
    return host, int(port)


@asynccontextmanager
async def listening(host: str, port: int, serve: Serve) -> AsyncIterator[int]:
    """Take connections, each served until it ends. Gives the port (another than 0). Raises InvalidRequest."""

    async def connected(request: web.Request) -> web.StreamResponse:
        if "Origin" in request.headers:
            raise web.HTTPForbidden(text="web pages may not connect\n")
        socket = web.WebSocketResponse(max_msg_size=MAX_FRAME_BYTES, heartbeat=PING_SECONDS)
        if not socket.can_prepare(request).ok:
            raise web.HTTPBadRequest(text="this address takes WebSocket connections\n")
        await socket.prepare(request)
        try:
            await serve(WebSocketTransport(socket))
        finally:
            await socket.close(code=WSCloseCode.GOING_AWAY)
        return socket

    async def ready(_: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    app = web.Application()
    app.router.add_get("/", connected)
    app.router.add_get("/readyz", ready)
    runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=1.0)
    await runner.setup()
    try:
        try:
            await web.TCPSite(runner, host, port).start()
        except OSError as error:
            raise InvalidRequest(
                f"nothing can listen on {host}:{port}: {error.strerror or error}", hint="give another port"
            ) from error
        yield int(runner.addresses[0][1])
    finally:
        await runner.cleanup()
