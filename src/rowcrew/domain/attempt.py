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
    """Tokens and requests that were paid for. Unknown is 0 requests, never a guess.

    `cost_nanos` is what the `priced_requests` of them have cost, in billionths of a US dollar, at the prices
    of their time. What the others have cost is unknown, which is not 0.
    """

    requests: int = 0
    input_tokens: int = 0
    cached_input_tokens: int = 0
    output_tokens: int = 0
    reasoning_tokens: int = 0
    priced_requests: int = 0
    cost_nanos: int = 0

    def __add__(self, other: "Usage") -> "Usage":
        return self._with(other, 1)

    def __sub__(self, other: "Usage") -> "Usage":
        return self._with(other, -1)

    @property
    def unpriced_requests(self) -> int:
        """Requests whose cost is unknown."""
        return self.requests - self.priced_requests

    @property
    def total_cost_nanos(self) -> int | None:
        """The cost of all; None where that of a single request is unknown, and where none is known of."""
        return self.cost_nanos if self.requests and not self.unpriced_requests else None

    @property
    def known_cost_nanos(self) -> int | None:
        """The cost of what has a known price; None where nothing has."""
        return self.cost_nanos if self.priced_requests else None

    def _with(self, other: "Usage", sign: int) -> "Usage":
        return Usage(
            self.requests + sign * other.requests,
            self.input_tokens + sign * other.input_tokens,
            self.cached_input_tokens + sign * other.cached_input_tokens,
            self.output_tokens + sign * other.output_tokens,
            self.reasoning_tokens + sign * other.reasoning_tokens,
            self.priced_requests + sign * other.priced_requests,
            self.cost_nanos + sign * other.cost_nanos,
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
