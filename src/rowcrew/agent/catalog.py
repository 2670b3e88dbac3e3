"""The threads of a home as they are stored: found, listed, read, named and put away. It brings none to life.

It loads no model library, so that who only looks does not wait for one.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from rowcrew.clock import Clock
from rowcrew.domain.history import Turn
from rowcrew.domain.ids import short
from rowcrew.domain.thread import Thread, ThreadPage
from rowcrew.errors import InvalidRequest, NotFound
from rowcrew.store.database import Connection, Database
from rowcrew.store.history import HistoryStore
from rowcrew.store.threads import ThreadOrder, ThreadStore

# Threads that someone leads. The others are a job's workers (`job`) and agents' agents (`collab`).
LED_SOURCES = ("exec", "appServer", "cli", "mcp", "python")


@dataclass(frozen=True, slots=True)
class ThreadView:
    """A thread with its turns, the oldest first; no turns where they were not asked for."""

    thread: Thread
    turns: tuple[Turn, ...] = ()


class ThreadCatalog:
    """`open_history` is asked for the history file when turns are to be read."""

    def __init__(
        self, state: Database, open_history: Callable[[], Awaitable[Database]], clock: Clock
    ) -> None:
        self.clock = clock
        self._state = state
        self._open_history = open_history

    def get(self, thread_id: str) -> Thread:
        """The stored thread. Raises NotFound."""
        return self._state.peek(lambda connection: ThreadStore(connection).get(thread_id))

    def find(self, prefix: str) -> Thread:
        """The thread whose id begins so. Raises NotFound, and InvalidRequest when several do."""
        ids = self._state.peek(lambda connection: ThreadStore(connection).list_ids_like(prefix.lower()))
        if not ids or not prefix:
            raise NotFound(
                f"no thread id begins with {prefix!r}", hint="`rowcrew thread list` shows the threads"
            )
        if len(ids) > 1:
            some = ", ".join(short(found) for found in ids[:5])
            raise InvalidRequest(
                f"several thread ids begin with {prefix}: {some}", hint="give more of the id"
            )
        return self.get(ids[0])

    async def read(self, thread_id: str, *, with_turns: bool = True) -> ThreadView:
        """The thread as it is now, with its turns. Raises NotFound."""
        thread = self.get(thread_id)
        if not with_turns:
            return ThreadView(thread)
        return ThreadView(thread, tuple(await self.list_turns(thread_id)))

    async def list_turns(self, thread_id: str) -> "list[Turn]":
        """The turns of a thread, the oldest first, with their items."""
        history = await self._open_history()
        return await history.read(lambda connection: HistoryStore(connection).list_turns(thread_id))

    async def find_turn(self, thread_id: str, turn_id: str) -> Turn | None:
        """One turn with its items, as far as it is kept."""
        history = await self._open_history()
        return await history.read(lambda connection: HistoryStore(connection).find_turn(thread_id, turn_id))

    async def set_name(self, thread_id: str, name: str | None) -> Thread:
        """Raises NotFound."""
        now = self.clock.now_ms()
        return await self._change(thread_id, lambda rows: rows.set_name(thread_id, name=name, now=now))

    async def archive(self, thread_id: str) -> Thread:
        """Take it out of the lists. Idempotent. Raises NotFound."""
        now = self.clock.now_ms()
        return await self._change(thread_id, lambda rows: rows.archive(thread_id, now=now))

    async def unarchive(self, thread_id: str) -> Thread:
        """Idempotent. Raises NotFound."""
        now = self.clock.now_ms()
        return await self._change(thread_id, lambda rows: rows.unarchive(thread_id, now=now))

    async def _change(self, thread_id: str, change: Callable[[ThreadStore], bool]) -> Thread:
        def write(connection: Connection) -> Thread:
            change(ThreadStore(connection))
            return ThreadStore(connection).get(thread_id)

        return await self._state.write(write)

    # Last, because its name hides the builtin from the annotations below it.
    def list(
        self,
        *,
        limit: int = 25,
        cursor: str | None = None,
        archived: bool | None = False,
        parent_id: str | None = None,
        sources: Sequence[str] | None = LED_SOURCES,
        search: str | None = None,
        order: ThreadOrder = "created",
    ) -> ThreadPage:
        """A page of threads, the newest first. `archived` and `sources` None mean any."""
        return self._state.peek(
            lambda connection: ThreadStore(connection).list_page(
                limit=limit,
                cursor=cursor,
                archived=archived,
                parent_id=parent_id,
                sources=sources,
                search=search,
                order=order,
            )
        )
