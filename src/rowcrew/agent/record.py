"""The record of a running turn: its facts, in order, to the bus and to the journal. It runs nothing."""

import asyncio
import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rowcrew.agent.journal import Journal
from rowcrew.agent.tools import BrokenTool
from rowcrew.bus import Bus
from rowcrew.clock import Clock
from rowcrew.domain.attempt import Usage
from rowcrew.domain.events import (
    Fact,
    TokenUsageUpdated,
    TurnEnded,
    TurnFailure,
    TurnItem,
    TurnItemCompleted,
    TurnItemDelta,
    TurnItemKind,
    TurnItemStarted,
    TurnItemStatus,
    TurnStarted,
)
from rowcrew.domain.ids import new_id
from rowcrew.domain.lifecycle import TurnStatus
from rowcrew.errors import ErrorClass, ModelError, RowcrewError

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage

# A database that is busy answers or gives up long before; this only keeps the wait from having no end.
FLUSH_SECONDS = 60.0


class TurnRecord:
    """Opens and closes the items of a turn. After `end` nothing more is recorded, whoever still tries."""

    def __init__(self, thread_id: str, turn_id: str, *, bus: Bus, journal: Journal, clock: Clock) -> None:
        self.thread_id = thread_id
        self.turn_id = turn_id
        self.clock = clock
        self.usage = Usage()
        self.last_message: str | None = None
        self._bus = bus
        self._journal = journal
        self._open: dict[str, TurnItem] = {}
        self._ended = False
        self._started_at_ms = clock.now_ms()
        self._started = clock.monotonic()

    def start(self) -> None:
        self._tell(TurnStarted(**self._stamp()))

    def open_item(self, kind: TurnItemKind, content: Mapping[str, Any]) -> str:
        """An item has started. Returns its id."""
        item = TurnItem(new_id(), kind, TurnItemStatus.IN_PROGRESS, content, self.clock.now_ms())
        if not self._ended:
            self._open[item.id] = item
            self._tell(TurnItemStarted(**self._stamp(), item=item))
        return item.id

    def close_item(
        self,
        item_id: str,
        status: TurnItemStatus = TurnItemStatus.COMPLETED,
        content: Mapping[str, Any] | None = None,
    ) -> None:
        """An item has ended; `content` adds to what it started with. Does nothing when closed before."""
        item = self._open.pop(item_id, None)
        if item is None:
            return
        done = dataclasses.replace(
            item,
            status=status,
            content={**item.content, **(content or {})},
            completed_at_ms=self.clock.now_ms(),
        )
        self._tell(TurnItemCompleted(**self._stamp(), item=done))

    def add_text(self, kind: TurnItemKind, text: str) -> None:
        """A message that came whole: started, its text, completed."""
        item_id = self.open_item(kind, {"text": text if kind is TurnItemKind.USER_MESSAGE else ""})
        if kind is not TurnItemKind.USER_MESSAGE and text:
            self.add_delta(item_id, text)
        self.complete_text(item_id, kind, text)

    def add_delta(self, item_id: str, text: str) -> None:
        """A further piece of an open item's text."""
        self._tell(TurnItemDelta(**self._stamp(), item_id=item_id, text=text))

    def complete_text(self, item_id: str, kind: TurnItemKind, text: str) -> None:
        """A message is whole; `text` is all of it."""
        if kind is TurnItemKind.AGENT_MESSAGE:
            self.last_message = text
        self.close_item(item_id, content={"text": text})

    def is_followed(self) -> bool:
        """Whether anyone would hear pieces of text."""
        return self._bus.hears(TurnItemDelta(**self._stamp(), item_id="", text=""))

    def add_usage(self, last: Usage, thread_total: Usage) -> None:
        self.usage += last
        self._tell(TokenUsageUpdated(**self._stamp(), last=last, total=thread_total))

    def remember(self, message: "ModelMessage") -> None:
        """Keep what the model was told or said, so that the thread can be resumed."""
        self._journal.remember(self.thread_id, self.turn_id, message)

    async def save(self) -> None:
        """Return when all that was recorded is durable."""
        async with asyncio.timeout(FLUSH_SECONDS):
            await self._journal.flush(self.thread_id)

    async def end(self, status: TurnStatus, failure: TurnFailure | None = None) -> TurnEnded:
        """Close what is open, make all of it durable, and tell the one terminal fact.

        The fact is told on every path, also when the history cannot be written (the turn has failed then) and
        when the wait for it is cancelled.
        """
        for item_id in tuple(self._open):
            self.close_item(item_id, TurnItemStatus.INTERRUPTED)
        ended = self._terminal(status, failure)
        self._journal.note(ended)
        self._ended = True
        try:
            await self.save()
        except Exception as error:
            ended = self._terminal(TurnStatus.FAILED, failure or failure_of(error))
        finally:
            self._bus.publish(ended)
        return ended

    def _terminal(self, status: TurnStatus, failure: TurnFailure | None) -> TurnEnded:
        return TurnEnded(
            **self._stamp(),
            status=status,
            started_at_ms=self._started_at_ms,
            duration_ms=round((self.clock.monotonic() - self._started) * 1000),
            failure=failure,
            last_message=self.last_message,
            usage=self.usage,
        )

    def _tell(self, fact: Fact) -> None:
        if not self._ended:
            if not fact.droppable:
                self._journal.note(fact)
            self._bus.publish(fact)

    def _stamp(self) -> dict[str, Any]:
        return {"thread_id": self.thread_id, "turn_id": self.turn_id, "at_ms": self.clock.now_ms()}


def failure_of(error: BaseException) -> TurnFailure:
    """What a turn says about an exception that ended it."""
    if isinstance(error, ModelError):
        return TurnFailure(error.message, error.error_class, error.retry_after)
    if isinstance(error, RowcrewError | BrokenTool):
        return TurnFailure(str(error), ErrorClass.CRASHED)
    return TurnFailure(f"{type(error).__name__}: {error}", ErrorClass.CRASHED)
