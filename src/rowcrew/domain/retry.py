"""May an attempt that ended badly be followed by another, and when. It stores nothing."""

from dataclasses import dataclass

from rowcrew.domain.job import RetryPolicy
from rowcrew.errors import ErrorClass

RETRIED = frozenset(
    {
        ErrorClass.TIMEOUT,
        ErrorClass.NO_REPORT,
        ErrorClass.INVALID_RESULT,
        ErrorClass.CRASHED,
        ErrorClass.START_FAILED,
        ErrorClass.PROVIDER,
    }
)
# A rate limit without Retry-After: as good a guess as any provider's documentation gives.
DEFAULT_RATE_LIMIT_WAIT = 5.0


@dataclass(frozen=True, slots=True)
class Retry:
    """Back to pending, the attempt counted; not before `delay` seconds from now."""

    delay: float


@dataclass(frozen=True, slots=True)
class Release:
    """Back to pending, the attempt uncounted; not before `delay` seconds from now."""

    delay: float


@dataclass(frozen=True, slots=True)
class Fail:
    """No attempt is left, or none would help."""


@dataclass(frozen=True, slots=True)
class PauseJob:
    """Not the row's fault, and every row would meet it: release this one and pause the job."""


Verdict = Retry | Release | Fail | PauseJob


def after(
    error_class: ErrorClass,
    *,
    attempts: int,
    policy: RetryPolicy,
    jitter: float,
    retry_after: float | None = None,
) -> Verdict:
    """What follows an attempt that ended as `error_class`.

    `attempts` counts this one. `jitter` is a random number from 0 to 1: half of a delay is fixed, half drawn,
    so that rows which failed together do not come back together. `retry_after` is in seconds.
    """
    if error_class is ErrorClass.ACCOUNT:
        return PauseJob()
    if error_class is ErrorClass.RATE_LIMITED:
        return Release(DEFAULT_RATE_LIMIT_WAIT if retry_after is None else max(0.0, retry_after))
    if error_class in RETRIED and attempts < policy.max_attempts:
        # Beyond 2^30 the cap has long been reached; a larger exponent would only overflow.
        full = min(policy.max_delay, policy.base_delay * 2.0 ** min(attempts - 1, 30))
        return Retry(full * (0.5 + jitter / 2))
    return Fail()
