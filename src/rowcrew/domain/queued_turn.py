"""A queued turn: written by a user, not yet started by its thread. This module decides nothing about it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rowcrew.domain.lifecycle import QueuedTurnStatus
from rowcrew.processes import ProcessIdentity


@dataclass(frozen=True, slots=True)
class NewQueuedTurn:
    """A queued turn on its way into the store.

    `options` is what else the turn is to be started with (model, folder, images …), as plain JSON.
    `client_id` is the caller's own name for it: the same one again, with the same content, adds nothing.
    """

    id: str
    thread_id: str
    text: str
    options: Mapping[str, Any]
    client_id: str | None = None


@dataclass(frozen=True, slots=True)
class QueuedTurn:
    """A queued turn as the store has it.

    `turn_id` is the turn that it was dispatched as, `failure` why that came to nothing, `owner` the process
    that dispatches it. Entries of a thread stand in the order of `position`, which may have gaps.
    """

    id: str
    thread_id: str
    client_id: str | None
    position: int
    status: QueuedTurnStatus
    text: str
    options: Mapping[str, Any]
    turn_id: str | None
    failure: str | None
    owner: ProcessIdentity | None
    created_at_ms: int
    updated_at_ms: int
