"""How attempts end, as the store is told: with a report, or with what went wrong. It stores nothing."""

from dataclasses import dataclass
from typing import Literal

from rowcrew.domain.attempt import Usage
from rowcrew.domain.json_text import clean_text
from rowcrew.errors import ErrorClass
from rowcrew.store.rows import USAGE_COLUMNS

NO_USAGE = Usage()
MAX_RAW_ANSWER = 64 * 1024
# too_often_invalid: this attempt has reported what breaks the rules as often as it may.
# accepted: stored now. The others changed nothing: there is no such job item; it is another thread's;
# this thread has reported before; the attempt was ended (time limit, shutdown) before the report came.
ReportOutcome = Literal[
    "accepted", "unknown_item", "other_thread", "already_reported", "too_late", "too_often_invalid"
]


@dataclass(frozen=True, slots=True)
class AttemptEnd:
    """Why an attempt ended without a report, and what it cost. What no UTF-8 can hold becomes U+FFFD."""

    error_class: ErrorClass
    error: str
    raw_answer: str | None = None
    usage: Usage = NO_USAGE

    def __post_init__(self) -> None:
        # The text is a worker's, and one that cannot be stored would break off the whole job.
        object.__setattr__(self, "error", clean_text(self.error))
        raw = self.raw_answer
        object.__setattr__(self, "raw_answer", None if raw is None else clean_text(raw[:MAX_RAW_ANSWER]))


@dataclass(frozen=True, slots=True)
class ItemReport:
    """A checked result on its way into the store. `now` is in Unix milliseconds."""

    job_id: str
    item_id: str
    thread_id: str
    result_json: str
    usage: Usage
    now: int

    def columns(self) -> dict[str, str | int]:
        return {
            "job_id": self.job_id,
            "item_id": self.item_id,
            "thread_id": self.thread_id,
            "result_json": self.result_json,
            "now": self.now,
            **{name: getattr(self.usage, name) for name in USAGE_COLUMNS},
        }
