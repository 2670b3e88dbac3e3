"""What one client hears: from the facts of the bus to its notifications, in order. It changes nothing.

Discipline: one event loop. Before each fact it waits for room in the client's outbox; while it waits, the bus
drops deltas for it, and never an item's completion or a turn's end.
"""

import asyncio
import logging

from rowcrew.agent.service import ThreadService
from rowcrew.agent.thread import SentTurn
from rowcrew.appserver import protocol as wire
from rowcrew.appserver.connection import Connection
from rowcrew.appserver.entities import Wire, WireTurn
from rowcrew.appserver.translate import (
    wire_failure,
    wire_item,
    wire_status,
    wire_thread,
    wire_turn,
    wire_usage,
)
from rowcrew.domain.events import (
    Fact,
    ThreadClosed,
    ThreadStarted,
    ThreadStatusChanged,
    TokenUsageUpdated,
    TurnEnded,
    TurnFact,
    TurnItemCompleted,
    TurnItemDelta,
    TurnItemKind,
    TurnItemStarted,
    TurnStarted,
)
from rowcrew.domain.history import Turn, apply, compact
from rowcrew.errors import RowcrewError

log = logging.getLogger(__name__)


class Feed:
    """The facts that a client wants: turns of the threads it subscribed to, comings and goings of all."""

    def __init__(self, connection: Connection, threads: ThreadService) -> None:
        self._connection = connection
        self._threads = threads
        self._facts = threads.bus.subscribe(self._wants)
        # Threads of jobs are nobody's here; what is known was started, resumed or spawned by a known one.
        self._known = set(threads.list_loaded())
        self._turns: dict[str, Turn | None] = {}

    def close(self) -> None:
        """Take nothing more in; `run` returns when what waits has been told."""
        self._facts.close()

    async def run(self) -> None:
        async for fact in self._facts:
            await self._connection.outbox.room()
            try:
                await self._tell(fact)
            except Exception:
                # A look at the store failed, or a thing has no shape; what comes next is told all the same.
                log.exception("a notification could not be made")
                if isinstance(fact, TurnEnded):
                    self._notify("turn/completed", bare_end(fact.thread_id, fact.turn_id, str(fact.status)))

    def _wants(self, fact: Fact) -> bool:
        return not isinstance(fact, TurnFact) or fact.thread_id in self._connection.peer.threads

    async def _tell(self, fact: Fact) -> None:
        match fact:
            case TurnFact():
                await self._tell_turn(fact)
            case ThreadStarted():
                await self._tell_started(fact)
            case ThreadStatusChanged(thread_id=thread_id, status=status) if thread_id in self._known:
                self._notify(
                    "thread/status/changed",
                    wire.ThreadStatusChangedNotification(thread_id=thread_id, status=wire_status(status)),
                )
            case ThreadClosed(thread_id=thread_id) if thread_id in self._known:
                self._known.discard(thread_id)
                self._turns.pop(thread_id, None)
                self._notify("thread/closed", wire.ThreadClosedNotification(thread_id=thread_id))
            case _:
                pass

    async def _tell_started(self, fact: ThreadStarted) -> None:
        led = self._threads.find_live(fact.thread_id) is not None
        if not led and fact.parent_id not in self._known:
            return
        self._known.add(fact.thread_id)
        view = await self._threads.read(fact.thread_id, with_turns=False)
        status = self._threads.control.status(fact.thread_id)
        self._notify(
            "thread/started", wire.ThreadStartedNotification(thread=wire_thread(view.thread, status))
        )

    async def _tell_turn(self, fact: TurnFact) -> None:
        known = self._turns.get(fact.thread_id)
        if isinstance(fact, TurnItemDelta):
            # Passed on and not gathered: the item's completion has the whole text.
            self._tell_delta(fact, known)
            return
        turn = self._turns[fact.thread_id] = apply(known, fact)
        ids = {"thread_id": fact.thread_id, "turn_id": fact.turn_id}
        match fact:
            case TurnStarted() if turn is not None:
                started = wire.TurnStartedNotification(
                    thread_id=fact.thread_id, turn=wire_turn(turn, cwd=self._cwd(fact))
                )
                self._notify("turn/started", started)
            case TurnItemStarted(item=item):
                wired = wire_item(item, cwd=self._cwd(fact))
                self._notify(
                    "item/started",
                    wire.ItemStartedNotification(**ids, item=wired, started_at_ms=item.started_at_ms),
                )
            case TurnItemCompleted(item=item):
                wired = wire_item(item, cwd=self._cwd(fact))
                self._notify(
                    "item/completed",
                    wire.ItemCompletedNotification(
                        **ids, item=wired, completed_at_ms=item.completed_at_ms or fact.at_ms
                    ),
                )
            case TokenUsageUpdated(last=last, total=total):
                self._notify(
                    "thread/tokenUsage/updated",
                    wire.ThreadTokenUsageUpdatedNotification(**ids, token_usage=wire_usage(last, total)),
                )
            case TurnEnded():
                await self._tell_ended(fact, turn)
            case _:
                pass

    def _tell_delta(self, fact: TurnItemDelta, turn: Turn | None) -> None:
        items = () if turn is None else turn.items
        kinds = (item.kind for item in reversed(items) if item.id == fact.item_id)
        kind = next(kinds, TurnItemKind.AGENT_MESSAGE)
        ids = {"thread_id": fact.thread_id, "turn_id": fact.turn_id, "item_id": fact.item_id}
        if kind is TurnItemKind.REASONING:
            self._notify(
                "item/reasoning/textDelta",
                wire.ReasoningTextDeltaNotification(**ids, delta=fact.text, content_index=0),
            )
        else:
            self._notify(
                "item/agentMessage/delta", wire.AgentMessageDeltaNotification(**ids, delta=fact.text)
            )

    async def _tell_ended(self, fact: TurnEnded, turn: Turn | None) -> None:
        if fact.failure is not None:
            failed = wire.ErrorNotification(
                thread_id=fact.thread_id, turn_id=fact.turn_id, error=wire_failure(fact.failure)
            )
            self._notify("error", failed)
        if turn is None or turn.id != fact.turn_id:
            # Its beginning was not heard: the client came in the middle. The history has all of it.
            turn = await self._recorded(fact)
        wired = wire_turn(compact(turn), cwd=self._cwd(fact))
        self._notify("turn/completed", wire.TurnCompletedNotification(thread_id=fact.thread_id, turn=wired))

    async def _recorded(self, fact: TurnEnded) -> Turn:
        bare = Turn(fact.turn_id, fact.thread_id, 0, fact.status, (), fact.started_at_ms, fact.at_ms)
        try:
            found = await self._threads.find_turn(fact.thread_id, fact.turn_id)
        except RowcrewError:
            log.exception("a turn that has ended could not be read")
            found = None
        return bare if found is None else found

    def _cwd(self, fact: TurnFact) -> str:
        live = self._threads.find_live(fact.thread_id)
        return "" if live is None else str(live.setup.cwd)

    def _notify(self, method: str, params: Wire) -> None:
        self._connection.notify(method, params)


def bare_end(thread_id: str, turn_id: str, status: str) -> wire.TurnCompletedNotification:
    """The end of a turn of which nothing else can be told; its items are to be read."""
    turn = WireTurn(id=turn_id, status=status, items_view="notLoaded")  # type: ignore[arg-type]
    return wire.TurnCompletedNotification(thread_id=thread_id, turn=turn)


def tell_if_never_started(connection: Connection, thread_id: str, sent: SentTurn) -> None:
    """A client that was given a turn's id hears of its end, also when the thread ends before it starts."""

    def tell(ended: "asyncio.Future[TurnEnded | None]") -> None:
        if not ended.cancelled() and ended.result() is None:
            connection.notify("turn/completed", bare_end(thread_id, sent.turn_id, "interrupted"))

    sent.ended.add_done_callback(tell)
