"""What follows each kind of bad end."""

import pytest

from rowcrew.domain.job import RetryPolicy
from rowcrew.domain.retry import DEFAULT_RATE_LIMIT_WAIT, RETRIED, Fail, PauseJob, Release, Retry, after
from rowcrew.errors import ErrorClass

POLICY = RetryPolicy(max_attempts=3, base_delay=1.0, max_delay=60.0)


@pytest.mark.parametrize("error_class", sorted(RETRIED))
def test_a_retried_class_comes_back_until_its_attempts_are_used_up(error_class: ErrorClass) -> None:
    verdicts = [after(error_class, attempts=n, policy=POLICY, jitter=1.0) for n in (1, 2, 3)]
    assert verdicts == [Retry(1.0), Retry(2.0), Fail()]


def test_half_of_a_delay_is_drawn_so_that_rows_do_not_come_back_together() -> None:
    assert after(ErrorClass.CRASHED, attempts=2, policy=POLICY, jitter=0.0) == Retry(1.0)


def test_delays_stop_growing_at_the_cap() -> None:
    patient = RetryPolicy(max_attempts=10_000, base_delay=1.0, max_delay=60.0)
    assert after(ErrorClass.PROVIDER, attempts=9_999, policy=patient, jitter=1.0) == Retry(60.0)


def test_a_refused_request_is_not_sent_again() -> None:
    assert after(ErrorClass.REFUSED, attempts=1, policy=POLICY, jitter=1.0) == Fail()


def test_an_account_without_credit_pauses_the_job_on_any_attempt() -> None:
    assert after(ErrorClass.ACCOUNT, attempts=3, policy=POLICY, jitter=1.0) == PauseJob()


@pytest.mark.parametrize(("named", "delay"), [(2.0, 2.0), (0.0, 0.0), (None, DEFAULT_RATE_LIMIT_WAIT)])
def test_a_rate_limit_uses_no_attempt_and_honours_retry_after(named: float | None, delay: float) -> None:
    verdict = after(ErrorClass.RATE_LIMITED, attempts=3, policy=POLICY, jitter=1.0, retry_after=named)
    assert verdict == Release(delay)


def test_every_error_class_has_a_rule() -> None:
    special = {ErrorClass.REFUSED, ErrorClass.ACCOUNT, ErrorClass.RATE_LIMITED}
    assert set(ErrorClass) == RETRIED | special
