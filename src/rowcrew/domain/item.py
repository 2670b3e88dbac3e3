"""What a job item is: one row of a job, and where it stands. The moves are in lifecycle.py."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from rowcrew.errors import ErrorClass


class JobItemStatus(StrEnum):
    PENDING = "pending"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class JobItemSpec:
    """A row on its way into the store. `row_index` counts kept rows of the whole file from 0."""

    item_id: str
    row_index: int
    source_id: str | None
    cells: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class JobItem:
    """One row as the store has it. `row` keeps the header's order; `result_json` is compact JSON text."""

    job_id: str
    item_id: str
    row_index: int
    source_id: str | None
    row: Mapping[str, str]
    status: JobItemStatus
    assigned_thread_id: str | None
    attempt_count: int
    result_json: str | None
    last_error: str | None
    error_class: ErrorClass | None
    not_before_at_ms: int
    created_at_ms: int
    updated_at_ms: int
    completed_at_ms: int | None
    reported_at_ms: int | None
