"""The transition tables, as words: each test reads like its rule. The store is tested elsewhere."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

import pytest

from rowcrew.domain.item import JobItemStatus
from rowcrew.domain.job import JobStatus
from rowcrew.domain.lifecycle import (
    JOB,
    JOB_ITEM,
    QUEUED_TURN,
    TURN,
    JobEvent,
    JobItemEvent,
    QueuedTurnEvent,
    QueuedTurnStatus,
    TurnEvent,
    TurnStatus,
    next_state,
)

Table = Mapping[tuple[Any, Any], Any]
TABLES: list[tuple[Table, type[StrEnum], type[StrEnum]]] = [
    (JOB, JobStatus, JobEvent),
    (JOB_ITEM, JobItemStatus, JobItemEvent),
    (TURN, TurnStatus, TurnEvent),
    (QUEUED_TURN, QueuedTurnStatus, QueuedTurnEvent),
]
by_table = pytest.mark.parametrize(
    ("table", "states", "events"), TABLES, ids=["job", "job item", "turn", "queued turn"]
)


def _moves(table: Table) -> set[str]:
    return {f"{before} -{event}-> {after}" for (before, event), after in table.items()}


def test_the_moves_of_a_job() -> None:
    assert _moves(JOB) == {
        "pending -start-> running",
        "pending -pause-> paused",
        "pending -cancel-> cancelled",
        "pending -fail-> failed",
        "running -pause-> paused",
        "running -cancel-> cancelled",
        "running -complete-> completed",
        "running -fail-> failed",
        "paused -resume-> running",
        "paused -cancel-> cancelled",
        "completed -resume-> running",
        "failed -resume-> running",
        "cancelled -resume-> running",
    }


def test_the_moves_of_a_job_item() -> None:
    assert _moves(JOB_ITEM) == {
        "pending -claim-> running",
        "running -assign-> running",
        "running -report-> completed",
        "running -fail-> failed",
        "running -retry-> pending",
        "running -release-> pending",
        "failed -retry_failed-> pending",
    }


def test_the_moves_of_a_turn() -> None:
    assert _moves(TURN) == {
        "inProgress -complete-> completed",
        "inProgress -interrupt-> interrupted",
        "inProgress -fail-> failed",
    }


def test_the_moves_of_a_queued_turn() -> None:
    assert _moves(QUEUED_TURN) == {
        "pending -claim-> dispatching",
        "pending -update-> pending",
        "dispatching -set_turn-> dispatching",
        "dispatching -fail-> failed",
        "failed -retry-> pending",
        "failed -update-> failed",
    }


@by_table
def test_a_table_speaks_of_its_own_states_and_events_and_uses_all_of_them(
    table: Table, states: type[StrEnum], events: type[StrEnum]
) -> None:
    assert {type(state) for pair in table.items() for state in (pair[0][0], pair[1])} == {states}
    assert {before for before, _ in table} | set(table.values()) == set(states)
    assert {event for _, event in table} == set(events)


@by_table
def test_a_move_that_is_not_in_the_table_leads_nowhere(
    table: Table, states: type[StrEnum], events: type[StrEnum]
) -> None:
    assert {
        (state, event): next_state(table, state, event)
        for state in states
        for event in events
        if (state, event) not in table
    } == {(state, event): None for state in states for event in events if (state, event) not in table}


@by_table
def test_a_table_cannot_be_changed(table: Table, states: type[StrEnum], events: type[StrEnum]) -> None:
    state, event = next(iter(states)), next(iter(events))
    with pytest.raises(TypeError):
        table[state, event] = state  # type: ignore[index]


def test_a_late_completion_never_overwrites_a_final_job() -> None:
    finals = [status for status in JobStatus if status.is_final]
    assert finals == [JobStatus.COMPLETED, JobStatus.FAILED, JobStatus.CANCELLED]
    changes = [event for event in JobEvent if event is not JobEvent.RESUME]
    assert {next_state(JOB, status, event) for status in finals for event in changes} == {None}


def test_a_completed_job_item_is_never_touched_again() -> None:
    assert {next_state(JOB_ITEM, JobItemStatus.COMPLETED, event) for event in JobItemEvent} == {None}


def test_a_job_item_is_failed_only_from_running_and_comes_back_only_by_hand() -> None:
    assert {event for (before, event) in JOB_ITEM if before is JobItemStatus.FAILED} == {
        JobItemEvent.RETRY_FAILED
    }
    assert {before for (before, event) in JOB_ITEM if event is JobItemEvent.FAIL} == {JobItemStatus.RUNNING}


def test_a_turn_ends_once() -> None:
    ended = [status for status in TurnStatus if status is not TurnStatus.IN_PROGRESS]
    assert {next_state(TURN, status, event) for status in ended for event in TurnEvent} == {None}


def test_a_dispatching_queued_turn_cannot_be_rewritten() -> None:
    assert next_state(QUEUED_TURN, QueuedTurnStatus.DISPATCHING, QueuedTurnEvent.UPDATE) is None
