"""The queue of turns on a real file: what users do, what the dispatcher does, what a crash leaves."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from rowcrew.domain.lifecycle import QueuedTurnStatus
from rowcrew.domain.queued_turn import NewQueuedTurn, QueuedTurn
from rowcrew.errors import Conflict, InvalidRequest
from rowcrew.processes import ProcessIdentity
from rowcrew.store.database import Database, connect
from rowcrew.store.migrate import migrate
from rowcrew.store.turn_queue import Appended, Recovered, TurnQueueStore

ME = ProcessIdentity(11, "started", "boot")
OTHER = ProcessIdentity(12, "started", "boot")


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[apsw.Connection]:
    opened = connect(tmp_path / "queue.sqlite")
    migrate(opened, "queue")
    yield opened
    opened.close()


@pytest.fixture
def queue(connection: apsw.Connection) -> TurnQueueStore:
    return TurnQueueStore(connection)


def add(
    queue: TurnQueueStore, name: str, *, thread_id: str = "t", client_id: str | None = None, now: int = 1
) -> Appended:
    return queue.append(NewQueuedTurn(name, thread_id, f"say {client_id or name}", {}, client_id), now=now)


def names(queue: TurnQueueStore, thread_id: str = "t") -> list[str]:
    return [entry.id for entry in queue.list_page(thread_id)]


def claim(queue: TurnQueueStore, *, turn_id: str | None = None, owner: ProcessIdentity = ME) -> QueuedTurn:
    claimed = queue.claim_head("t", owner=owner, now=5)
    assert claimed is not None
    if turn_id is not None:
        assert queue.set_turn_id(claimed.id, turn_id=turn_id, now=6)
    return claimed


def test_an_entry_is_kept_as_it_was_given(queue: TurnQueueStore) -> None:
    entry = NewQueuedTurn("a", "t", "grüß\0dich", {"model": "local", "images": ["x.png"]}, "mine")
    expected = QueuedTurn(
        id="a",
        thread_id="t",
        client_id="mine",
        position=1,
        status=QueuedTurnStatus.PENDING,
        text="grüß\0dich",
        options={"model": "local", "images": ["x.png"]},
        turn_id=None,
        failure=None,
        owner=None,
        created_at_ms=7,
        updated_at_ms=7,
    )
    assert queue.append(entry, now=7) == Appended("added", "a", expected)
    assert queue.list_page("t") == [expected]
    assert queue.find("t", "a") == expected
    assert queue.find("other", "a") is None


def test_text_that_no_utf8_can_hold_is_taken_with_replacement_characters(queue: TurnQueueStore) -> None:
    queue.append(NewQueuedTurn("a", "t", "a\ud800b", {"x": "\udfff", "y": float("nan")}), now=1)
    [entry] = queue.list_page("t")
    assert (entry.text, entry.options) == ("a\ufffdb", {"x": "\ufffd", "y": None})


def test_entries_stand_in_the_order_in_which_they_came_whatever_the_clock_says(queue: TurnQueueStore) -> None:
    for name, now in [("a", 30), ("b", 20), ("c", 10)]:
        add(queue, name, now=now)
    add(queue, "elsewhere", thread_id="u")
    assert names(queue) == ["a", "b", "c"]
    assert [entry.id for entry in queue.list_page("t", offset=1, limit=1)] == ["b"]


def test_the_same_client_id_with_the_same_content_is_one_entry(queue: TurnQueueStore) -> None:
    first = queue.append(NewQueuedTurn("a", "t", "hello", {"x": 1, "y": 2}, "k"), now=1)
    again = queue.append(NewQueuedTurn("b", "t", "hello", {"y": 2, "x": 1}, "k"), now=2)
    assert again == Appended("already_queued", "a", first.entry)
    assert names(queue) == ["a"]


def test_a_client_id_belongs_to_its_thread(queue: TurnQueueStore) -> None:
    add(queue, "a", client_id="k")
    assert add(queue, "b", thread_id="u", client_id="k").outcome == "added"


@pytest.mark.parametrize("other", [("bye", {}), ("hello", {"model": "local"})])
def test_the_same_client_id_with_other_content_is_a_conflict(
    queue: TurnQueueStore, other: tuple[str, dict[str, str]]
) -> None:
    queue.append(NewQueuedTurn("a", "t", "hello", {}, "k"), now=1)
    with pytest.raises(Conflict) as caught:
        queue.append(NewQueuedTurn("b", "t", *other, "k"), now=2)
    assert caught.value.state == "pending"
    assert names(queue) == ["a"]


def test_an_append_that_is_repeated_after_its_turn_ended_is_not_run_again(queue: TurnQueueStore) -> None:
    add(queue, "a", client_id="k")
    claim(queue, turn_id="turn")
    assert add(queue, "b", client_id="k").outcome == "already_queued"
    queue.remove("t", turn_id="turn")
    assert add(queue, "b", client_id="k") == Appended("already_left", "a", None)
    assert names(queue) == []


def test_an_append_that_is_repeated_after_a_change_is_still_the_same(queue: TurnQueueStore) -> None:
    add(queue, "a", client_id="k")
    queue.update("t", "a", text="something else", now=2)
    assert add(queue, "b", client_id="k").outcome == "already_queued"


def test_entries_without_a_client_id_are_all_different(queue: TurnQueueStore) -> None:
    for name in "ab":
        queue.append(NewQueuedTurn(name, "t", "same", {}), now=1)
    assert names(queue) == ["a", "b"]


def test_an_update_keeps_the_options_unless_it_brings_others(queue: TurnQueueStore) -> None:
    queue.append(NewQueuedTurn("a", "t", "hello", {"model": "m"}), now=1)
    assert queue.update("t", "a", text="bye", now=2) == "done"
    [entry] = queue.list_page("t")
    assert (entry.text, entry.options, entry.updated_at_ms) == ("bye", {"model": "m"}, 2)
    assert queue.update("t", "a", text="bye", options={}, now=3) == "done"
    assert queue.list_page("t")[0].options == {}


def test_stale_changes_are_refused_and_later_entries_stay_movable(queue: TurnQueueStore) -> None:
    for name in "abc":
        add(queue, name)
    claim(queue)
    assert queue.update("t", "a", text="x", now=9) == "already_started"
    assert queue.delete("t", "a") == "already_started"
    assert queue.retry("t", "a", now=9) == "already_started"
    with pytest.raises(InvalidRequest):
        queue.reorder("t", ["a", "c", "b"], now=9)
    queue.reorder("t", ["c", "b"], now=9)
    assert names(queue) == ["c", "b"]
    assert queue.delete("t", "c") == "done"
    assert names(queue) == ["b"]


def test_entries_are_found_by_the_beginning_of_their_id_also_while_they_are_dispatched(
    queue: TurnQueueStore,
) -> None:
    for name in ("aa", "ab", "b"):
        add(queue, name)
    add(queue, "ac", thread_id="u")
    claim(queue)

    def like(prefix: str, limit: int = 9) -> list[tuple[str, str]]:
        return [(one.id, str(one.status)) for one in queue.list_like("t", prefix, limit=limit)]

    assert like("a") == [("aa", "dispatching"), ("ab", "pending")]
    assert like("a", limit=1) == [("aa", "dispatching")]
    assert (like("ab"), like("%"), len(like(""))) == ([("ab", "pending")], [], 3)


def test_the_fingerprint_changes_with_what_users_see_and_with_nothing_else(queue: TurnQueueStore) -> None:
    seen = [queue.fingerprint("t")]

    def has_changed() -> bool:
        seen.append(queue.fingerprint("t"))
        return seen[-1] != seen[-2]

    assert seen == [""]
    for name in "abc":
        add(queue, name)
        assert has_changed()
    add(queue, "x", thread_id="u")
    assert not has_changed()
    queue.update("t", "b", text="other", now=7)
    assert has_changed()
    queue.reorder("t", ["c", "b", "a"], now=7)
    assert has_changed()
    claim(queue, turn_id="turn")
    assert has_changed()
    queue.remove("t", turn_id="turn")
    assert not has_changed()
    queue.delete("t", "a")
    assert has_changed()


def test_an_entry_of_another_thread_is_unknown(queue: TurnQueueStore) -> None:
    add(queue, "a")
    assert queue.update("u", "a", text="x", now=2) == "unknown"
    assert queue.delete("u", "a") == "unknown"
    assert queue.retry("u", "a", now=2) == "unknown"
    assert queue.delete("t", "gone") == "unknown"
    assert names(queue) == ["a"]


@pytest.mark.parametrize("order", [[], ["a"], ["a", "b", "b"], ["a", "b", "x"], ["a", "b", "elsewhere"]])
def test_a_reorder_must_name_every_visible_entry_once(queue: TurnQueueStore, order: list[str]) -> None:
    add(queue, "a")
    add(queue, "b")
    add(queue, "elsewhere", thread_id="u")
    with pytest.raises(InvalidRequest) as caught:
        queue.reorder("t", order, now=2)
    assert caught.value.message == "queue reorder must include every visible queued turn exactly once"
    assert names(queue) == ["a", "b"]


def test_an_empty_queue_is_reordered_to_an_empty_queue(queue: TurnQueueStore) -> None:
    queue.reorder("t", [], now=1)
    assert names(queue) == []


def test_an_entry_that_comes_after_a_reorder_is_the_last(queue: TurnQueueStore) -> None:
    for name in "abc":
        add(queue, name)
    queue.reorder("t", ["b", "c", "a"], now=2)
    add(queue, "d")
    assert names(queue) == ["b", "c", "a", "d"]


def test_a_claim_takes_the_head_and_hides_it(queue: TurnQueueStore) -> None:
    add(queue, "a")
    add(queue, "b")
    claimed = claim(queue)
    assert (claimed.id, claimed.status, claimed.owner) == ("a", QueuedTurnStatus.DISPATCHING, ME)
    assert names(queue) == ["b"]


def test_an_entry_added_during_a_dispatch_waits(queue: TurnQueueStore) -> None:
    add(queue, "a")
    claim(queue, turn_id="turn")
    add(queue, "b")
    assert queue.claim_head("t", owner=ME, now=3) is None
    assert queue.list_ready_threads() == []
    assert queue.remove("t", turn_id="turn")
    assert queue.list_ready_threads() == ["t"]
    assert claim(queue).id == "b"


def test_threads_do_not_wait_for_each_other(queue: TurnQueueStore) -> None:
    for thread_id in ("u", "t"):
        add(queue, f"of {thread_id}", thread_id=thread_id)
    assert queue.list_ready_threads() == ["t", "u"]
    claim(queue)
    assert queue.list_ready_threads() == ["u"]


def test_a_second_dispatch_in_one_thread_is_forbidden_by_the_table_itself(
    queue: TurnQueueStore, connection: apsw.Connection
) -> None:
    add(queue, "a")
    add(queue, "b")
    claim(queue)
    with pytest.raises(apsw.ConstraintError):
        connection.execute("UPDATE queued_turns SET status = 'dispatching', owner_json = '{}' WHERE id = 'b'")


def test_a_failed_head_blocks_its_thread_until_it_is_retried(queue: TurnQueueStore) -> None:
    add(queue, "a")
    add(queue, "b")
    assert queue.fail(claim(queue, turn_id="turn").id, reason="no model", now=8)
    [head, _] = queue.list_page("t")
    assert (head.id, head.status, head.failure, head.turn_id, head.owner) == (
        "a",
        QueuedTurnStatus.FAILED,
        "no model",
        "turn",
        None,
    )
    assert queue.claim_head("t", owner=ME, now=9) is None
    assert queue.list_ready_threads() == []
    assert queue.retry("t", "a", now=10) == "done"
    assert queue.retry("t", "a", now=11) == "not_failed"
    assert claim(queue).id == "a"


def test_a_failed_head_blocks_its_thread_until_it_is_deleted_or_moved_back(queue: TurnQueueStore) -> None:
    for name in "abc":
        add(queue, name)
    queue.fail(claim(queue).id, reason="no model", now=8)
    queue.reorder("t", ["b", "a", "c"], now=9)
    claim(queue, turn_id="turn of b")
    queue.remove("t", turn_id="turn of b")
    assert queue.claim_head("t", owner=ME, now=10) is None
    assert queue.delete("t", "a") == "done"
    assert claim(queue).id == "c"


def test_a_turn_id_is_set_while_dispatching_and_only_once(queue: TurnQueueStore) -> None:
    add(queue, "a")
    assert not queue.set_turn_id("a", turn_id="turn", now=2)
    claim(queue, turn_id="turn")
    assert queue.set_turn_id("a", turn_id="turn", now=7)
    assert not queue.set_turn_id("a", turn_id="another", now=7)
    queue.fail("a", reason="no model", now=8)
    assert not queue.set_turn_id("a", turn_id="turn", now=9)


def test_only_the_entry_of_the_turn_that_ended_is_removed(queue: TurnQueueStore) -> None:
    add(queue, "a")
    add(queue, "b")
    claim(queue)
    assert not queue.remove("t", turn_id="turn")
    queue.set_turn_id("a", turn_id="turn", now=7)
    assert not queue.remove("t", turn_id="a turn that the user started")
    assert not queue.remove("u", turn_id="turn")
    assert queue.remove("t", turn_id="turn")
    assert not queue.remove("t", turn_id="turn")
    assert names(queue) == ["b"]


def test_a_turn_that_ends_after_its_entry_failed_removes_nothing(queue: TurnQueueStore) -> None:
    add(queue, "a")
    queue.fail(claim(queue, turn_id="turn").id, reason="no model", now=8)
    assert not queue.remove("t", turn_id="turn")
    assert names(queue) == ["a"]


def test_a_held_queue_keeps_its_entries_and_gives_none_out(queue: TurnQueueStore) -> None:
    add(queue, "a")
    assert queue.hold("t", now=2)
    assert not queue.hold("t", now=3)
    assert queue.is_held("t")
    assert queue.claim_head("t", owner=ME, now=4) is None
    assert queue.list_ready_threads() == []
    assert names(queue) == ["a"]
    assert queue.release("t")
    assert not queue.release("t")
    assert claim(queue).id == "a"


def test_a_crash_leaves_ended_turns_removed_and_all_other_dispatches_failed(queue: TurnQueueStore) -> None:
    for thread_id in ("ended", "cut off", "not started", "alive"):
        add(queue, f"of {thread_id}", thread_id=thread_id)
        add(queue, f"later of {thread_id}", thread_id=thread_id)
        owner = OTHER if thread_id == "alive" else ME
        claimed = queue.claim_head(thread_id, owner=owner, now=3)
        if claimed is not None and thread_id != "not started":
            queue.set_turn_id(claimed.id, turn_id="turn", now=4)
    ended = {("ended", "turn")}
    recovered = queue.recover(has_ended=lambda *turn: turn in ended, is_dead=lambda owner: owner == ME, now=9)
    assert recovered == Recovered(
        removed=(("ended", "of ended"),),
        failed=(("cut off", "of cut off"), ("not started", "of not started")),
    )
    assert queue.list_ready_threads() == ["ended"]
    assert [(e.id, e.status, e.failure) for e in queue.list_page("cut off")] == [
        ("of cut off", QueuedTurnStatus.FAILED, "dispatch interrupted"),
        ("later of cut off", QueuedTurnStatus.PENDING, None),
    ]
    assert queue.remove("alive", turn_id="turn")


def test_a_recovery_is_not_made_twice(queue: TurnQueueStore) -> None:
    add(queue, "a")
    claim(queue)
    recover = lambda: queue.recover(has_ended=lambda *_: False, is_dead=lambda _: True, now=9)  # noqa: E731
    assert recover() == Recovered((), (("t", "a"),))
    assert recover() == Recovered((), ())


def test_deleting_a_thread_deletes_all_that_its_queue_holds(
    queue: TurnQueueStore, connection: apsw.Connection
) -> None:
    for name in "ab":
        add(queue, name, client_id=name)
    add(queue, "elsewhere", thread_id="u", client_id="a")
    claim(queue, turn_id="turn")
    queue.hold("t", now=2)
    assert queue.delete_thread("t") == 2
    assert queue.delete_thread("t") == 0
    assert not queue.remove("t", turn_id="turn")
    assert names(queue, "u") == ["elsewhere"]
    tables = ("queued_turns", "queued_turn_receipts", "queue_holds")
    left = {table: list(connection.execute(f"SELECT thread_id FROM {table}")) for table in tables}
    assert left == {"queued_turns": [("u",)], "queued_turn_receipts": [("u",)], "queue_holds": []}


async def test_a_claim_has_one_winner_among_processes(tmp_path: Path) -> None:
    path = tmp_path / "queue.sqlite"
    databases = [await Database.open(path, kind="queue") for _ in range(4)]
    try:
        await databases[0].write(lambda tx: add(TurnQueueStore(tx), "a"))
        claims = [
            database.write(lambda tx: TurnQueueStore(tx).claim_head("t", owner=ME, now=2))
            for database in databases
            for _ in range(5)
        ]
        won = [claimed.id for claimed in await asyncio.gather(*claims) if claimed is not None]
        assert won == ["a"]
    finally:
        for database in databases:
            await database.close()


async def test_what_was_appended_is_there_after_the_file_was_closed(tmp_path: Path) -> None:
    path = tmp_path / "queue.sqlite"
    database = await Database.open(path, kind="queue")
    await database.write(lambda tx: add(TurnQueueStore(tx), "a", client_id="k"))
    with pytest.raises(Conflict):
        await database.write(
            lambda tx: TurnQueueStore(tx).append(NewQueuedTurn("b", "t", "x", {}, "k"), now=1)
        )
    await database.close()
    database = await Database.open(path, kind="queue")
    assert database.peek(lambda tx: names(TurnQueueStore(tx))) == ["a"]
    await database.close()
