"""The WebSocket on loopback: several clients at once, and who may not come in."""

import json
from typing import Any

import pytest
from aiohttp import ClientSession, ClientWebSocketResponse, WSMsgType, WSServerHandshakeError

from rowcrew.appserver.websocket import listening, parse_address
from rowcrew.errors import InvalidRequest
from tests.appserver.conftest import Desk


async def call(socket: ClientWebSocketResponse, number: int, method: str, **params: Any) -> Any:
    await socket.send_str(json.dumps({"id": number, "method": method, "params": params}))
    while True:
        message = await socket.receive_json(timeout=20)
        if message.get("id") == number:
            return message.get("result", message.get("error"))


async def hello(socket: ClientWebSocketResponse) -> None:
    await call(socket, 0, "initialize", clientInfo={"name": "test", "version": "1"})


async def test_several_clients_are_served_at_once_each_with_a_hello_of_its_own(desk: Desk) -> None:
    async with listening("127.0.0.1", 0, desk.server.serve) as port, ClientSession() as session:
        url = f"ws://127.0.0.1:{port}/"
        async with session.ws_connect(url) as one, session.ws_connect(url) as other:
            await hello(one)
            assert (await call(other, 1, "thread/list"))["message"] == "Not initialized"
            await hello(other)
            thread_id = (await call(one, 1, "thread/start"))["thread"]["id"]
            assert (await call(other, 2, "thread/loaded/list"))["data"] == [thread_id]
            await one.close()
            assert (await call(other, 3, "thread/loaded/list"))["data"] == [thread_id]
            turn = await call(
                other, 4, "turn/start", threadId=thread_id, input=[{"type": "text", "text": "hello"}]
            )
            while (message := await other.receive_json(timeout=20)).get("method") != "turn/completed":
                pass
            assert message["params"]["turn"]["id"] == turn["turn"]["id"]
        # What is open is closed before the address is given up.
        await desk.server.close()


async def test_a_message_that_is_too_long_is_refused_and_the_connection_lives(desk: Desk) -> None:
    async with listening("127.0.0.1", 0, desk.server.serve) as port, ClientSession() as session:
        async with session.ws_connect(f"ws://127.0.0.1:{port}/") as socket:
            await hello(socket)
            await socket.send_str("x" * (10 * 1024 * 1024))
            refused = await socket.receive_json(timeout=20)
            assert refused["error"]["message"] == "a message may have at most 4194304 bytes"
            assert (await call(socket, 1, "thread/list"))["data"] == []
        await desk.server.close()


async def test_web_pages_may_not_connect(desk: Desk) -> None:
    async with listening("127.0.0.1", 0, desk.server.serve) as port, ClientSession() as session:
        with pytest.raises(WSServerHandshakeError) as refused:
            await session.ws_connect(f"ws://127.0.0.1:{port}/", origin="http://127.0.0.1")
        assert refused.value.status == 403
        async with session.get(f"http://127.0.0.1:{port}/") as plain:
            assert plain.status == 400


async def test_the_end_of_the_server_closes_the_connections(desk: Desk) -> None:
    async with listening("127.0.0.1", 0, desk.server.serve) as port, ClientSession() as session:
        socket = await session.ws_connect(f"ws://127.0.0.1:{port}/")
        await hello(socket)
        await desk.server.close()
        assert (await socket.receive(timeout=20)).type is WSMsgType.CLOSE


@pytest.mark.parametrize("listen", ["ws://127.0.0.1:0", "ws://localhost:80/", "ws://[::1]:65535"])
def test_loopback_addresses_are_taken(listen: str) -> None:
    host, port = parse_address(listen)
    assert host in ("127.0.0.1", "localhost", "::1")
    assert 0 <= port <= 65535


@pytest.mark.parametrize(
    "listen",
    ["ws://0.0.0.0:80", "ws://example.com:80", "ws://127.0.0.1", "ws://127.0.0.1:99999", "tcp://x:1"],
)
def test_other_addresses_are_refused(listen: str) -> None:
    with pytest.raises(InvalidRequest):
        parse_address(listen)
