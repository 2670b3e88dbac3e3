"""Every exception rowcrew raises on purpose, grouped by who must act. It imports nothing of rowcrew.

RowcrewError
├── InvalidRequest     the caller changes the request
├── NotFound           the caller names something else
├── Conflict           the state is in the way; carries that state
├── LimitReached       a limit is in the way; try later
├── Interrupted        someone asked for the work to end
├── ModelError         a model or its provider said no; carries the error class
└── StoreError         a database file is in the way
    ├── StoreBusy        still locked after the bounded retries
    ├── StoreDamaged     not a database, or its content is broken
    ├── DiskFull         no room; what was to be written is still in the caller's hands
    └── LeaseLost        another process runs the job now; this one may write nothing more
"""

from enum import StrEnum


class ErrorClass(StrEnum):
    """Why an attempt did not end in a report."""

    TIMEOUT = "timeout"
    NO_REPORT = "no_report"
    INVALID_RESULT = "invalid_result"
    CRASHED = "crashed"
    START_FAILED = "start_failed"
    PROVIDER = "provider"
    RATE_LIMITED = "rate_limited"
    REFUSED = "refused"
    ACCOUNT = "account"


class RowcrewError(Exception):
    """A sentence for people, and what to type or change next where there is something to say."""

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class InvalidRequest(RowcrewError):
    """The request cannot be carried out as it stands."""


class NotFound(RowcrewError):
    """Nothing has that name."""


class Conflict(RowcrewError):
    """The current state forbids it. `state` is that state, such as a status or the owner of a lease."""

    def __init__(self, message: str, *, state: str | None = None, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.state = state


class LimitReached(RowcrewError):
    """A limit is in the way now; it may not be later."""


class Interrupted(RowcrewError):
    """The work was asked to end before it was done."""


class ModelError(RowcrewError):
    """A model request failed. `retry_after` is in seconds and only set where the provider named it."""

    def __init__(
        self,
        message: str,
        *,
        error_class: ErrorClass,
        retry_after: float | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(message, hint=hint)
        self.error_class = error_class
        self.retry_after = retry_after


class StoreError(RowcrewError):
    """A database file is in the way."""


class StoreBusy(StoreError):
    """Another process held the write lock for longer than the bounded retries."""


class StoreDamaged(StoreError):
    """The file is not a database or its content is broken. It is never overwritten."""


class DiskFull(StoreError):
    """No room on the disk. Nothing of the failed write is in the file."""


class LeaseLost(StoreError):
    """Another process runs the job now."""
