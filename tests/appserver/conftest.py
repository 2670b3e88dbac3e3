"""An app-server over a real home and a real model server, and clients that speak to it frame by frame."""

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from rowcrew.appserver.framing import MAX_MESSAGE_BYTES, TooLong
from rowcrew.appserver.server import AppServer
from rowcrew.config import Settings
from rowcrew.engine import Engine
from rowcrew.testing import ModelServer

PATIENCE = 20.0
Message = dict[str, Any]


class Failure(Exception):
    """A request was answered with an error."""

    def __init__(self, error: Message) -> None:
        super().__init__(error["message"])
        self.code: int = error["code"]
        self.message: str = error["message"]
        self.data: Message = error.get("data", {})


@dataclass
class Client:
    """One client: the two ends of a transport, and what it has been told."""

    to_server: asyncio.Queue[bytes | TooLong | None] = field(default_factory=asyncio.Queue)
    told: list[Message] = field(default_factory=list)
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    # Cleared, it reads no more until it is set again.
    reads: asyncio.Event = field(default_factory=asyncio.Event)
    numbers: Any = field(default_factory=lambda: itertools.count(100))

    def __post_init__(self) -> None:
        self.reads.set()

    async def receive(self) -> bytes | TooLong | None:
        return await self.to_server.get()

    async def send(self, frames: Sequence[bytes]) -> None:
        for frame in frames:
            await self.reads.wait()
            assert b"\n" not in frame
            self.told.append(json.loads(frame))
            self.changed.set()

    # -- what a test says and waits for -----------------------------------------------------------------

    def write(self, line: bytes) -> None:
        self.to_server.put_nowait(TooLong() if len(line) > MAX_MESSAGE_BYTES else line)

    def ask(self, method: str, **params: Any) -> int:
        number = next(self.numbers)
        self.write(json.dumps({"id": number, "method": method, "params": params}).encode())
        return number

    async def call(self, method: str, **params: Any) -> Message:
        number = self.ask(method, **params)
        answer = await self.until(lambda one: one.get("id") == number)
        if "error" in answer:
            raise Failure(answer["error"])
        result: Message = answer["result"]
        return result

    async def until(self, wanted: Callable[[Message], bool], *, start: int = 0) -> Message:
        """The first message of that kind, from the given place on; waits for it, bounded."""
        async with asyncio.timeout(PATIENCE):
            while True:
                # Each message is looked at once, however many come.
                while start < len(self.told):
                    if wanted(message := self.told[start]):
                        return message
                    start += 1
                self.changed.clear()
                await self.changed.wait()

    async def notified(self, method: str, *, start: int = 0, **params: Any) -> Message:
        """The params of the first such notification."""

        def wanted(message: Message) -> bool:
            found = message.get("params", {})
            return message.get("method") == method and all(
                found.get(name) == value for name, value in params.items()
            )

        result: Message = (await self.until(wanted, start=start))["params"]
        return result

    async def turn_ended(self, turn_id: str) -> Message:
        ended = await self.until(
            lambda one: one.get("method") == "turn/completed" and one["params"]["turn"]["id"] == turn_id
        )
        turn: Message = ended["params"]["turn"]
        return turn

    async def say(self, thread_id: str, text: str, **params: Any) -> Message:
        """A whole turn; its end."""
        started = await self.call(
            "turn/start", threadId=thread_id, input=[{"type": "text", "text": text}], **params
        )
        return await self.turn_ended(started["turn"]["id"])

    def methods(self, turn_id: str) -> list[str]:
        """The notifications of one turn, in order."""

        def of_turn(params: Message) -> bool:
            return turn_id in (params.get("turnId"), params.get("turn", {}).get("id"))

        return [one["method"] for one in self.told if "method" in one and of_turn(one["params"])]


@dataclass
class Desk:
    """A server, and how to connect to it. `script` of the model server may be changed at any time."""

    home: Path
    server: AppServer
    engine: Engine
    models: ModelServer
    stack: AsyncExitStack
    serving: list[asyncio.Task[None]] = field(default_factory=list)

    def connect(self) -> Client:
        client = Client()
        self.serving.append(asyncio.create_task(self.server.serve(client)))
        return client

    async def client(self, **capabilities: Any) -> Client:
        """A client that has said hello."""
        client = self.connect()
        await client.call(
            "initialize", clientInfo={"name": "test", "version": "1"}, capabilities=capabilities or None
        )
        return client

    async def thread(self, client: Client, **params: Any) -> str:
        started = await client.call("thread/start", **params)
        thread_id: str = started["thread"]["id"]
        return thread_id


Opened = Callable[..., Any]


@pytest.fixture
def open_desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Opened:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    monkeypatch.chdir(tmp_path)

    @asynccontextmanager
    async def opened(script: Any = "ok", **settings: str) -> AsyncIterator[Desk]:
        async with AsyncExitStack() as stack:
            models = await stack.enter_async_context(ModelServer(script))
            environment = {
                "ROWCREW_HOME": str(tmp_path / "home"),
                "ROWCREW_MODEL": "openai-chat:scripted",
                "ROWCREW_BASE_URL": models.url,
                **settings,
            }
            engine = await stack.enter_async_context(
                Engine.open(Settings.load({}, environment=environment, folder=tmp_path))
            )
            server = await stack.enter_async_context(AppServer.open(engine))
            desk = Desk(tmp_path / "home", server, engine, models, stack)
            try:
                yield desk
            finally:
                async with asyncio.timeout(2 * PATIENCE):
                    await server.close()
                    await asyncio.gather(*desk.serving)

    return opened


@pytest.fixture
async def desk(open_desk: Opened) -> AsyncIterator[Desk]:
    async with open_desk() as desk:
        yield desk
