"""Keeps the rows of live threads true: owner, status, preview. It starts and ends no thread.

Discipline: one event loop. What is to be written waits in `_pending` and goes out as one write at a time, so
that a thousand agents that start and end cost a few writes, and changes of one thread stay in order.
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace

from rowcrew.bus import Bus
from rowcrew.clock import Clock
from rowcrew.domain.events import (
    AgentState,
    AgentStatus,
    Fact,
    ThreadClosed,
    ThreadStatusChanged,
    TurnItemCompleted,
    TurnItemKind,
)
from rowcrew.domain.thread import NewThread, preview_of
from rowcrew.errors import RowcrewError
from rowcrew.processes import ProcessIdentity
from rowcrew.store.database import Connection, Database
from rowcrew.store.threads import ThreadStore

GATHER_SECONDS = 0.05

log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Change:
    """What has become of one thread since its row was last written."""

    new: NewThread | None = None
    status: AgentStatus | None = None
    preview: str | None = None
    closed: bool = False


@dataclass(slots=True)
class _Pending:
    changes: dict[str, _Change] = field(default_factory=dict)

    def of(self, thread_id: str) -> _Change:
        return self.changes.setdefault(thread_id, _Change())


class ThreadLedger:
    """Follows the facts of a bus. Used in an `async with`, or `open` and `close`."""

    def __init__(self, state: Database, bus: Bus, clock: Clock, *, owner: ProcessIdentity) -> None:
        self.owner = owner
        self._state = state
        self._clock = clock
        self._facts = bus.subscribe(_matters)
        self._pending = _Pending()
        self._previewed: set[str] = set()
        self._writing = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None

    def open(self) -> None:
        """Begin to follow."""
        self._task = asyncio.create_task(self._follow(), name="thread ledger")

    async def close(self) -> None:
        """Write what is left, and stop."""
        self._facts.close()
        if self._task is not None:
            await self._task
        with suppress(RowcrewError):
            await self.flush()

    def add(self, thread: NewThread) -> None:
        """A thread that has just come alive here and has no row yet. It gets one with the next write."""
        self._pending.of(thread.id).new = thread
        if thread.preview:
            self._previewed.add(thread.id)

    async def flush(self) -> None:
        """Return when all that has happened so far is in the file. Raises StoreError."""
        async with self._writing:
            while (fact := self._facts.take()) is not None:
                self._take(fact)
            pending, self._pending = self._pending, _Pending()
            if not pending.changes:
                return
            try:
                await self._state.write(self._writer(pending))
            except Exception:
                self._keep(pending)
                raise

    def _keep(self, pending: _Pending) -> None:
        """What could not be written waits for the next write, under what came later."""
        for thread_id, later in self._pending.changes.items():
            earlier = pending.of(thread_id)
            pending.changes[thread_id] = replace(
                earlier,
                new=later.new or earlier.new,
                status=later.status or earlier.status,
                preview=earlier.preview or later.preview,
                closed=earlier.closed or later.closed,
            )
        self._pending = pending

    async def _follow(self) -> None:
        async for fact in self._facts:
            self._take(fact)
            # A short-lived agent is one entry then, and a thousand of them are a few writes.
            await asyncio.sleep(GATHER_SECONDS)
            try:
                await self.flush()
            except Exception:
                # The agents go on: what is in the history does not depend on it, and it is tried again.
                log.exception("the rows of threads could not be written")

    def _take(self, fact: Fact) -> None:
        match fact:
            case ThreadStatusChanged(thread_id=thread_id, status=status):
                # That a thread is not alive any more is said by its owner; its row keeps how it went.
                if status.state is not AgentState.SHUTDOWN:
                    self._pending.of(thread_id).status = status
            case ThreadClosed(thread_id=thread_id):
                self._pending.of(thread_id).closed = True
                self._previewed.discard(thread_id)
            case TurnItemCompleted(thread_id=thread_id) if thread_id not in self._previewed:
                self._previewed.add(thread_id)
                self._pending.of(thread_id).preview = preview_of(str(fact.item.content.get("text", "")))
            case _:
                pass

    def _writer(self, pending: _Pending) -> Callable[[Connection], None]:
        now, owner = self._clock.now_ms(), self.owner
        unborn = AgentStatus(AgentState.PENDING_INIT)
        alive: list[tuple[NewThread, AgentStatus]] = []
        ended: list[tuple[NewThread, AgentStatus]] = []
        statuses: dict[str, AgentStatus] = {}
        gone: list[str] = []
        for thread_id, change in pending.changes.items():
            if change.new is not None:
                (ended if change.closed else alive).append((change.new, change.status or unborn))
            elif change.closed:
                gone.append(thread_id)
            if change.status is not None:
                statuses[thread_id] = change.status

        def write(connection: Connection) -> None:
            threads = ThreadStore(connection)
            threads.add_all(alive, owner=owner, now=now)
            threads.add_all(ended, owner=None, now=now)
            # Who was added has its status already; who was there before gets it now.
            threads.set_statuses(statuses, now=now)
            for thread_id, change in pending.changes.items():
                if change.preview:
                    threads.set_preview(thread_id, preview=change.preview, now=now)
            threads.let_go(*gone, owner=owner)

        return write


def _matters(fact: Fact) -> bool:
    if isinstance(fact, TurnItemCompleted):
        return fact.item.kind is TurnItemKind.USER_MESSAGE
    return isinstance(fact, ThreadStatusChanged | ThreadClosed)
