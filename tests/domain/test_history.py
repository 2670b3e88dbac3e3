"""From facts to a turn, and a turn without its bulk. No store."""

import dataclasses

from rowcrew.domain.attempt import Usage
from rowcrew.domain.events import (
    AgentState,
    AgentStatus,
    Fact,
    ThreadStatusChanged,
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
from rowcrew.domain.history import Turn, apply, compact
from rowcrew.domain.lifecycle import TurnStatus
from rowcrew.errors import ErrorClass

OPEN = TurnItemStatus.IN_PROGRESS
DONE = TurnItemStatus.COMPLETED


def started(turn_id: str = "1") -> Fact:
    return TurnStarted(thread_id="t", turn_id=turn_id, at_ms=1)


def opened(item: TurnItem, turn_id: str = "1") -> Fact:
    return TurnItemStarted(thread_id="t", turn_id=turn_id, at_ms=2, item=item)


def said(text: str, item_id: str = "a") -> Fact:
    return TurnItemDelta(thread_id="t", turn_id="1", at_ms=2, item_id=item_id, text=text)


def closed(item: TurnItem) -> Fact:
    return TurnItemCompleted(thread_id="t", turn_id="1", at_ms=3, item=item)


def ended(turn_id: str = "1", status: TurnStatus = TurnStatus.COMPLETED) -> Fact:
    return TurnEnded(
        thread_id="t", turn_id=turn_id, at_ms=9, status=status, started_at_ms=1, duration_ms=8, usage=Usage(1)
    )


def message(text: str, status: TurnItemStatus = OPEN, name: str = "a") -> TurnItem:
    kind = TurnItemKind.AGENT_MESSAGE
    return TurnItem(name, kind, status, {"text": text}, 2, None if status is OPEN else 3)


def told(*facts: Fact) -> Turn | None:
    turn: Turn | None = None
    for fact in facts:
        turn = apply(turn, fact)
    return turn


def test_a_turn_grows_with_its_facts() -> None:
    facts = (started(), opened(message("")), said("Hel"), said("lo"))
    assert told(*facts) == Turn("1", "t", 0, TurnStatus.IN_PROGRESS, (message("Hello"),), 1)
    assert told(*facts, closed(message("Hello!", DONE)), ended()) == Turn(
        "1", "t", 0, TurnStatus.COMPLETED, (message("Hello!", DONE),), 1, 9, 8, None, Usage(1)
    )


def test_items_stand_in_the_order_in_which_they_started() -> None:
    first, second = message("x"), message("y", name="b")
    turn = told(started(), opened(first), opened(second), closed(message("y", DONE, "b")))
    assert turn is not None
    assert turn.items == (first, message("y", DONE, "b"))


def test_an_item_that_was_only_told_complete_is_there() -> None:
    turn = told(started(), closed(message("x", DONE)))
    assert turn is not None
    assert turn.items == (message("x", DONE),)


def test_a_piece_of_text_after_its_item_was_completed_changes_nothing() -> None:
    before = told(started(), closed(message("x", DONE)))
    assert before is not None
    assert apply(before, said("late")) == before
    assert apply(before, said("of another", item_id="b")) == before


def test_an_item_left_open_by_the_end_is_interrupted() -> None:
    turn = told(started(), opened(message("x")), ended(status=TurnStatus.INTERRUPTED))
    assert turn is not None
    assert turn.items == (
        dataclasses.replace(message("x"), status=TurnItemStatus.INTERRUPTED, completed_at_ms=9),
    )


def test_the_last_turn_stays_at_hand_until_the_next_one_starts() -> None:
    last = told(started(), closed(message("x", DONE)), ended())
    assert last is not None
    late = (opened(message("late", name="b")), ended(status=TurnStatus.FAILED), ended("2"))
    assert [apply(last, fact) for fact in late] == [last] * 3
    assert apply(last, started("2")) == Turn("2", "t", 0, TurnStatus.IN_PROGRESS, (), 1)


def test_facts_of_a_turn_that_is_not_the_latest_change_nothing() -> None:
    turn = told(started("2"))
    assert apply(turn, opened(message("x"), "1")) == turn
    assert apply(turn, ended("1")) == turn


def test_facts_that_are_not_of_a_turns_content_change_nothing() -> None:
    turn = told(started())
    status = ThreadStatusChanged(thread_id="t", at_ms=2, status=AgentStatus(AgentState.RUNNING))
    tokens = TokenUsageUpdated(thread_id="t", turn_id="1", at_ms=2, last=Usage(1), total=Usage(2))
    assert [apply(turn, fact) for fact in (status, tokens)] == [turn, turn]
    assert apply(None, status) is None
    assert apply(None, opened(message("x"))) is None


def test_a_failed_turn_says_why() -> None:
    failure = TurnFailure("no credit", ErrorClass.ACCOUNT)
    fact = dataclasses.replace(ended(status=TurnStatus.FAILED), failure=failure)  # type: ignore[call-arg]
    turn = told(started(), fact)
    assert turn is not None
    assert (turn.status, turn.failure, turn.is_ended) == (TurnStatus.FAILED, failure, True)


def test_the_last_message_is_the_last_that_the_agent_completed() -> None:
    turn = told(started(), closed(message("one", DONE)), closed(message("two", DONE, "b")))
    assert turn is not None
    assert turn.last_message == "two"
    assert told(started(), opened(message("never said"))).last_message is None  # type: ignore[union-attr]


def test_a_notification_goes_without_what_commands_printed_and_tools_answered() -> None:
    call = {"tool": "shell", "arguments": {"command": "ls"}}
    diff = [{"path": "a", "kind": "update", "diff": "-x\n+y"}]
    text = {"text": "output"}
    before = {
        TurnItemKind.USER_MESSAGE: text,
        TurnItemKind.AGENT_MESSAGE: text,
        TurnItemKind.REASONING: text,
        TurnItemKind.COMMAND: {**call, "output": "x" * 999, "exit_code": 0},
        TurnItemKind.FILE_CHANGE: {**call, "output": "done", "changes": diff},
        TurnItemKind.TOOL_CALL: {**call, "output": "x" * 999},
    }
    after = {
        TurnItemKind.USER_MESSAGE: text,
        TurnItemKind.AGENT_MESSAGE: text,
        TurnItemKind.REASONING: text,
        TurnItemKind.COMMAND: {**call, "exit_code": 0},
        TurnItemKind.FILE_CHANGE: {**call, "changes": diff},
        TurnItemKind.TOOL_CALL: call,
    }
    items = tuple(TurnItem(str(kind), kind, DONE, content, 1, 2) for kind, content in before.items())
    turn = Turn("1", "t", 1, TurnStatus.COMPLETED, items, 1, 3)
    assert {item.kind: item.content for item in compact(turn).items} == after
    assert dataclasses.replace(compact(turn), items=items) == turn
    assert set(before) == set(TurnItemKind)
