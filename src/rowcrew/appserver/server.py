"""One app-server: the engine's services, and the clients that are connected. It opens no socket and no file.

Discipline: one event loop. Each connection has three tasks (requests, notifications, writing) that `serve`
awaits. The end goes from the source to the mouth: dispatch nothing more, end jobs and threads, tell what they
had to say, close the connections.
"""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from rowcrew.agent.dispatcher import Dispatcher
from rowcrew.agent.queueing import TurnQueue
from rowcrew.agent.service import ThreadService
from rowcrew.appserver.connection import Connection, Transport
from rowcrew.appserver.entities import Wire
from rowcrew.appserver.job_runs import JobRuns
from rowcrew.appserver.methods import MethodTable
from rowcrew.appserver.notifications import Feed
from rowcrew.appserver.protocol import ThreadQueueChangedNotification
from rowcrew.appserver.services import Services
from rowcrew.engine import Engine
from rowcrew.store.database import Database

log = logging.getLogger(__name__)

# What a turn gets to end, and a client to read what is left, when the server ends.
SHUTDOWN_SECONDS = 8.0
LAST_WORDS_SECONDS = 2.0


class AppServer:
    """Serves connections until it is closed. Made by `AppServer.open`."""

    def __init__(self, engine: Engine, threads: ThreadService, queue: Database) -> None:
        self._engine = engine
        self._threads = threads
        self._connections: dict[Connection, Feed] = {}
        self._ending = asyncio.Event()
        self._ended = asyncio.Event()
        self.dispatcher = Dispatcher(queue, threads, on_changed=self._queue_changed)
        services = Services(
            engine,
            threads,
            TurnQueue(queue, threads, on_change=self.dispatcher.wake),
            self.dispatcher,
            JobRuns(engine.jobs, tell=self.announce, tell_loosely=self.announce_loosely),
            self.announce,
        )
        self._runs = services.runs
        self.methods = MethodTable(services)

    @classmethod
    @asynccontextmanager
    async def open(cls, engine: Engine) -> AsyncIterator["AppServer"]:
        """Recover the queues, begin to dispatch; at the end, end what was started here."""
        server = cls(engine, await engine.threads(), await engine.database("queue"))
        async with server.dispatcher:
            try:
                yield server
            finally:
                await server.close()

    async def serve(self, transport: Transport, *, alone: bool = False) -> None:
        """One client, until it has gone or the server ends. `alone`: the server ends when it says no more."""
        connection = Connection(transport, self.methods)
        feed = Feed(connection, self._threads)
        self._connections[connection] = feed
        writing = asyncio.create_task(connection.write(), name="writing")
        telling = asyncio.create_task(feed.run(), name="notifications")
        try:
            if self._ending.is_set():
                connection.stop()
            await connection.serve()
            if alone:
                self.begin_end()
            if self._ending.is_set():
                # What the threads say at their end still goes to this client.
                await self._ended.wait()
        finally:
            feed.close()
            # With the client gone nothing waits for room, so that this ends at once.
            await asyncio.wait({telling}, timeout=LAST_WORDS_SECONDS)
            connection.outbox.close()
            await asyncio.wait({writing}, timeout=LAST_WORDS_SECONDS)
            del self._connections[connection]
            for task in (telling, writing):
                task.cancel()
            await asyncio.gather(telling, writing, return_exceptions=True)

    async def until_ending(self) -> None:
        """Return when the end has begun; who opened the server closes it then."""
        await self._ending.wait()

    def begin_end(self) -> None:
        """Read no more requests; the connections stay until `close` has ended what they may hear of."""
        self._ending.set()
        for connection in self._connections:
            connection.stop()

    async def close(self) -> None:
        """End jobs (paused, they can be resumed) and threads, then let the connections go. Idempotent."""
        self.begin_end()
        await self.dispatcher.close()
        await self._runs.close()
        await self._threads.control.shutdown_all(SHUTDOWN_SECONDS)
        await self.dispatcher.settle(SHUTDOWN_SECONDS)
        self._ended.set()

    def announce(self, method: str, params: Wire) -> None:
        """Tell every client."""
        for connection in tuple(self._connections):
            connection.notify(method, params)

    def announce_loosely(self, method: str, params: Wire) -> None:
        """Tell every client that keeps up with reading."""
        for connection in tuple(self._connections):
            if not connection.outbox.is_full:
                connection.notify(method, params)

    def _queue_changed(self, thread_id: str) -> None:
        self.announce("thread/queue/changed", ThreadQueueChangedNotification(thread_id=thread_id))
