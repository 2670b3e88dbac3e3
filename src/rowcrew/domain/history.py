"""What a turn is once it is told: from facts to a turn, and a turn without its bulk. It keeps nothing."""

from dataclasses import dataclass, replace
from typing import Any

from rowcrew.domain.attempt import Usage
from rowcrew.domain.events import (
    Fact,
    TurnEnded,
    TurnFact,
    TurnFailure,
    TurnItem,
    TurnItemCompleted,
    TurnItemDelta,
    TurnItemKind,
    TurnItemStarted,
    TurnItemStatus,
    TurnStarted,
)
from rowcrew.domain.lifecycle import TurnStatus

NO_USAGE = Usage()
# What a command printed and what a tool answered may be megabytes; notifications go without.
BULK: dict[TurnItemKind, frozenset[str]] = {
    TurnItemKind.COMMAND: frozenset({"output"}),
    TurnItemKind.FILE_CHANGE: frozenset({"output"}),
    TurnItemKind.TOOL_CALL: frozenset({"output"}),
}


@dataclass(frozen=True, slots=True)
class Turn:
    """One exchange in a thread. `sequence` counts the turns of its thread from 1; 0 where it is not known.

    `duration_ms` is measured on a clock that only goes forward; None while the turn runs and when a crash
    ended it.
    """

    id: str
    thread_id: str
    sequence: int
    status: TurnStatus
    items: tuple[TurnItem, ...]
    started_at_ms: int
    completed_at_ms: int | None = None
    duration_ms: int | None = None
    failure: TurnFailure | None = None
    usage: Usage = NO_USAGE

    @property
    def is_ended(self) -> bool:
        return self.status is not TurnStatus.IN_PROGRESS

    @property
    def last_message(self) -> str | None:
        """The text of the last message that the agent completed."""
        for item in reversed(self.items):
            if item.kind is TurnItemKind.AGENT_MESSAGE and item.status is TurnItemStatus.COMPLETED:
                return str(item.content.get("text", ""))
        return None


def apply(turn: Turn | None, fact: Fact) -> Turn | None:
    """The latest turn of a thread after one more fact of that thread.

    A turn that has ended stays as it is until the next one starts. Facts of another turn than the latest
    change nothing.
    """
    if isinstance(fact, TurnStarted):
        return Turn(fact.turn_id, fact.thread_id, 0, TurnStatus.IN_PROGRESS, (), fact.at_ms)
    if turn is None or turn.is_ended or not isinstance(fact, TurnFact) or fact.turn_id != turn.id:
        return turn
    match fact:
        case TurnItemStarted(item=item) | TurnItemCompleted(item=item):
            return replace(turn, items=_with_item(turn.items, item))
        case TurnItemDelta(item_id=item_id, text=text):
            return replace(turn, items=tuple(_with_text(item, item_id, text) for item in turn.items))
        case TurnEnded():
            return replace(
                turn,
                status=fact.status,
                items=tuple(_ended(item, fact.at_ms) for item in turn.items),
                completed_at_ms=fact.at_ms,
                duration_ms=fact.duration_ms,
                failure=fact.failure,
                usage=fact.usage,
            )
        case _:
            return turn


def _with_item(items: tuple[TurnItem, ...], item: TurnItem) -> tuple[TurnItem, ...]:
    if any(known.id == item.id for known in items):
        return tuple(item if known.id == item.id else known for known in items)
    return (*items, item)


def _with_text(item: TurnItem, item_id: str, text: str) -> TurnItem:
    if item.id != item_id or item.status is not TurnItemStatus.IN_PROGRESS:
        return item
    content: dict[str, Any] = {**item.content, "text": item.content.get("text", "") + text}
    return replace(item, content=content)


def _ended(item: TurnItem, at_ms: int) -> TurnItem:
    """No item stays open in a turn that has ended."""
    if item.status is not TurnItemStatus.IN_PROGRESS:
        return item
    return replace(item, status=TurnItemStatus.INTERRUPTED, completed_at_ms=at_ms)


def compact(turn: Turn) -> Turn:
    """The turn as notifications carry it: without what commands printed and tools answered."""
    return replace(turn, items=tuple(_without_bulk(item) for item in turn.items))


def _without_bulk(item: TurnItem) -> TurnItem:
    bulk = BULK.get(item.kind, frozenset())
    if not bulk & item.content.keys():
        return item
    return replace(item, content={key: value for key, value in item.content.items() if key not in bulk})
