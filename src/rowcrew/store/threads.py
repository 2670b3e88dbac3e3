"""The threads of the state file: what they are and in which process they are alive. Turns are the history's.

A synchronous view over one transaction. Discipline: a thread is alive in one process at a time, its owner,
taken with `take` and given back with `let_go`; what a dead owner left is put right by `take_back`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from typing import Any, Literal

import apsw

from rowcrew.domain.events import AgentState, AgentStatus
from rowcrew.domain.json_text import clean_text
from rowcrew.domain.thread import NewThread, Thread, ThreadPage
from rowcrew.errors import InvalidRequest, NotFound
from rowcrew.processes import ProcessIdentity
from rowcrew.store.cells import process_from_json, process_to_json
from rowcrew.store.queries import load
from rowcrew.store.rows import Row, dump, mappings

queries = load("threads")

LARGEST = 2**63 - 1
ThreadOrder = Literal["created", "changed"]


class ThreadStore:
    """Threads, seen through one connection."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection

    def create(self, thread: NewThread, *, now: int) -> Thread:
        """Store a thread that is pending_init and alive nowhere yet."""
        return thread_of(self._rows(queries.insert, **_columns(thread), now=now)[0])

    def add_all(
        self,
        threads: Iterable[tuple[NewThread, AgentStatus]],
        *,
        owner: ProcessIdentity | None,
        now: int,
    ) -> int:
        """Store threads that have a status, and an owner if they are alive. How many there were not yet."""
        owner_json = None if owner is None else process_to_json(owner)
        rows = [
            {**_columns(thread), **_status(thread.id, status), "owner_json": owner_json}
            for thread, status in threads
        ]
        return self._change_all(queries.add_all, rows, threads_json=dump(rows), now=now)

    # -- looking ----------------------------------------------------------------------------------------

    def find(self, thread_id: str) -> Thread | None:
        rows = self._rows(queries.find, thread_id=thread_id)
        return thread_of(rows[0]) if rows else None

    def get(self, thread_id: str) -> Thread:
        """Raises NotFound."""
        found = self.find(thread_id)
        if found is None:
            raise NotFound(f"there is no thread {thread_id}", hint="`rowcrew thread list` shows the threads")
        return found

    def list_ids_like(self, prefix: str) -> list[str]:
        """At most six ids that begin with `prefix`."""
        rows: Iterator[Any] = iter(self._connection.execute(queries.list_ids_like, {"prefix": prefix}))
        return [row[0] for row in rows]

    def list_page(
        self,
        *,
        limit: int = 25,
        cursor: str | None = None,
        archived: bool | None = False,
        parent_id: str | None = None,
        sources: Sequence[str] | None = None,
        search: str | None = None,
        order: ThreadOrder = "created",
    ) -> ThreadPage:
        """The newest first. `archived` None means both. Raises InvalidRequest for a strange cursor."""
        before_ms, before_sequence = _place(cursor, order)
        query = queries.list_by_creation if order == "created" else queries.list_by_change
        values: dict[str, Any] = {"before_sequence": before_sequence, "limit": limit + 1}
        if order == "changed":
            values["before_ms"] = before_ms
        rows = self._rows(
            query,
            archived=None if archived is None else int(archived),
            parent_id=parent_id,
            sources_json=None if sources is None else dump(list(sources)),
            search=_plain_or_none(search),
            **values,
        )
        shown = rows[:limit]
        more = bool(shown) and len(rows) > limit
        return ThreadPage(tuple(map(thread_of, shown)), _cursor(shown[-1], order) if more else None)

    def list_descendants(self, thread_id: str) -> list[Thread]:
        """What it spawned, directly and through others, in order of creation."""
        return [thread_of(row) for row in self._rows(queries.list_descendants, thread_id=thread_id)]

    def list_orphans(self) -> list[str]:
        """The ids of workers' threads whose job has been deleted."""
        rows: Iterator[Any] = iter(self._connection.execute(queries.list_orphans))
        return [row[0] for row in rows]

    def list_alive(self, *, is_dead: Callable[[ProcessIdentity], bool]) -> list[Thread]:
        """The threads whose owner lives, here or in another process."""
        return [thread for thread in self._owned() if thread.owner is not None and not is_dead(thread.owner)]

    def _owned(self) -> list[Thread]:
        return [thread_of(row) for row in self._rows(queries.list_owned)]

    # -- in which process it is alive -------------------------------------------------------------------

    def take(
        self, thread_id: str, *, owner: ProcessIdentity, is_dead: Callable[[ProcessIdentity], bool]
    ) -> ProcessIdentity | None:
        """Make `owner` the owner. Returns None when it is now, else the living owner. Raises NotFound."""
        held = self.get(thread_id).owner
        if held == owner:
            return None
        if held is not None and not is_dead(held):
            return held
        self._connection.execute(
            queries.take,
            {
                "thread_id": thread_id,
                "owner_json": process_to_json(owner),
                "held_json": None if held is None else process_to_json(held),
            },
        )
        return None

    def let_go(self, *thread_ids: str, owner: ProcessIdentity) -> int:
        """Of how many it was the owner."""
        return self._change_all(
            queries.let_go,
            thread_ids,
            thread_ids_json=dump(thread_ids),
            owner_json=process_to_json(owner),
        )

    def take_back(self, *, is_dead: Callable[[ProcessIdentity], bool]) -> list[str]:
        """At start: free the threads of dead owners, interrupted if they were at work. Returns their ids."""
        freed = []
        for thread in self._owned():
            if thread.owner is not None and is_dead(thread.owner):
                self._changed(queries.settle, thread_id=thread.id, owner_json=process_to_json(thread.owner))
                freed.append(thread.id)
        return freed

    # -- changes ----------------------------------------------------------------------------------------
    # Each is False when there is no such thread, or nothing to change.

    def set_statuses(self, statuses: Mapping[str, AgentStatus], *, now: int) -> int:
        """By thread id. How many there are. Raises InvalidRequest for not_found, which no thread can be."""
        rows = [_status(thread_id, status) for thread_id, status in statuses.items()]
        return self._change_all(queries.set_statuses, rows, statuses_json=dump(rows), now=now)

    def set_name(self, thread_id: str, *, name: str | None, now: int) -> bool:
        return self._changed(queries.set_name, thread_id=thread_id, name=_plain_or_none(name), now=now)

    def set_preview(self, thread_id: str, *, preview: str, now: int) -> bool:
        """Only the first one counts."""
        return self._changed(queries.set_preview, thread_id=thread_id, preview=clean_text(preview), now=now)

    def set_settings(
        self,
        thread_id: str,
        *,
        model: str | None = None,
        cwd: str | None = None,
        sandbox_mode: str | None = None,
        now: int,
    ) -> bool:
        """What is None stays as it is."""
        cwd = _plain_or_none(cwd)
        return self._changed(
            queries.set_settings,
            thread_id=thread_id,
            model=model,
            cwd=cwd,
            sandbox_mode=sandbox_mode,
            now=now,
        )

    def archive(self, thread_id: str, *, now: int) -> bool:
        return self._changed(queries.archive, thread_id=thread_id, now=now)

    def unarchive(self, thread_id: str, *, now: int) -> bool:
        return self._changed(queries.unarchive, thread_id=thread_id, now=now)

    def delete(self, thread_id: str, *, owner: ProcessIdentity) -> bool:
        """False when there is none, or it is alive in another process. What it spawned stays."""
        return self._changed(queries.delete, thread_id=thread_id, owner_json=process_to_json(owner))

    def _rows(self, query: str, **values: Any) -> list[Row]:
        return mappings(self._connection.execute(query, values))

    def _changed(self, query: str, **values: Any) -> bool:
        self._connection.execute(query, values)
        return self._connection.changes() > 0

    def _change_all(self, query: str, rows: Sized, **values: Any) -> int:
        """How many changed. Nothing is asked of the file for no rows."""
        if not rows:
            return 0
        self._connection.execute(query, values)
        return self._connection.changes()


def _columns(thread: NewThread) -> dict[str, Any]:
    return {
        "id": thread.id,
        "name": _plain_or_none(thread.name),
        "source": thread.source,
        "model": thread.model,
        "cwd": clean_text(thread.cwd),
        "sandbox_mode": thread.sandbox_mode,
        "preview": clean_text(thread.preview),
        "parent_id": thread.parent_id,
        "depth": thread.depth,
        "forked_from_id": thread.forked_from_id,
    }


def _status(thread_id: str, status: AgentStatus) -> dict[str, Any]:
    if status.state is AgentState.NOT_FOUND:
        raise InvalidRequest("a stored thread cannot be not_found")
    return {"id": thread_id, "status": str(status.state), "status_text": _plain_or_none(status.text)}


def _plain_or_none(text: str | None) -> str | None:
    return None if text is None else clean_text(text)


def _cursor(row: Row, order: ThreadOrder) -> str:
    return str(row["sequence"]) if order == "created" else f"{row['updated_at_ms']}.{row['sequence']}"


def _place(cursor: str | None, order: ThreadOrder) -> tuple[int, int]:
    """(updated_at_ms, sequence) before which a page begins."""
    if cursor is None:
        return LARGEST, LARGEST
    first, dot, second = cursor.partition(".")
    numbers = [part for part in (first, second) if part]
    fits = len(numbers) == (1 if order == "created" else 2) and bool(dot) == (order == "changed")
    if not fits or not all(part.isascii() and part.isdigit() and len(part) < 19 for part in numbers):
        raise InvalidRequest(
            f"{cursor!r} is no cursor of this list", hint="pass the cursor of the page before, unchanged"
        )
    return (LARGEST, int(first)) if order == "created" else (int(first), int(second))


def thread_of(row: Row) -> Thread:
    return Thread(
        id=row["id"],
        name=row["name"],
        source=row["source"],
        model=row["model"],
        cwd=row["cwd"],
        sandbox_mode=row["sandbox_mode"],
        preview=row["preview"],
        parent_id=row["parent_id"],
        depth=row["depth"],
        forked_from_id=row["forked_from_id"],
        status=AgentStatus(AgentState(row["status"]), row["status_text"]),
        owner=process_from_json(row["owner_json"]),
        created_at_ms=row["created_at_ms"],
        updated_at_ms=row["updated_at_ms"],
        archived_at_ms=row["archived_at_ms"],
    )
