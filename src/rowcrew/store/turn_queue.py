"""The queue of turns: one durable FIFO for each thread. It starts no turn.

A synchronous view over one transaction. Losing a race is a value: a move that the current state forbids says
so and changes nothing.
"""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import apsw

from rowcrew.domain.json_text import clean_text
from rowcrew.domain.lifecycle import QueuedTurnStatus
from rowcrew.domain.queued_turn import NewQueuedTurn, QueuedTurn
from rowcrew.errors import Conflict, InvalidRequest
from rowcrew.processes import ProcessIdentity
from rowcrew.store.cells import plain_json, process_from_json, process_to_json
from rowcrew.store.queries import load
from rowcrew.store.rows import Row, dump, mappings

queries = load("turn_queue")

INCOMPLETE_REORDER = "queue reorder must include every visible queued turn exactly once"
DISPATCH_INTERRUPTED = "dispatch interrupted"

# added: it is in the queue now. already_queued: the same client id and content is still in the queue.
# already_left: it was, and has been run or deleted since.
AppendOutcome = Literal["added", "already_queued", "already_left"]
# done: changed. already_started: it is being dispatched. unknown: the thread has no such entry (any more).
ChangeOutcome = Literal["done", "already_started", "unknown"]
# As above. not_failed: it waits for its turn as it is.
RetryOutcome = Literal["done", "not_failed", "already_started", "unknown"]


@dataclass(frozen=True, slots=True)
class Appended:
    """What came of an append. `entry` is None when it has already left the queue."""

    outcome: AppendOutcome
    id: str
    entry: QueuedTurn | None


@dataclass(frozen=True, slots=True)
class Recovered:
    """What a recovery did with abandoned dispatches, as (thread id, entry id)."""

    removed: tuple[tuple[str, str], ...]
    failed: tuple[tuple[str, str], ...]


class TurnQueueStore:
    """Queued turns, seen through one connection. Guards stand in the queries."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection

    # -- what users do ----------------------------------------------------------------------------------

    def append(self, entry: NewQueuedTurn, *, now: int) -> Appended:
        """Add at the end. Raises Conflict when the client id stood for something else before."""
        if entry.client_id is not None:
            digest = _digest(entry)
            known = self._receipt(entry.thread_id, entry.client_id)
            if known is not None:
                return self._appended_before(entry, known, digest)
            self._connection.execute(
                queries.insert_receipt,
                {
                    "thread_id": entry.thread_id,
                    "client_id": entry.client_id,
                    "id": entry.id,
                    "digest": digest,
                },
            )
        added = self._one(
            queries.append,
            id=entry.id,
            thread_id=entry.thread_id,
            client_id=entry.client_id,
            text=clean_text(entry.text),
            options_json=plain_json(dict(entry.options)),
            now=now,
        )
        return Appended("added", entry.id, added)

    def _receipt(self, thread_id: str, client_id: str) -> tuple[str, str] | None:
        row = self._connection.execute(
            queries.find_receipt, {"thread_id": thread_id, "client_id": client_id}
        ).fetchone()
        return None if row is None else (str(row[0]), str(row[1]))

    def _appended_before(self, entry: NewQueuedTurn, known: tuple[str, str], digest: str) -> Appended:
        known_id, known_digest = known
        found = self.find(entry.thread_id, known_id)
        if known_digest != digest:
            raise Conflict(
                f"the client id {entry.client_id!r} already stands for another queued turn of this thread",
                state=None if found is None else str(found.status),
                hint="use a client id of its own for each queued turn; change one with an update",
            )
        return Appended("already_left" if found is None else "already_queued", known_id, found)

    def list_page(self, thread_id: str, *, offset: int = 0, limit: int = 100) -> list[QueuedTurn]:
        """Pending and failed entries in order; one that is being dispatched is hidden."""
        cursor = self._connection.execute(
            queries.list_page, {"thread_id": thread_id, "offset": offset, "limit": limit}
        )
        return [queued_turn_of(row) for row in mappings(cursor)]

    def find(self, thread_id: str, entry_id: str) -> QueuedTurn | None:
        """Any entry, also one that is being dispatched."""
        return self._one(queries.find, thread_id=thread_id, id=entry_id)

    def fingerprint(self, thread_id: str) -> str:
        """Another text than before, once what users see of the queue is another. Empty for an empty queue."""
        row = self._connection.execute(queries.fingerprint, {"thread_id": thread_id}).fetchone()
        return str(row[0]) if row and row[0] is not None else ""

    def list_like(self, thread_id: str, prefix: str, *, limit: int) -> list[QueuedTurn]:
        """Entries of any state whose id begins so."""
        cursor = self._connection.execute(
            queries.list_like, {"thread_id": thread_id, "prefix": prefix, "limit": limit}
        )
        return [queued_turn_of(row) for row in mappings(cursor)]

    def update(
        self, thread_id: str, entry_id: str, *, text: str, options: Mapping[str, Any] | None = None, now: int
    ) -> ChangeOutcome:
        """Write it anew. A failed one stays failed. `options` stay as they are when not given."""
        options_json = None if options is None else plain_json(dict(options))
        values = {
            "thread_id": thread_id,
            "id": entry_id,
            "text": clean_text(text),
            "options_json": options_json,
        }
        return "done" if self._changed(queries.update, **values, now=now) else self._why(thread_id, entry_id)

    def delete(self, thread_id: str, entry_id: str) -> ChangeOutcome:
        changed = self._changed(queries.delete, thread_id=thread_id, id=entry_id)
        return "done" if changed else self._why(thread_id, entry_id)

    def reorder(self, thread_id: str, entry_ids: Sequence[str], *, now: int) -> None:
        """Put the visible entries in this order. Raises InvalidRequest unless each is named exactly once."""
        visible: Iterator[Any] = iter(
            self._connection.execute(queries.list_visible_ids, {"thread_id": thread_id})
        )
        if sorted(entry_ids) != sorted(row[0] for row in visible):
            raise InvalidRequest(INCOMPLETE_REORDER, hint="list the queue again: it may have changed")
        last = self._connection.execute(queries.last_position, {"thread_id": thread_id}).fetchone()
        self._connection.execute(
            queries.move,
            {
                "thread_id": thread_id,
                "ids_json": dump(list(entry_ids)),
                "last": last[0] if last else 0,
                "now": now,
            },
        )

    def retry(self, thread_id: str, entry_id: str, *, now: int) -> RetryOutcome:
        """failed → pending, where it stands."""
        if self._changed(queries.retry, thread_id=thread_id, id=entry_id, now=now):
            return "done"
        found = self.find(thread_id, entry_id)
        if found is not None and found.status is QueuedTurnStatus.PENDING:
            return "not_failed"
        return self._why(thread_id, entry_id)

    def delete_thread(self, thread_id: str) -> int:
        """Drop all that is kept for a thread, also what is being dispatched. Returns how many entries."""
        self._connection.execute(queries.delete_thread, {"thread_id": thread_id})
        count = self._connection.changes()
        self._connection.execute(queries.delete_receipts, {"thread_id": thread_id})
        self._connection.execute(queries.delete_hold, {"thread_id": thread_id})
        return count

    def hold(self, thread_id: str, *, now: int) -> bool:
        """Let nothing of this thread be claimed until `release`. False when it was held before."""
        return self._changed(queries.insert_hold, thread_id=thread_id, now=now)

    def release(self, thread_id: str) -> bool:
        """False when nothing was held."""
        return self._changed(queries.delete_hold, thread_id=thread_id)

    def is_held(self, thread_id: str) -> bool:
        return self._connection.execute(queries.is_held, {"thread_id": thread_id}).fetchone() is not None

    # -- what the dispatcher does -----------------------------------------------------------------------

    def change_mark(self) -> int:
        """Another number than before, on the same connection, once any other one has changed the file."""
        row = self._connection.execute("PRAGMA data_version").fetchone()
        return int(row[0]) if row else 0

    def list_ready_threads(self) -> list[str]:
        """The threads whose head could be claimed now."""
        rows: Iterator[Any] = iter(self._connection.execute(queries.list_ready_threads))
        return [row[0] for row in rows]

    def claim_head(self, thread_id: str, *, owner: ProcessIdentity, now: int) -> QueuedTurn | None:
        """pending → dispatching. None when no head is pending, or the queue is held."""
        return self._one(queries.claim_head, thread_id=thread_id, owner_json=process_to_json(owner), now=now)

    def set_turn_id(self, entry_id: str, *, turn_id: str, now: int) -> bool:
        """Say which turn it is dispatched as, before that starts. False when it is not dispatching."""
        return self._changed(queries.set_turn_id, id=entry_id, turn_id=turn_id, now=now)

    def remove(self, thread_id: str, *, turn_id: str) -> bool:
        """The turn has ended: its entry leaves. False when no dispatching entry is that turn's."""
        return self._changed(queries.remove, thread_id=thread_id, turn_id=turn_id)

    def fail(self, entry_id: str, *, reason: str, now: int) -> bool:
        """dispatching → failed, which blocks the thread until a user's word."""
        return self._changed(queries.fail, id=entry_id, reason=reason, now=now)

    def list_dispatched_turns(self, *, is_dead: Callable[[ProcessIdentity], bool]) -> list[tuple[str, str]]:
        """(thread id, turn id) of what dead owners were dispatching, for `recover` to be told of."""
        entries = map(queued_turn_of, mappings(self._connection.execute(queries.list_dispatching)))
        return [
            (entry.thread_id, entry.turn_id)
            for entry in entries
            if entry.turn_id is not None and (entry.owner is None or is_dead(entry.owner))
        ]

    def recover(
        self,
        *,
        has_ended: Callable[[str, str], bool],
        is_dead: Callable[[ProcessIdentity], bool],
        now: int,
    ) -> Recovered:
        """At start, before any dispatch: settle what dead owners were dispatching. Nothing is run again.

        `has_ended(thread_id, turn_id)` is True for a turn that came to its end, not for one that a crash
        cut off.
        """
        removed, failed = [], []
        rows = mappings(self._connection.execute(queries.list_dispatching))
        for entry in map(queued_turn_of, rows):
            if entry.owner is not None and not is_dead(entry.owner):
                continue
            if entry.turn_id is not None and has_ended(entry.thread_id, entry.turn_id):
                self.remove(entry.thread_id, turn_id=entry.turn_id)
                removed.append((entry.thread_id, entry.id))
            else:
                self.fail(entry.id, reason=DISPATCH_INTERRUPTED, now=now)
                failed.append((entry.thread_id, entry.id))
        return Recovered(tuple(removed), tuple(failed))

    def _why(self, thread_id: str, entry_id: str) -> Literal["already_started", "unknown"]:
        return "unknown" if self.find(thread_id, entry_id) is None else "already_started"

    def _one(self, query: str, **values: Any) -> QueuedTurn | None:
        rows = mappings(self._connection.execute(query, values))
        return queued_turn_of(rows[0]) if rows else None

    def _changed(self, query: str, **values: Any) -> bool:
        self._connection.execute(query, values)
        return self._connection.changes() > 0


def _digest(entry: NewQueuedTurn) -> str:
    """Equal for equal text and options, whatever the order of the options."""
    content = json.dumps([entry.text, dict(entry.options)], sort_keys=True)
    return hashlib.sha256(content.encode("ascii")).hexdigest()


def queued_turn_of(row: Row) -> QueuedTurn:
    return QueuedTurn(
        id=row["id"],
        thread_id=row["thread_id"],
        client_id=row["client_id"],
        position=row["position"],
        status=QueuedTurnStatus(row["status"]),
        text=row["text"],
        options=json.loads(row["options_json"]),
        turn_id=row["turn_id"],
        failure=row["failure"],
        owner=process_from_json(row["owner_json"]),
        created_at_ms=row["created_at_ms"],
        updated_at_ms=row["updated_at_ms"],
    )
