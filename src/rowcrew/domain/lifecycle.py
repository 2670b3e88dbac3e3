"""The transition tables of job, job item, turn and queued turn: the one place where a move is allowed.

The store's queries guard the same moves in their WHERE; a generated test tries every state with every event
on the real store, and docs/lifecycle.md is drawn from these tables.
"""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import TypeVar

from rowcrew.domain.item import JobItemStatus
from rowcrew.domain.job import JobStatus


class JobEvent(StrEnum):
    START = "start"
    RESUME = "resume"
    PAUSE = "pause"
    CANCEL = "cancel"
    COMPLETE = "complete"
    FAIL = "fail"


class JobItemEvent(StrEnum):
    CLAIM = "claim"
    ASSIGN = "assign"
    REPORT = "report"
    FAIL = "fail"
    RETRY = "retry"
    RELEASE = "release"
    RETRY_FAILED = "retry_failed"


class TurnStatus(StrEnum):
    IN_PROGRESS = "inProgress"
    COMPLETED = "completed"
    INTERRUPTED = "interrupted"
    FAILED = "failed"


class TurnEvent(StrEnum):
    COMPLETE = "complete"
    INTERRUPT = "interrupt"
    FAIL = "fail"


class QueuedTurnStatus(StrEnum):
    PENDING = "pending"
    DISPATCHING = "dispatching"
    FAILED = "failed"


class QueuedTurnEvent(StrEnum):
    CLAIM = "claim"
    SET_TURN = "set_turn"
    FAIL = "fail"
    RETRY = "retry"
    UPDATE = "update"


State = TypeVar("State", bound=StrEnum)
Event = TypeVar("Event", bound=StrEnum)

# A final job that still has pending job items may be resumed; the guard on the items is the query's.
JOB: Mapping[tuple[JobStatus, JobEvent], JobStatus] = MappingProxyType(
    {
        (JobStatus.PENDING, JobEvent.START): JobStatus.RUNNING,
        (JobStatus.PENDING, JobEvent.PAUSE): JobStatus.PAUSED,
        (JobStatus.PENDING, JobEvent.CANCEL): JobStatus.CANCELLED,
        (JobStatus.PENDING, JobEvent.FAIL): JobStatus.FAILED,
        (JobStatus.RUNNING, JobEvent.PAUSE): JobStatus.PAUSED,
        (JobStatus.RUNNING, JobEvent.CANCEL): JobStatus.CANCELLED,
        (JobStatus.RUNNING, JobEvent.COMPLETE): JobStatus.COMPLETED,
        (JobStatus.RUNNING, JobEvent.FAIL): JobStatus.FAILED,
        (JobStatus.PAUSED, JobEvent.RESUME): JobStatus.RUNNING,
        (JobStatus.PAUSED, JobEvent.CANCEL): JobStatus.CANCELLED,
        (JobStatus.COMPLETED, JobEvent.RESUME): JobStatus.RUNNING,
        (JobStatus.FAILED, JobEvent.RESUME): JobStatus.RUNNING,
        (JobStatus.CANCELLED, JobEvent.RESUME): JobStatus.RUNNING,
    }
)

JOB_ITEM: Mapping[tuple[JobItemStatus, JobItemEvent], JobItemStatus] = MappingProxyType(
    {
        (JobItemStatus.PENDING, JobItemEvent.CLAIM): JobItemStatus.RUNNING,
        (JobItemStatus.RUNNING, JobItemEvent.ASSIGN): JobItemStatus.RUNNING,
        (JobItemStatus.RUNNING, JobItemEvent.REPORT): JobItemStatus.COMPLETED,
        (JobItemStatus.RUNNING, JobItemEvent.FAIL): JobItemStatus.FAILED,
        (JobItemStatus.RUNNING, JobItemEvent.RETRY): JobItemStatus.PENDING,
        (JobItemStatus.RUNNING, JobItemEvent.RELEASE): JobItemStatus.PENDING,
        (JobItemStatus.FAILED, JobItemEvent.RETRY_FAILED): JobItemStatus.PENDING,
    }
)

TURN: Mapping[tuple[TurnStatus, TurnEvent], TurnStatus] = MappingProxyType(
    {
        (TurnStatus.IN_PROGRESS, TurnEvent.COMPLETE): TurnStatus.COMPLETED,
        (TurnStatus.IN_PROGRESS, TurnEvent.INTERRUPT): TurnStatus.INTERRUPTED,
        (TurnStatus.IN_PROGRESS, TurnEvent.FAIL): TurnStatus.FAILED,
    }
)

# Leaving the queue (delete from pending or failed, remove from dispatching) has no state to go to.
QUEUED_TURN: Mapping[tuple[QueuedTurnStatus, QueuedTurnEvent], QueuedTurnStatus] = MappingProxyType(
    {
        (QueuedTurnStatus.PENDING, QueuedTurnEvent.CLAIM): QueuedTurnStatus.DISPATCHING,
        (QueuedTurnStatus.PENDING, QueuedTurnEvent.UPDATE): QueuedTurnStatus.PENDING,
        (QueuedTurnStatus.DISPATCHING, QueuedTurnEvent.SET_TURN): QueuedTurnStatus.DISPATCHING,
        (QueuedTurnStatus.DISPATCHING, QueuedTurnEvent.FAIL): QueuedTurnStatus.FAILED,
        (QueuedTurnStatus.FAILED, QueuedTurnEvent.RETRY): QueuedTurnStatus.PENDING,
        (QueuedTurnStatus.FAILED, QueuedTurnEvent.UPDATE): QueuedTurnStatus.FAILED,
    }
)


def next_state(table: Mapping[tuple[State, Event], State], state: State, event: Event) -> State | None:
    """The state after `event`, or None where the table does not allow it."""
    return table.get((state, event))
