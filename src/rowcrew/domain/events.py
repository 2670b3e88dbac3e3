"""The facts of threads and turns that others may subscribe to, frozen, in the past tense. It decides nothing.

Order within a turn: TurnStarted, then for each turn item TurnItemStarted, TurnItemDelta …, TurnItemCompleted,
and last exactly one TurnEnded. A reader that is slow may lose facts that are `droppable`, never another.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, ClassVar

from rowcrew.domain.attempt import Usage
from rowcrew.domain.lifecycle import TurnStatus
from rowcrew.errors import ErrorClass


class TurnItemKind(StrEnum):
    """What a turn item is. The keys of its content are listed with each kind; all values are plain JSON."""

    USER_MESSAGE = "userMessage"  # text
    AGENT_MESSAGE = "agentMessage"  # text
    REASONING = "reasoning"  # text
    COMMAND = "commandExecution"  # tool, arguments; then output, exit_code (None when it was ended)
    FILE_CHANGE = "fileChange"  # tool, arguments; then output, changes: [{path, kind, diff}]
    TOOL_CALL = "toolCall"  # tool, arguments; then output


class TurnItemStatus(StrEnum):
    IN_PROGRESS = "inProgress"
    COMPLETED = "completed"
    FAILED = "failed"
    INTERRUPTED = "interrupted"


@dataclass(frozen=True, slots=True)
class TurnItem:
    """One piece of an exchange. `id` is unique within its thread."""

    id: str
    kind: TurnItemKind
    status: TurnItemStatus
    content: Mapping[str, Any]
    started_at_ms: int
    completed_at_ms: int | None = None


class AgentState(StrEnum):
    """Where an agent stands. All but the first two are final; idle after a good turn is `completed`."""

    PENDING_INIT = "pending_init"
    RUNNING = "running"
    COMPLETED = "completed"
    ERRORED = "errored"
    INTERRUPTED = "interrupted"
    SHUTDOWN = "shutdown"
    NOT_FOUND = "not_found"


@dataclass(frozen=True, slots=True)
class AgentStatus:
    """A state, and its text: the last message of a completed turn, the sentence of an error."""

    state: AgentState
    text: str | None = None

    @property
    def is_final(self) -> bool:
        return self.state not in (AgentState.PENDING_INIT, AgentState.RUNNING)


@dataclass(frozen=True, slots=True)
class TurnFailure:
    """Why a turn failed. `retry_after` is in seconds and set only where the provider named it."""

    message: str
    error_class: ErrorClass
    retry_after: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadFact:
    """What all facts of a thread have. `droppable` facts may be lost by a slow reader."""

    droppable: ClassVar[bool] = False

    thread_id: str
    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadStarted(ThreadFact):
    """An agent thread is alive. `parent_id` is the thread whose agent spawned it."""

    parent_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadStatusChanged(ThreadFact):
    status: AgentStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadClosed(ThreadFact):
    """The thread's loop has ended and its agent slot is free."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnFact(ThreadFact):
    turn_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnStarted(TurnFact):
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnItemStarted(TurnFact):
    item: TurnItem


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnItemDelta(TurnFact):
    """A further piece of an item's text."""

    droppable: ClassVar[bool] = True

    item_id: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnItemCompleted(TurnFact):
    item: TurnItem


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenUsageUpdated(TurnFact):
    """`last` is the latest model request's, `total` the whole thread's since it started or was resumed."""

    droppable: ClassVar[bool] = True

    last: Usage
    total: Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnEnded(TurnFact):
    """The one terminal fact of a turn, after all its items. `usage` is this turn's."""

    status: TurnStatus
    started_at_ms: int
    duration_ms: int
    failure: TurnFailure | None = None
    last_message: str | None = None
    usage: Usage = field(default_factory=Usage)


Fact = ThreadFact
