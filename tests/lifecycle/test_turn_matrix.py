"""Every state of a turn with every event, on the real store: the table alone decides what must happen."""

from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from rowcrew.domain.attempt import Usage
from rowcrew.domain.events import TurnFailure
from rowcrew.domain.history import Turn
from rowcrew.domain.lifecycle import TURN, TurnEvent, TurnStatus, next_state
from rowcrew.errors import ErrorClass
from rowcrew.processes import ProcessIdentity
from rowcrew.store.database import connect
from rowcrew.store.history import HistoryStore
from rowcrew.store.migrate import migrate

ME = ProcessIdentity(11, "started", "boot")
END = {
    TurnEvent.COMPLETE: TurnStatus.COMPLETED,
    TurnEvent.INTERRUPT: TurnStatus.INTERRUPTED,
    TurnEvent.FAIL: TurnStatus.FAILED,
}


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[apsw.Connection]:
    opened = connect(tmp_path / "history.sqlite")
    migrate(opened, "history")
    yield opened
    opened.close()


def turn_in(history: HistoryStore, status: TurnStatus) -> Turn:
    history.start_turn("t", "1", owner=ME, now=1)
    if status is not TurnStatus.IN_PROGRESS:
        failure = TurnFailure("broken", ErrorClass.CRASHED) if status is TurnStatus.FAILED else None
        history.end_turn("t", "1", status=status, failure=failure, duration_ms=1, now=2)
    found = history.find_turn("t", "1")
    assert found is not None
    assert found.status is status
    return found


@pytest.mark.parametrize("event", TurnEvent)
@pytest.mark.parametrize("status", TurnStatus)
def test_the_store_moves_a_turn_as_the_table_says_and_else_changes_nothing(
    connection: apsw.Connection, status: TurnStatus, event: TurnEvent
) -> None:
    history = HistoryStore(connection)
    before = turn_in(history, status)
    wanted = next_state(TURN, status, event)
    happened = history.end_turn("t", "1", status=END[event], usage=Usage(9), duration_ms=9, now=9)
    after = history.find_turn("t", "1")
    assert happened == (wanted is not None)
    if wanted is None:
        assert after == before
    else:
        assert after is not None
        assert (after.status, after.completed_at_ms, after.usage) == (wanted, 9, Usage(9))


@pytest.mark.parametrize("status", TurnStatus)
def test_a_restart_interrupts_a_turn_that_the_table_lets_be_interrupted(
    connection: apsw.Connection, status: TurnStatus
) -> None:
    history = HistoryStore(connection)
    before = turn_in(history, status)
    wanted = next_state(TURN, status, TurnEvent.INTERRUPT)
    settled = history.settle_open_turns(is_dead=lambda _: True, now=9)
    assert settled == ([] if wanted is None else [("t", "1")])
    after = history.find_turn("t", "1")
    assert after is not None
    assert after.status is (wanted or status)
    assert (after == before) == (wanted is None)


@pytest.mark.parametrize("status", TurnStatus)
def test_the_next_turn_starts_only_when_no_event_can_end_the_one_before(
    connection: apsw.Connection, status: TurnStatus
) -> None:
    history = HistoryStore(connection)
    turn_in(history, status)
    can_still_end = any(next_state(TURN, status, event) is not None for event in TurnEvent)
    assert (history.start_turn("t", "2", owner=ME, now=9) is None) == can_still_end
