"""A scripted model in a thread of its own, beside commands that have this one to themselves."""

import asyncio
import threading

from rowcrew.testing import ModelServer
from rowcrew.testing.answers import Script


class ServerThread:
    """A ModelServer in a thread and an event loop of its own."""

    def __init__(self, script: Script) -> None:
        self.server = ModelServer(script)
        self._ready = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._done = asyncio.Event()
        self._thread = threading.Thread(target=self._loop.run_until_complete, args=(self._serve(),))

    async def _serve(self) -> None:
        async with self.server:
            self._ready.set()
            await self._done.wait()

    def __enter__(self) -> "ServerThread":
        self._thread.start()
        assert self._ready.wait(30)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._done.set)
        self._thread.join(30)
        self._loop.close()
