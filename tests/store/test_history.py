"""The history on a real file: turns, their items, the conversation; restarts, forks, deletion."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from rowcrew.domain.attempt import Usage
from rowcrew.domain.events import (
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
from rowcrew.domain.history import Turn
from rowcrew.domain.lifecycle import TurnStatus
from rowcrew.errors import ErrorClass, InvalidRequest, NotFound
from rowcrew.processes import ProcessIdentity
from rowcrew.store.database import connect
from rowcrew.store.history import HistoryStore, WholeTurn
from rowcrew.store.migrate import migrate

ME = ProcessIdentity(11, "started", "boot")
OTHER = ProcessIdentity(12, "started", "boot")
OPEN = TurnItemStatus.IN_PROGRESS
DONE = TurnItemStatus.COMPLETED


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[apsw.Connection]:
    opened = connect(tmp_path / "history.sqlite")
    migrate(opened, "history")
    yield opened
    opened.close()


@pytest.fixture
def history(connection: apsw.Connection) -> HistoryStore:
    return HistoryStore(connection)


def message(name: str, text: str = "hi", status: TurnItemStatus = DONE) -> TurnItem:
    kind = TurnItemKind.AGENT_MESSAGE
    return TurnItem(name, kind, status, {"text": text}, 2, None if status is OPEN else 3)


def whole_turn(
    history: HistoryStore, turn_id: str, *, thread_id: str = "t", status: TurnStatus = TurnStatus.COMPLETED
) -> None:
    history.start_turn(thread_id, turn_id, owner=ME, now=1)
    history.save_item(thread_id, turn_id, message(f"item of {turn_id}"))
    history.append_messages(thread_id, turn_id, f'["{turn_id}"]')
    history.end_turn(thread_id, turn_id, status=status, duration_ms=2, now=3)


def turn_ids(turns: list[Turn]) -> list[str]:
    return [turn.id for turn in turns]


def test_the_facts_of_a_turn_become_the_turn(history: HistoryStore) -> None:
    where = {"thread_id": "t", "turn_id": "1"}
    arguments = {"tool": "shell", "arguments": {"command": "ls"}}
    started = TurnItem("c", TurnItemKind.COMMAND, OPEN, arguments, 3)
    ended = TurnItem("c", TurnItemKind.COMMAND, DONE, {**arguments, "output": "x", "exit_code": 0}, 3, 4)
    usage = Usage(1, 10, 2, 5, 3)
    failure = TurnFailure("no credit", ErrorClass.ACCOUNT, 1.5)
    kept = [
        history.note(fact, owner=ME)
        for fact in (
            TurnStarted(**where, at_ms=1),
            TurnItemStarted(**where, at_ms=3, item=started),
            TurnItemDelta(**where, at_ms=3, item_id="c", text="x"),
            TurnItemCompleted(**where, at_ms=4, item=ended),
            TurnEnded(
                **where,
                at_ms=5,
                status=TurnStatus.FAILED,
                started_at_ms=1,
                duration_ms=4,
                failure=failure,
                usage=usage,
            ),
        )
    ]
    assert kept == [True, True, False, True, True]
    expected = Turn("1", "t", 1, TurnStatus.FAILED, (ended,), 1, 5, 4, failure, usage)
    assert history.find_turn("t", "1") == expected
    assert history.find_last_turn("t") == expected
    assert history.list_turns("t", with_items=False) == [
        Turn("1", "t", 1, TurnStatus.FAILED, (), 1, 5, 4, failure, usage)
    ]


def test_an_unknown_turn_is_none(history: HistoryStore) -> None:
    whole_turn(history, "1")
    assert history.find_turn("t", "2") is None
    assert history.find_turn("u", "1") is None
    assert history.find_last_turn("u") is None


def test_turns_count_from_one_in_each_thread(history: HistoryStore) -> None:
    for turn_id in ("x", "y"):
        whole_turn(history, turn_id)
    whole_turn(history, "z", thread_id="u")
    assert [(turn.id, turn.sequence) for turn in history.list_turns("t")] == [("x", 1), ("y", 2)]
    assert [(turn.id, turn.sequence) for turn in history.list_turns("u")] == [("z", 1)]
    assert history.count_turns("t") == 2


def test_a_thread_has_one_turn_at_a_time(history: HistoryStore) -> None:
    assert history.start_turn("t", "1", owner=ME, now=1) == 1
    assert history.start_turn("t", "2", owner=ME, now=1) is None
    assert history.start_turn("u", "2", owner=ME, now=1) == 1
    history.end_turn("t", "1", status=TurnStatus.COMPLETED, now=2)
    assert history.start_turn("t", "1", owner=ME, now=3) is None
    assert history.start_turn("t", "2", owner=ME, now=3) == 2


def test_the_table_itself_forbids_a_second_turn_in_progress(
    history: HistoryStore, connection: apsw.Connection
) -> None:
    whole_turn(history, "1")
    history.start_turn("t", "2", owner=ME, now=1)
    with pytest.raises(apsw.ConstraintError):
        connection.execute(
            "UPDATE turns SET status = 'inProgress', completed_at_ms = NULL, duration_ms = NULL,"
            " owner_json = '{}' WHERE id = '1'"
        )


def test_items_keep_the_order_in_which_they_started(history: HistoryStore) -> None:
    history.start_turn("t", "1", owner=ME, now=1)
    for item in (message("a", status=OPEN), message("b", status=OPEN), message("b"), message("a", "bye")):
        assert history.save_item("t", "1", item)
    turn = history.find_turn("t", "1")
    assert turn is not None
    assert turn.items == (message("a", "bye"), message("b"))


def test_nothing_is_written_over_an_item_that_has_ended(history: HistoryStore) -> None:
    history.start_turn("t", "1", owner=ME, now=1)
    history.save_item("t", "1", message("a"))
    assert not history.save_item("t", "1", message("a", "late"))
    turn = history.find_turn("t", "1")
    assert turn is not None
    assert turn.items == (message("a"),)


def test_nothing_is_added_to_a_turn_that_has_ended_or_is_unknown(history: HistoryStore) -> None:
    whole_turn(history, "1")
    assert not history.save_item("t", "1", message("late"))
    assert not history.save_item("t", "none", message("late"))
    assert not history.append_messages("t", "none", "[]")


def test_a_turn_ends_with_all_its_items(history: HistoryStore) -> None:
    history.start_turn("t", "1", owner=ME, now=1)
    history.save_item("t", "1", message("a", status=OPEN))
    assert history.end_turn("t", "1", status=TurnStatus.INTERRUPTED, now=9)
    turn = history.find_turn("t", "1")
    assert turn is not None
    assert turn.items == (
        TurnItem(
            "a", TurnItemKind.AGENT_MESSAGE, TurnItemStatus.INTERRUPTED, {"text": "hi"}, 2, completed_at_ms=9
        ),
    )


def test_a_turn_cannot_end_in_progress(history: HistoryStore) -> None:
    history.start_turn("t", "1", owner=ME, now=1)
    with pytest.raises(InvalidRequest):
        history.end_turn("t", "1", status=TurnStatus.IN_PROGRESS, now=2)


def test_what_a_model_says_is_kept_even_where_json_and_utf8_have_no_word_for_it(
    history: HistoryStore,
) -> None:
    history.start_turn("t", "1", owner=ME, now=1)
    content = {"arguments": {"x": [float("nan"), float("inf"), 1.5]}, "output": "a\ud800\0b"}
    history.save_item("t", "1", TurnItem("a", TurnItemKind.TOOL_CALL, DONE, content, 2, 3))
    history.append_messages("t", "1", '["\udfff"]')
    turn = history.find_turn("t", "1")
    assert turn is not None
    assert turn.items[0].content == {"arguments": {"x": [None, None, 1.5]}, "output": "a\ufffd\0b"}
    assert history.list_messages("t") == ['["\ufffd"]']


def test_kinds_and_error_classes_of_a_newer_version_do_not_stop_an_older_one(
    history: HistoryStore, connection: apsw.Connection
) -> None:
    whole_turn(history, "1")
    history.start_turn("t", "2", owner=ME, now=1)
    history.save_item("t", "2", message("a"))
    history.save_item("t", "2", message("b"))
    failure = TurnFailure("odd", ErrorClass.REFUSED)
    history.end_turn("t", "2", status=TurnStatus.FAILED, failure=failure, now=3)
    connection.execute("UPDATE turn_items SET kind = 'hologram' WHERE id = 'a'")
    connection.execute(
        "UPDATE turns SET error_json = replace(error_json, 'refused', 'haunted') WHERE id = '2'"
    )
    connection.execute("UPDATE turns SET usage_json = json_set(usage_json, '$.qubits', 3)")
    turn = history.find_turn("t", "2")
    assert turn is not None
    assert (turn.items, turn.failure) == ((message("b"),), TurnFailure("odd", ErrorClass.CRASHED))


def test_turns_are_read_in_pages_from_either_end(history: HistoryStore) -> None:
    for turn_id in "abcd":
        whole_turn(history, turn_id)
    assert turn_ids(history.list_turns("t", limit=2)) == ["a", "b"]
    assert turn_ids(history.list_turns("t", beyond=2, limit=5)) == ["c", "d"]
    newest = history.list_turns("t", newest_first=True, limit=2)
    assert turn_ids(newest) == ["d", "c"]
    assert [item.id for turn in newest for item in turn.items] == ["item of d", "item of c"]
    assert turn_ids(history.list_turns("t", newest_first=True, beyond=3)) == ["b", "a"]


def test_the_conversation_comes_back_in_order(history: HistoryStore) -> None:
    whole_turn(history, "1")
    whole_turn(history, "other", thread_id="u")
    history.start_turn("t", "2", owner=ME, now=1)
    for text in ('["x"]', '["y", "z"]'):
        history.append_messages("t", "2", text)
    assert history.list_messages("t") == ['["1"]', '["x"]', '["y", "z"]']


def test_a_restart_interrupts_what_dead_processes_had_in_progress(history: HistoryStore) -> None:
    history.start_turn("t", "1", owner=OTHER, now=1)
    history.save_item("t", "1", message("a", status=OPEN))
    history.save_item("t", "1", message("b"))
    history.start_turn("alive", "1", owner=ME, now=1)
    history.start_turn("excepted", "1", owner=OTHER, now=1)
    whole_turn(history, "1", thread_id="ended")

    def settle() -> list[tuple[str, str]]:
        return history.settle_open_turns(
            is_dead=lambda owner: owner == OTHER, except_threads={"excepted"}, now=9
        )

    assert settle() == [("t", "1")]
    assert settle() == []
    turn = history.find_turn("t", "1")
    assert turn is not None
    assert (turn.status, turn.completed_at_ms, turn.duration_ms) == (TurnStatus.INTERRUPTED, 9, None)
    assert [(item.id, item.status) for item in turn.items] == [("a", TurnItemStatus.INTERRUPTED), ("b", DONE)]
    assert history.end_turn("alive", "1", status=TurnStatus.COMPLETED, now=10)
    assert history.end_turn("excepted", "1", status=TurnStatus.COMPLETED, now=10)


def test_a_turn_that_a_crash_cut_off_has_not_ended(history: HistoryStore) -> None:
    for turn_id, status in (
        ("1", TurnStatus.COMPLETED),
        ("2", TurnStatus.INTERRUPTED),
        ("3", TurnStatus.FAILED),
    ):
        whole_turn(history, turn_id, status=status)
    history.start_turn("t", "cut off", owner=OTHER, now=1)
    assert history.find_end("t", "cut off") is None
    history.settle_open_turns(is_dead=lambda _: True, now=2)
    assert {turn: history.find_end("t", turn) for turn in ("1", "2", "3", "cut off", "unknown")} == {
        "1": TurnStatus.COMPLETED,
        "2": TurnStatus.INTERRUPTED,
        "3": TurnStatus.FAILED,
        "cut off": None,
        "unknown": None,
    }


def test_a_fork_has_the_turns_up_to_the_one_that_was_named(history: HistoryStore) -> None:
    for turn_id in "abc":
        whole_turn(history, turn_id)
    assert history.fork("t", "copy", up_to_turn_id="b", now=9) == 2
    assert history.list_turns("copy") == [
        Turn(
            turn_id,
            "copy",
            sequence,
            TurnStatus.COMPLETED,
            (message(f"item of {turn_id}"),),
            1,
            3,
            2,
        )
        for sequence, turn_id in enumerate("ab", start=1)
    ]
    assert history.list_messages("copy") == ['["a"]', '["b"]']
    whole_turn(history, "d", thread_id="copy")
    assert turn_ids(history.list_turns("copy")) == ["a", "b", "d"]
    assert turn_ids(history.list_turns("t")) == ["a", "b", "c"]


def test_a_fork_of_a_live_thread_has_its_open_turn_interrupted(history: HistoryStore) -> None:
    history.start_turn("t", "1", owner=ME, now=1)
    history.save_item("t", "1", message("a", status=OPEN))
    assert history.fork("t", "copy", now=9) == 1
    assert [(turn.status, turn.items[0].status) for turn in history.list_turns("copy")] == [
        (TurnStatus.INTERRUPTED, TurnItemStatus.INTERRUPTED)
    ]
    assert history.end_turn("t", "1", status=TurnStatus.COMPLETED, now=10)


def test_a_fork_of_an_empty_thread_is_empty(history: HistoryStore) -> None:
    assert history.fork("t", "copy", now=1) == 0


def test_a_fork_goes_to_a_new_thread_and_up_to_a_turn_that_is_there(history: HistoryStore) -> None:
    whole_turn(history, "1")
    whole_turn(history, "1", thread_id="u")
    with pytest.raises(NotFound):
        history.fork("t", "copy", up_to_turn_id="2", now=2)
    with pytest.raises(InvalidRequest):
        history.fork("t", "u", now=2)


def test_a_deleted_thread_leaves_nothing(history: HistoryStore, connection: apsw.Connection) -> None:
    whole_turn(history, "1")
    whole_turn(history, "1", thread_id="u")
    history.start_turn("t", "2", owner=ME, now=1)
    assert history.delete_thread("t") == 2
    assert history.delete_thread("t") == 0
    assert not history.end_turn("t", "2", status=TurnStatus.COMPLETED, now=2)
    tables = ("turns", "turn_items", "model_messages")
    left = {table: list(connection.execute(f"SELECT thread_id FROM {table}")) for table in tables}
    assert left == {table: [("u",)] for table in tables}


def ended_turn(turn_id: str, *items: TurnItem, **ended: Any) -> WholeTurn:
    key: dict[str, Any] = {"thread_id": "t", "turn_id": turn_id}
    values = {"status": TurnStatus.COMPLETED, "started_at_ms": 5, "duration_ms": 4, **ended}
    return WholeTurn(TurnStarted(**key, at_ms=5), items, TurnEnded(**key, at_ms=9, **values), '["said"]')


@pytest.mark.parametrize(
    "ended",
    [
        {"usage": Usage(1, 20, 3, 4, 5, 1, 600)},
        {"status": TurnStatus.INTERRUPTED},
        {"status": TurnStatus.FAILED, "failure": TurnFailure("no", ErrorClass.PROVIDER, 2.5)},
    ],
    ids=["completed", "interrupted", "failed"],
)
def test_a_turn_that_is_kept_whole_is_the_turn_that_was_kept_step_by_step(
    tmp_path: Path, ended: dict[str, Any]
) -> None:
    tables = []
    items = [message("a"), message("b", status=TurnItemStatus.INTERRUPTED)]
    for name in ("steps", "whole"):
        opened = connect(tmp_path / name)
        migrate(opened, "history")
        history = HistoryStore(opened)
        whole_turn(history, "before")
        turn = ended_turn("turn", *items, **ended)
        if name == "whole":
            assert history.keep_turns([turn])
        else:
            facts = [TurnItemCompleted(thread_id="t", turn_id="turn", at_ms=6, item=item) for item in items]
            assert all(history.note(fact, owner=ME) for fact in (turn.started, *facts, turn.ended))
            assert history.append_messages("t", "turn", '["said"]')
        names = ("turns", "turn_items", "model_messages")
        tables.append([list(opened.execute(f"SELECT * FROM {table}")) for table in names])
        opened.close()
    assert tables[1] == tables[0]


def test_a_whole_turn_is_refused_where_a_turn_could_not_start(history: HistoryStore) -> None:
    whole_turn(history, "known")
    assert not history.keep_turns([ended_turn("known", message("x"))])
    history.start_turn("t", "runs", owner=OTHER, now=1)
    assert not history.keep_turns([ended_turn("new", message("x"))])
    assert [turn.id for turn in history.list_turns("t")] == ["known", "runs"]
