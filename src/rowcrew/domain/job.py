"""What a job is: one instruction over one table with its settings, frozen at creation. It decides nothing."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal

from rowcrew.domain.attempt import Usage
from rowcrew.processes import ProcessIdentity

DEFAULT_MAX_CONCURRENCY = 64
DEFAULT_MAX_RUNTIME_SECONDS = 1800.0
DEFAULT_MAX_ATTEMPTS = 3


class JobStatus(StrEnum):
    PENDING = "pending"
    RUNNING = "running"
    PAUSED = "paused"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def is_final(self) -> bool:
        return self in (JobStatus.COMPLETED, JobStatus.FAILED, JobStatus.CANCELLED)


class PausedReason(StrEnum):
    USER = "user"
    ACCOUNT = "account"
    DISK_FULL = "disk_full"
    BUDGET = "budget"
    QUOTA = "quota"
    INTERRUPTED = "interrupted"


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often and how soon a job item is tried again. Delays are in seconds."""

    max_attempts: int = DEFAULT_MAX_ATTEMPTS
    base_delay: float = 1.0
    max_delay: float = 60.0


@dataclass(frozen=True, slots=True)
class JobSettings:
    """How a job is worked on, frozen with it; what decides whether two jobs are the same."""

    worker: str = "agent"
    model: str | None = None
    base_url: str | None = None
    max_concurrency: int | None = None
    max_runtime_seconds: float = DEFAULT_MAX_RUNTIME_SECONDS
    retry: RetryPolicy = RetryPolicy()
    command_input: Literal["json", "prompt"] = "json"
    sandbox_mode: str = "read-only"
    expand: bool = True
    raw: bool = False
    bom: bool = False
    output_format: Literal["csv", "jsonl"] = "csv"
    working_folder: str = "."


@dataclass(frozen=True, slots=True)
class JobCounts:
    """total = pending + running + completed + failed, always; the store checks it."""

    total: int
    pending: int
    running: int
    completed: int
    failed: int


@dataclass(frozen=True, slots=True)
class Lease:
    """Who may run a job. `epoch` grows with every change of owner and fences the writes of the one before.

    `heartbeat_up_ms` is on the machine's monotonic clock and only means something within one boot.
    """

    epoch: int
    owner: str
    host: str
    process: ProcessIdentity
    heartbeat_at_ms: int
    heartbeat_up_ms: int


@dataclass(frozen=True, slots=True)
class Job:
    """A job as the store has it. `output_schema` is the parsed JSON Schema; times are Unix milliseconds."""

    id: str
    name: str
    status: JobStatus
    instruction: str
    auto_export: bool
    settings: JobSettings
    output_schema: dict[str, Any] | None
    input_headers: tuple[str, ...]
    input_path: str
    input_digest: str
    input_size: int
    output_path: str
    output_is_ours: bool
    counts: JobCounts
    usage: Usage
    paused_reason: PausedReason | None
    last_error: str | None
    lease: Lease | None
    run_started_at_ms: int | None
    run_started_done: int | None
    created_at_ms: int
    updated_at_ms: int
    started_at_ms: int | None
    completed_at_ms: int | None
