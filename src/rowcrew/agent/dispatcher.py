"""Feeds the threads that are alive in this process from their durable queues, one turn at a time.

Discipline: one event loop. What a thread dispatches is decided under that thread's lock, so that two looks
never claim for one thread at once; between processes the store's claim decides, and only the process in which
a thread is alive claims for it. An entry gets its turn's id in the transaction that claims it, before the
turn starts, and leaves when that turn has ended: whatever crashes in between, it is there exactly once.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Any

from rowcrew.agent.service import ThreadService
from rowcrew.agent.thread import SentTurn
from rowcrew.domain.events import Fact, ThreadStarted, TurnEnded, TurnStarted
from rowcrew.domain.ids import new_id, short
from rowcrew.domain.lifecycle import QueuedTurnStatus, TurnStatus
from rowcrew.domain.queued_turn import QueuedTurn
from rowcrew.errors import Conflict, LimitReached, NotFound, RowcrewError
from rowcrew.store.database import Connection, Database
from rowcrew.store.history import HistoryStore
from rowcrew.store.turn_queue import Recovered, TurnQueueStore

log = logging.getLogger(__name__)

# What another process adds is found within a second, also when this one has just looked.
LOOK_SECONDS = 0.4


class Dispatcher:
    """The queues of the threads that are alive here. `on_changed` is told whose queue is another than before.

    Use it in an `async with`: entering recovers what dead processes left, before anything is dispatched.
    With `by_itself=False` it starts only what `start_head` and `work_off` are asked for.
    """

    def __init__(
        self,
        queue: Database,
        threads: ThreadService,
        *,
        on_changed: Callable[[str], None] | None = None,
        look_seconds: float = LOOK_SECONDS,
        by_itself: bool = True,
    ) -> None:
        self._queue = queue
        self._threads = threads
        self._on_changed = on_changed or (lambda _: None)
        self._look_seconds = look_seconds
        self._by_itself = by_itself
        self._wanted = asyncio.Event()
        self._locks: dict[str, asyncio.Lock] = {}
        # The turns that were dispatched from here and have not been settled, by thread.
        self._under_way: dict[str, asyncio.Task[None]] = {}
        self._dispatched: set[str] = set()
        # Heard on the bus, and not yet in the file.
        self._interrupted: set[str] = set()
        self._user_started: set[str] = set()
        self._to_recover = True
        self._mark: int | None = None
        self._shown: dict[str, str] = {}
        self._closing = False
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> "Dispatcher":
        # Nothing is buffered: what matters is noted in the same step in which it is published.
        self._facts = self._threads.bus.subscribe(self._hear)
        await self._catch_up()
        if self._by_itself:
            self._task = asyncio.create_task(self._run(), name="dispatcher")
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def stop(self) -> None:
        """Dispatch nothing more."""
        self._closing = True
        self.wake()

    async def close(self) -> None:
        """Dispatch nothing more. Turns under way are settled when their threads have ended them."""
        self.stop()
        if self._task is not None:
            await self._task

    async def settle(self, seconds: float) -> None:
        """After `close`, when the threads have been ended: wait until their entries are settled. Bounded."""
        if self._under_way:
            await asyncio.wait(self._under_way.values(), timeout=seconds)
        for task in self._under_way.values():
            task.cancel()
        await asyncio.gather(*self._under_way.values(), return_exceptions=True)
        await self._note_turns()
        self._facts.close()

    def wake(self) -> None:
        """Something may have changed: look now."""
        self._wanted.set()

    def is_held(self, thread_id: str) -> bool:
        """Whether nothing is started until a user starts a turn or says go on."""
        if thread_id in self._interrupted:
            # Just now: it is held as soon as that is in the file, if anything waits.
            return self._head(thread_id) is not None
        return self._queue.peek(lambda connection: TurnQueueStore(connection).is_held(thread_id))

    async def start_head(self, thread_id: str, *, entry_id: str | None = None) -> SentTurn:
        """Say go on: let go of the hold and start the head now.

        Raises NotFound (not alive here, or nothing waits); Conflict when a turn runs, the head has failed, or
        `entry_id` is not the head.
        """
        agent = self._threads.get_alive(thread_id)
        await self._catch_up()
        if not agent.is_idle or thread_id in self._under_way:
            await self._write(lambda queue: queue.release(thread_id))
            raise Conflict(
                f"the thread {short(thread_id)} has a turn in progress; its queue goes on after that",
                state=agent.turn_id,
            )
        head = self._head(thread_id)
        if head is None:
            raise NotFound(f"the queue of the thread {short(thread_id)} is empty")
        if entry_id is not None and entry_id != head.id:
            raise Conflict(
                f"the queued turn {short(entry_id)} is not the head of its queue",
                state=str(head.status),
                hint="reorder the queue first",
            )
        if head.status is QueuedTurnStatus.FAILED:
            raise Conflict(
                f"the head of the queue has failed ({head.failure})",
                state=str(head.status),
                hint="retry, delete or reorder it",
            )
        sent = await self._dispatch(thread_id, lets_go=True)
        if sent is None:
            raise Conflict("another turn was started first; the queue goes on after that", state="running")
        return sent

    async def work_off(self, thread_id: str) -> AsyncIterator[SentTurn]:
        """Start what waits, one turn after the other, each when the last has ended.

        It is over when the queue is empty, held, or its head has failed.
        """
        while True:
            if (under_way := self._under_way.get(thread_id)) is not None:
                await asyncio.wait({under_way})
            await self._catch_up()
            sent = await self._dispatch(thread_id)
            if sent is None:
                return
            yield sent

    # -- looking ----------------------------------------------------------------------------------------

    async def _run(self) -> None:
        while not self._closing:
            self._wanted.clear()
            try:
                await self._look()
            except Exception:
                # The file may be locked or full for a while; nothing is lost, it is looked at again.
                log.exception("the queues could not be looked at")
            with suppress(TimeoutError):
                async with asyncio.timeout(self._look_seconds):
                    await self._wanted.wait()

    async def _look(self) -> None:
        loaded = self._threads.list_loaded()
        if not loaded:
            return
        await self._catch_up()
        self._tell_changes(loaded)
        ready = set(self._queue.peek(lambda connection: TurnQueueStore(connection).list_ready_threads()))
        for thread_id in loaded:
            if thread_id in ready and not self._closing:
                await self._dispatch(thread_id)

    async def _catch_up(self) -> None:
        """Before anything is dispatched: settle what dead owners left, note what was heard."""
        if self._to_recover:
            self._to_recover = False
            try:
                await self._recover()
            except BaseException:
                self._to_recover = True
                raise
        await self._note_turns()

    def _tell_changes(self, loaded: list[str]) -> None:
        mark = self._queue.peek(lambda connection: TurnQueueStore(connection).change_mark())
        if mark == self._mark and self._shown.keys() == set(loaded):
            return
        self._mark = mark
        shown = self._queue.peek(
            lambda connection: {one: TurnQueueStore(connection).fingerprint(one) for one in loaded}
        )
        before, self._shown = self._shown, shown
        for thread_id, fingerprint in shown.items():
            if fingerprint != before.get(thread_id, ""):
                self._on_changed(thread_id)

    def _head(self, thread_id: str) -> QueuedTurn | None:
        entries = self._queue.peek(
            lambda connection: TurnQueueStore(connection).list_page(thread_id, limit=1)
        )
        return entries[0] if entries else None

    # -- what the threads do ----------------------------------------------------------------------------

    def _hear(self, fact: Fact) -> bool:
        match fact:
            case ThreadStarted():
                # Its last owner may have died after this dispatcher was opened.
                self._to_recover = True
                self.wake()
            case TurnStarted(thread_id=thread_id, turn_id=turn_id) if turn_id not in self._dispatched:
                self._interrupted.discard(thread_id)
                self._user_started.add(thread_id)
                self.wake()
            case TurnEnded(thread_id=thread_id, status=status):
                if status is TurnStatus.INTERRUPTED:
                    self._interrupted.add(thread_id)
                    self._user_started.discard(thread_id)
                self.wake()
            case _:
                pass
        return False

    async def _note_turns(self) -> None:
        """A user's turn lets go of the queue; an interrupt holds what waits behind it."""
        started, interrupted = tuple(self._user_started), tuple(self._interrupted)
        if not started and not interrupted:
            return
        now = self._threads.runtime.clock.now_ms()

        def note(queue: TurnQueueStore) -> None:
            for thread_id in started:
                queue.release(thread_id)
            for thread_id in interrupted:
                _hold_what_waits(queue, thread_id, now=now)

        await self._write(note)
        self._user_started.difference_update(started)
        self._interrupted.difference_update(interrupted)

    # -- dispatching ------------------------------------------------------------------------------------

    async def _dispatch(self, thread_id: str, *, lets_go: bool = False) -> SentTurn | None:
        """Start the head if the thread is idle and its head is pending. None when it did not come to that.

        `lets_go` ends a hold in the same transaction: between the two another look would start the head.
        """
        async with self._locks.setdefault(thread_id, asyncio.Lock()):
            if not self._may_start(thread_id):
                return None
            turn_id, owner = new_id(), self._threads.runtime.owner
            now = self._threads.runtime.clock.now_ms()

            def claim(queue: TurnQueueStore) -> QueuedTurn | None:
                if lets_go:
                    queue.release(thread_id)
                entry = queue.claim_head(thread_id, owner=owner, now=now)
                if entry is not None:
                    queue.set_turn_id(entry.id, turn_id=turn_id, now=now)
                return entry

            entry = await self._write(claim)
            if entry is None:
                return None
            if self._closing or not self._may_start(thread_id):
                await self._put_back(entry)
                return None
            return await self._start(entry, turn_id)

    def _may_start(self, thread_id: str) -> bool:
        agent = self._threads.control.find(thread_id)
        return (
            agent is not None
            and agent.is_idle
            and thread_id not in self._under_way
            and thread_id not in self._interrupted
        )

    async def _start(self, entry: QueuedTurn, turn_id: str) -> SentTurn | None:
        self._dispatched.add(turn_id)
        try:
            agent = self._threads.get_alive(entry.thread_id)
            schema = entry.options.get("output_schema")
            sent = agent.send(entry.text, output_schema=schema, turn_id=turn_id)
        except (Conflict, LimitReached, NotFound):
            # It is ending, or full after all: the entry keeps its place.
            self._dispatched.discard(turn_id)
            await self._put_back(entry)
            return None
        except Exception as error:
            self._dispatched.discard(turn_id)
            log.exception("a queued turn could not be started")
            await self._fail(entry, f"it could not be started: {error}")
            return None
        self._under_way[entry.thread_id] = asyncio.create_task(self._follow(entry, sent))
        return sent

    async def _follow(self, entry: QueuedTurn, sent: SentTurn) -> None:
        """Wait for the turn's end, whatever kind it is, and take the entry out of the queue."""
        try:
            ended = await sent.ended
            while True:
                try:
                    await self._take_out(entry, sent, ended)
                    return
                except RowcrewError:
                    if self._closing:
                        raise
                    log.exception("a queued turn that has ended could not be taken out; trying again")
                    await asyncio.sleep(self._look_seconds)
        finally:
            self._under_way.pop(entry.thread_id, None)
            self._dispatched.discard(sent.turn_id)
            self.wake()

    async def _take_out(self, entry: QueuedTurn, sent: SentTurn, ended: TurnEnded | None) -> None:
        if ended is None:
            await self._put_back(entry)
            return
        await self._note_turns()
        await self._write(lambda queue: queue.remove(entry.thread_id, turn_id=sent.turn_id))

    async def _put_back(self, entry: QueuedTurn) -> None:
        """It was claimed and never started: as if nothing had been."""
        now = self._threads.runtime.clock.now_ms()

        def put_back(queue: TurnQueueStore) -> None:
            if queue.fail(entry.id, reason="not started", now=now):
                queue.retry(entry.thread_id, entry.id, now=now)

        await self._write(put_back)

    async def _fail(self, entry: QueuedTurn, reason: str) -> None:
        now = self._threads.runtime.clock.now_ms()
        await self._write(lambda queue: queue.fail(entry.id, reason=reason, now=now))

    # -- recovery ---------------------------------------------------------------------------------------

    async def _recover(self) -> None:
        """Settle what dead processes were dispatching. Nothing is run again by itself."""
        runtime = self._threads.runtime
        abandoned = self._queue.peek(
            lambda connection: TurnQueueStore(connection).list_dispatched_turns(is_dead=runtime.is_dead)
        )
        ends = runtime.history.peek(
            lambda connection: {turn: HistoryStore(connection).find_end(*turn) for turn in abandoned}
        )
        now = runtime.clock.now_ms()

        def recover(queue: TurnQueueStore) -> Recovered:
            recovered = queue.recover(
                has_ended=lambda *turn: ends.get(turn) is not None, is_dead=runtime.is_dead, now=now
            )
            removed = {thread_id for thread_id, _ in recovered.removed}
            for (thread_id, _), end in ends.items():
                # The interrupt was in the history, and its owner died before it was noted here.
                if end is TurnStatus.INTERRUPTED and thread_id in removed:
                    _hold_what_waits(queue, thread_id, now=now)
            return recovered

        recovered: Recovered = await self._write(recover)
        for thread_id, entry_id in recovered.failed:
            log.warning("the dispatch of %s in thread %s was cut off", entry_id, thread_id)

    async def _write(self, work: Callable[[TurnQueueStore], Any]) -> Any:
        def write(connection: Connection) -> Any:
            return work(TurnQueueStore(connection))

        return await self._queue.write(write)


def _hold_what_waits(queue: TurnQueueStore, thread_id: str, *, now: int) -> None:
    """An interrupt holds what waits behind it; an empty queue needs no hold."""
    if queue.list_page(thread_id, limit=1):
        queue.hold(thread_id, now=now)
