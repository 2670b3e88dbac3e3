"""Every state of a queued turn with every event, on the real store: the table decides what must happen."""

from collections.abc import Callable, Iterator
from pathlib import Path

import apsw
import pytest

from rowcrew.domain.lifecycle import QUEUED_TURN, QueuedTurnEvent, QueuedTurnStatus, next_state
from rowcrew.domain.queued_turn import NewQueuedTurn, QueuedTurn
from rowcrew.processes import ProcessIdentity
from rowcrew.store.database import connect
from rowcrew.store.migrate import migrate
from rowcrew.store.turn_queue import TurnQueueStore

ME = ProcessIdentity(11, "started", "boot")

# How each event is brought about. True when the store says that it happened.
EVENTS: dict[QueuedTurnEvent, Callable[[TurnQueueStore], bool]] = {
    QueuedTurnEvent.CLAIM: lambda queue: queue.claim_head("t", owner=ME, now=9) is not None,
    QueuedTurnEvent.SET_TURN: lambda queue: queue.set_turn_id("a", turn_id="turn", now=9),
    QueuedTurnEvent.FAIL: lambda queue: queue.fail("a", reason="broken", now=9),
    QueuedTurnEvent.RETRY: lambda queue: queue.retry("t", "a", now=9) == "done",
    QueuedTurnEvent.UPDATE: lambda queue: queue.update("t", "a", text="new", now=9) == "done",
}
# How an entry leaves the queue, and from where it may.
LEAVING: dict[str, tuple[Callable[[TurnQueueStore], bool], set[QueuedTurnStatus]]] = {
    "delete": (
        lambda queue: queue.delete("t", "a") == "done",
        {QueuedTurnStatus.PENDING, QueuedTurnStatus.FAILED},
    ),
    "remove": (lambda queue: queue.remove("t", turn_id="turn"), {QueuedTurnStatus.DISPATCHING}),
}


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[apsw.Connection]:
    opened = connect(tmp_path / "queue.sqlite")
    migrate(opened, "queue")
    yield opened
    opened.close()


def entry_in(queue: TurnQueueStore, status: QueuedTurnStatus, *, turn_id: str | None = None) -> QueuedTurn:
    """The entry `a` of thread `t`, brought to `status` by the moves that lead there."""
    queue.append(NewQueuedTurn("a", "t", "hello", {}), now=1)
    if status is not QueuedTurnStatus.PENDING:
        queue.claim_head("t", owner=ME, now=2)
        if turn_id is not None:
            queue.set_turn_id("a", turn_id=turn_id, now=3)
    if status is QueuedTurnStatus.FAILED:
        queue.fail("a", reason="no model", now=4)
    found = queue.find("t", "a")
    assert found is not None
    assert found.status is status
    return found


@pytest.mark.parametrize("event", QueuedTurnEvent)
@pytest.mark.parametrize("status", QueuedTurnStatus)
def test_the_store_moves_a_queued_turn_as_the_table_says_and_else_changes_nothing(
    connection: apsw.Connection, status: QueuedTurnStatus, event: QueuedTurnEvent
) -> None:
    queue = TurnQueueStore(connection)
    before = entry_in(queue, status)
    wanted = next_state(QUEUED_TURN, status, event)
    happened = EVENTS[event](queue)
    after = queue.find("t", "a")
    assert happened == (wanted is not None)
    if wanted is None:
        assert after == before
    else:
        assert after is not None
        assert after.status is wanted
        assert after != before


@pytest.mark.parametrize("way", LEAVING)
@pytest.mark.parametrize("status", QueuedTurnStatus)
def test_a_queued_turn_leaves_the_queue_only_from_where_it_may(
    connection: apsw.Connection, status: QueuedTurnStatus, way: str
) -> None:
    queue = TurnQueueStore(connection)
    before = entry_in(queue, status, turn_id="turn")
    leave, allowed = LEAVING[way]
    assert leave(queue) == (status in allowed)
    assert queue.find("t", "a") == (None if status in allowed else before)


@pytest.mark.parametrize("event", QueuedTurnEvent)
def test_no_event_brings_back_an_entry_that_has_left(
    connection: apsw.Connection, event: QueuedTurnEvent
) -> None:
    queue = TurnQueueStore(connection)
    entry_in(queue, QueuedTurnStatus.PENDING)
    queue.delete("t", "a")
    assert not EVENTS[event](queue)
    assert queue.find("t", "a") is None
