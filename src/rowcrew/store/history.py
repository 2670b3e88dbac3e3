"""The history file: turns, their items, and the conversation as the model gets it. It runs no turn.

A synchronous view over one transaction. Losing a race is a value: a move that the current state forbids
returns False and changes nothing, so a turn that has ended never changes again.
"""

import json
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

import apsw

from rowcrew.domain.attempt import Usage
from rowcrew.domain.events import (
    Fact,
    TurnEnded,
    TurnFailure,
    TurnItem,
    TurnItemCompleted,
    TurnItemKind,
    TurnItemStarted,
    TurnItemStatus,
    TurnStarted,
)
from rowcrew.domain.history import NO_USAGE, Turn
from rowcrew.domain.json_text import clean_text, read
from rowcrew.domain.lifecycle import TurnStatus
from rowcrew.errors import ErrorClass, InvalidRequest, NotFound
from rowcrew.processes import ProcessIdentity
from rowcrew.store.cells import plain_json, process_from_json, process_to_json
from rowcrew.store.queries import load
from rowcrew.store.rows import USAGE_COLUMNS, Row, dump, mappings

queries = load("history")

LARGEST = 2**63 - 1
KNOWN_KINDS = frozenset(str(kind) for kind in TurnItemKind)
KNOWN_CLASSES = frozenset(str(error_class) for error_class in ErrorClass)


@dataclass(frozen=True, slots=True)
class WholeTurn:
    """A turn that has ended before anything of it was kept. No item of it is open."""

    started: TurnStarted
    items: Sequence[TurnItem]
    ended: TurnEnded
    messages_json: str | None = None

    def columns(self) -> dict[str, Any]:
        ended = self.ended
        messages = self.messages_json
        return {
            "thread_id": ended.thread_id,
            "turn_id": ended.turn_id,
            "started_at_ms": self.started.at_ms,
            **_end_of(ended.status, ended.failure, ended.usage, ended.duration_ms, ended.at_ms),
            "messages_json": None if messages is None else clean_text(messages),
        }

    def item_columns(self) -> Iterator[dict[str, Any]]:
        key = {"thread_id": self.ended.thread_id, "turn_id": self.ended.turn_id}
        for sequence, item in enumerate(self.items, 1):
            yield {**key, **_item_row(item), "sequence": sequence}


class HistoryStore:
    """Turns, seen through one connection. Guards stand in the queries; the moves in domain/lifecycle.py."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection

    # -- a turn while it runs ---------------------------------------------------------------------------

    def note(self, fact: Fact, *, owner: ProcessIdentity) -> bool:
        """Keep one fact. False when it changes nothing: it is not kept here, or came after its turn's end."""
        match fact:
            case TurnStarted(thread_id=thread_id, turn_id=turn_id, at_ms=at_ms):
                return self.start_turn(thread_id, turn_id, owner=owner, now=at_ms) is not None
            case TurnItemStarted() | TurnItemCompleted():
                return self.save_item(fact.thread_id, fact.turn_id, fact.item)
            case TurnEnded():
                return self.end_turn(
                    fact.thread_id,
                    fact.turn_id,
                    status=fact.status,
                    failure=fact.failure,
                    usage=fact.usage,
                    duration_ms=fact.duration_ms,
                    now=fact.at_ms,
                )
            case _:
                return False

    def keep_turns(self, turns: Sequence[WholeTurn]) -> bool:
        """Keep each as start_turn, save_item, end_turn and append_messages would, with fewer statements.

        False when one of them could not have been started. Then some may be kept all the same, unless it was
        the only one: the caller rolls back, and keeps each by itself.
        """
        values = {"turns_json": dump([turn.columns() for turn in turns])}
        self._connection.execute(queries.keep_turns, values)
        if self._connection.changes() != len(turns):
            return False
        items = [row for turn in turns for row in turn.item_columns()]
        self._connection.execute(queries.keep_items, {"items_json": dump(items)})
        self._connection.execute(queries.keep_messages, values)
        return True

    def start_turn(self, thread_id: str, turn_id: str, *, owner: ProcessIdentity, now: int) -> int | None:
        """Its place in its thread, from 1. None when the id is known or another turn is in progress."""
        row = self._connection.execute(
            queries.start_turn,
            {
                "thread_id": thread_id,
                "turn_id": turn_id,
                "usage_json": NO_USAGE_JSON,
                "owner_json": process_to_json(owner),
                "now": now,
            },
        ).fetchone()
        return None if row is None else int(row[0])

    def save_item(self, thread_id: str, turn_id: str, item: TurnItem) -> bool:
        """Keep an item as it is now. False when its turn or the item itself has already ended."""
        return self._changed(queries.save_item, thread_id=thread_id, turn_id=turn_id, **_item_row(item))

    def end_turn(
        self,
        thread_id: str,
        turn_id: str,
        *,
        status: TurnStatus,
        failure: TurnFailure | None = None,
        usage: Usage = NO_USAGE,
        duration_ms: int | None = None,
        now: int,
    ) -> bool:
        """inProgress → completed, interrupted or failed; items that are still open are interrupted."""
        ended = self._changed(
            queries.end_turn,
            thread_id=thread_id,
            turn_id=turn_id,
            **_end_of(status, failure, usage, duration_ms, now),
        )
        if ended:
            self._changed(queries.settle_items, thread_id=thread_id, turn_id=turn_id, now=now)
        return ended

    def append_messages(self, thread_id: str, turn_id: str, messages_json: str) -> bool:
        """Keep a JSON array of model messages behind those of the turn so far. False for an unknown turn."""
        return self._changed(
            queries.append_messages,
            thread_id=thread_id,
            turn_id=turn_id,
            messages_json=clean_text(messages_json),
        )

    # -- looking ----------------------------------------------------------------------------------------

    def find_turn(self, thread_id: str, turn_id: str) -> Turn | None:
        """The turn with its items."""
        turns = self._turns(queries.find_turn, with_items=True, thread_id=thread_id, turn_id=turn_id)
        return turns[0] if turns else None

    def find_last_turn(self, thread_id: str) -> Turn | None:
        """The newest turn of a thread with its items."""
        turns = self.list_turns(thread_id, newest_first=True, limit=1)
        return turns[0] if turns else None

    def find_end(self, thread_id: str, turn_id: str) -> TurnStatus | None:
        """How a turn came to its end; None when it runs, a crash cut it off, or it is unknown."""
        values = {"thread_id": thread_id, "turn_id": turn_id}
        row = self._connection.execute(queries.find_end, values).fetchone()
        return None if row is None else TurnStatus(str(row[0]))

    def count_turns(self, thread_id: str) -> int:
        return self._number(queries.count_turns, thread_id)

    def list_turns(
        self,
        thread_id: str,
        *,
        beyond: int | None = None,
        limit: int | None = None,
        newest_first: bool = False,
        with_items: bool = True,
    ) -> list[Turn]:
        """The turns of a thread that lie beyond the sequence `beyond` in the direction of the list."""
        values: dict[str, Any] = {"thread_id": thread_id, "limit": -1 if limit is None else limit}
        if newest_first:
            values["before"] = LARGEST if beyond is None else beyond
            return self._turns(queries.list_turns_backwards, with_items=with_items, **values)
        values["after"] = beyond or 0
        return self._turns(queries.list_turns, with_items=with_items, **values)

    def list_messages(self, thread_id: str) -> list[str]:
        """The whole conversation, in order, as JSON arrays of model messages."""
        rows: Iterator[Any] = iter(self._connection.execute(queries.list_messages, {"thread_id": thread_id}))
        return [row[0] for row in rows]

    # -- whole threads ----------------------------------------------------------------------------------

    def settle_open_turns(
        self,
        *,
        is_dead: Callable[[ProcessIdentity], bool],
        except_threads: Collection[str] = (),
        now: int,
    ) -> list[tuple[str, str]]:
        """At start: interrupt the turns of dead owners, with their items. Returns (thread id, turn id)."""
        settled = []
        rows: list[Any] = list(self._connection.execute(queries.list_open))
        for thread_id, turn_id, owner_json in rows:
            owner = process_from_json(owner_json)
            if thread_id in except_threads or (owner is not None and not is_dead(owner)):
                continue
            self._changed(queries.settle_turn, thread_id=thread_id, turn_id=turn_id, now=now)
            self._changed(queries.settle_items, thread_id=thread_id, turn_id=turn_id, now=now)
            settled.append((thread_id, turn_id))
        return settled

    def fork(self, thread_id: str, new_thread_id: str, *, up_to_turn_id: str | None = None, now: int) -> int:
        """Copy the turns up to and with the given one (None: all) into a thread that has none yet.

        Turns and items keep their ids; what is in progress is interrupted in the copy. Returns how
        many. Raises NotFound for an unknown turn, InvalidRequest when the new thread already has turns.
        """
        if self.count_turns(new_thread_id):
            raise InvalidRequest(f"thread {new_thread_id} already has turns", hint="fork into a new thread")
        if up_to_turn_id is None:
            last = self._number(queries.last_sequence, thread_id)
        else:
            turn = self.find_turn(thread_id, up_to_turn_id)
            if turn is None:
                raise NotFound(f"thread {thread_id} has no turn {up_to_turn_id}")
            last = turn.sequence
        values = {"thread_id": thread_id, "new_thread_id": new_thread_id, "last": last}
        self._connection.execute(queries.fork_turns, {**values, "now": now})
        count = self._connection.changes()
        self._connection.execute(queries.fork_items, {**values, "now": now})
        self._connection.execute(queries.fork_messages, values)
        return count

    def delete_thread(self, thread_id: str) -> int:
        """Drop all that is kept for a thread. Returns how many turns."""
        self._connection.execute(queries.delete_thread, {"thread_id": thread_id})
        return self._connection.changes()

    def _turns(self, query: str, *, with_items: bool, **values: Any) -> list[Turn]:
        rows = mappings(self._connection.execute(query, values))
        items: dict[str, list[TurnItem]] = {}
        if rows and with_items:
            places = [row["sequence"] for row in rows]
            found = self._connection.execute(
                queries.list_items,
                {"thread_id": values["thread_id"], "first": min(places), "last": max(places)},
            )
            for row in mappings(found):
                # A newer version may know more kinds; this one has no word for them and shows the others.
                if row["kind"] in KNOWN_KINDS:
                    items.setdefault(row["turn_id"], []).append(turn_item_of(row))
        return [turn_of(row, items.get(row["id"], [])) for row in rows]

    def _number(self, query: str, thread_id: str) -> int:
        row = self._connection.execute(query, {"thread_id": thread_id}).fetchone()
        return int(row[0]) if row else 0

    def _changed(self, query: str, **values: Any) -> bool:
        self._connection.execute(query, values)
        return self._connection.changes() > 0


def _end_of(
    status: TurnStatus, failure: TurnFailure | None, usage: Usage, duration_ms: int | None, now: int
) -> dict[str, Any]:
    """The columns of a turn that has ended."""
    if status is TurnStatus.IN_PROGRESS:
        raise InvalidRequest("a turn cannot end as inProgress")
    return {
        "status": str(status),
        "completed_at_ms": now,
        "duration_ms": duration_ms,
        # Only a failed turn has a reason to tell.
        "error_json": _failure_to_json(failure) if status is TurnStatus.FAILED else None,
        "usage_json": _usage_to_json(usage),
    }


def _item_row(item: TurnItem) -> dict[str, Any]:
    return {
        "item_id": item.id,
        "kind": str(item.kind),
        "status": str(item.status),
        "content_json": plain_json(dict(item.content)),
        "started_at_ms": item.started_at_ms,
        "completed_at_ms": item.completed_at_ms,
    }


def _usage_to_json(usage: Usage) -> str:
    return dump({name: getattr(usage, name) for name in USAGE_COLUMNS})


NO_USAGE_JSON = _usage_to_json(NO_USAGE)


def _failure_to_json(failure: TurnFailure | None) -> str | None:
    return None if failure is None else plain_json(asdict(failure))


def _failure_from_json(text: str | None) -> TurnFailure | None:
    if text is None:
        return None
    values = json.loads(text)
    name = values["error_class"]
    error_class = ErrorClass(name) if name in KNOWN_CLASSES else ErrorClass.CRASHED
    return TurnFailure(values["message"], error_class, values["retry_after"])


def _usage_from_json(text: str) -> Usage:
    """Numbers that a newer version added are left out."""
    known = {field.name for field in fields(Usage)}
    return Usage(**{name: value for name, value in json.loads(text).items() if name in known})


def turn_of(row: Row, items: list[TurnItem]) -> Turn:
    return Turn(
        id=row["id"],
        thread_id=row["thread_id"],
        sequence=row["sequence"],
        status=TurnStatus(row["status"]),
        items=tuple(items),
        started_at_ms=row["started_at_ms"],
        completed_at_ms=row["completed_at_ms"],
        duration_ms=row["duration_ms"],
        failure=_failure_from_json(row["error_json"]),
        usage=_usage_from_json(row["usage_json"]),
    )


def turn_item_of(row: Row) -> TurnItem:
    return TurnItem(
        id=row["id"],
        kind=TurnItemKind(row["kind"]),
        status=TurnItemStatus(row["status"]),
        content=read(row["content_json"]),
        started_at_ms=row["started_at_ms"],
        completed_at_ms=row["completed_at_ms"],
    )
