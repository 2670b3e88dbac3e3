"""What an attempt is: one try at a job item by one worker, kept for ever. It decides nothing."""

from dataclasses import dataclass
from enum import StrEnum

from rowcrew.errors import ErrorClass


class AttemptOutcome(StrEnum):
    RUNNING = "running"
    REPORTED = "reported"
    FAILED = "failed"
    RELEASED = "released"


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens and requests that were paid for. Unknown is 0 requests, never a guess."""

    requests: int = 0
    input_tokens: int = 0
    cached_input_tokens: int = 0
    output_tokens: int = 0
    reasoning_tokens: int = 0

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            self.requests + other.requests,
            self.input_tokens + other.input_tokens,
            self.cached_input_tokens + other.cached_input_tokens,
            self.output_tokens + other.output_tokens,
            self.reasoning_tokens + other.reasoning_tokens,
        )


@dataclass(frozen=True, slots=True)
class Attempt:
    """One try. `counted` is false for tries that cost the row nothing (a release, a rate limit)."""

    job_id: str
    item_id: str
    number: int
    thread_id: str
    started_at_ms: int
    ended_at_ms: int | None
    outcome: AttemptOutcome
    counted: bool
    error_class: ErrorClass | None
    error: str | None
    raw_answer: str | None
    usage: Usage
