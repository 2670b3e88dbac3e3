"""The use cases around queued turns, one method for each verb of a door. It starts no turn.

It works on any thread of the home, also on one that is alive in another process: that one's dispatcher looks.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from rowcrew.agent.catalog import ThreadCatalog
from rowcrew.domain.ids import new_id, short
from rowcrew.domain.lifecycle import QueuedTurnStatus
from rowcrew.domain.queued_turn import NewQueuedTurn, QueuedTurn
from rowcrew.errors import Conflict, InvalidRequest, NotFound
from rowcrew.store.database import Connection, Database
from rowcrew.store.turn_queue import Appended, TurnQueueStore

T = TypeVar("T")

STARTED_HINT = "it is in the thread's turns now: steer or interrupt it"


class TurnQueue:
    """The queues of all threads. `on_change` is called after a change that was made here."""

    def __init__(
        self, queue: Database, threads: ThreadCatalog, *, on_change: Callable[[], None] | None = None
    ) -> None:
        self._queue = queue
        self._threads = threads
        self._on_change = on_change or (lambda: None)

    @property
    def _now(self) -> int:
        return self._threads.clock.now_ms()

    async def add(
        self,
        thread_id: str,
        text: str,
        *,
        options: Mapping[str, Any] | None = None,
        client_id: str | None = None,
    ) -> Appended:
        """Append a turn. Raises NotFound, InvalidRequest (no text), Conflict (client id used otherwise)."""
        if not text.strip():
            raise InvalidRequest("a queued turn needs a text", hint="say what is to be done")
        self._threads.get(thread_id)
        entry = NewQueuedTurn(new_id(), thread_id, text, dict(options or {}), client_id)
        now = self._now
        return await self._change(lambda queue: queue.append(entry, now=now))

    def list(self, thread_id: str, *, offset: int = 0, limit: int = 100) -> list[QueuedTurn]:
        """Pending and failed entries in order. Raises NotFound."""
        self._threads.get(thread_id)
        return self._queue.peek(
            lambda connection: TurnQueueStore(connection).list_page(thread_id, offset=offset, limit=limit)
        )

    def is_held(self, thread_id: str) -> bool:
        """Whether nothing is started until a user starts a turn or says go on."""
        return self._queue.peek(lambda connection: TurnQueueStore(connection).is_held(thread_id))

    def find(self, thread_id: str, prefix: str) -> QueuedTurn:
        """The entry whose id begins so, also one that has been started. Raises NotFound; InvalidRequest when
        several do.
        """
        self._threads.get(thread_id)
        found = self._queue.peek(
            lambda connection: TurnQueueStore(connection).list_like(thread_id, prefix.lower(), limit=2)
        )
        if not found or not prefix:
            raise _unknown(thread_id, prefix)
        if len(found) > 1:
            raise InvalidRequest(f"several queued turns begin with {prefix}", hint="give more of the id")
        return found[0]

    async def update(self, thread_id: str, entry_id: str, text: str) -> QueuedTurn:
        """Write it anew; its place and state stay. Raises NotFound, InvalidRequest, Conflict (started)."""
        if not text.strip():
            raise InvalidRequest("a queued turn needs a text", hint="say what is to be done, or delete it")
        now = self._now

        def change(queue: TurnQueueStore) -> QueuedTurn | None:
            outcome = queue.update(thread_id, entry_id, text=text, now=now)
            if outcome == "already_started":
                raise _started(entry_id)
            return queue.find(thread_id, entry_id)

        return _found(await self._change(change), thread_id, entry_id)

    async def delete(self, thread_id: str, entry_id: str) -> bool:
        """False when there is none. Raises Conflict when it has been started."""
        outcome = await self._change(lambda queue: queue.delete(thread_id, entry_id))
        if outcome == "already_started":
            raise _started(entry_id)
        return outcome == "done"

    async def reorder(self, thread_id: str, entry_ids: Sequence[str]) -> None:
        """Raises NotFound; InvalidRequest unless every visible entry is named exactly once."""
        self._threads.get(thread_id)
        now = self._now
        await self._change(lambda queue: queue.reorder(thread_id, entry_ids, now=now))

    async def retry(self, thread_id: str, entry_id: str) -> QueuedTurn:
        """failed → pending. Raises NotFound, Conflict when it has not failed."""
        now = self._now

        def change(queue: TurnQueueStore) -> QueuedTurn | None:
            outcome = queue.retry(thread_id, entry_id, now=now)
            if outcome == "already_started":
                raise _started(entry_id)
            if outcome == "not_failed":
                raise Conflict(
                    f"the queued turn {short(entry_id)} has not failed", state=str(QueuedTurnStatus.PENDING)
                )
            return queue.find(thread_id, entry_id)

        return _found(await self._change(change), thread_id, entry_id)

    async def go_on(self, thread_id: str) -> bool:
        """Let go of a queue that an interrupt holds. False when it was not held. Raises NotFound."""
        self._threads.get(thread_id)
        return await self._change(lambda queue: queue.release(thread_id))

    async def _change(self, work: Callable[[TurnQueueStore], T]) -> T:
        def write(connection: Connection) -> T:
            return work(TurnQueueStore(connection))

        try:
            return await self._queue.write(write)
        finally:
            self._on_change()


def _started(entry_id: str) -> Conflict:
    return Conflict(
        f"the queued turn {short(entry_id)} has been started already",
        state=str(QueuedTurnStatus.DISPATCHING),
        hint=STARTED_HINT,
    )


def _unknown(thread_id: str, entry_id: str) -> NotFound:
    return NotFound(
        f"the thread {short(thread_id)} has no queued turn {entry_id!r}",
        hint=f"`rowcrew queue list {short(thread_id)}` shows what waits",
    )


def _found(entry: QueuedTurn | None, thread_id: str, entry_id: str) -> QueuedTurn:
    if entry is None:
        raise _unknown(thread_id, entry_id)
    return entry
