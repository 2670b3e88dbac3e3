"""Exit codes: every error class has one, and each end of a job."""

import inspect

import pytest

from rowcrew import errors
from rowcrew.cli.exits import ENDINGS, Ending, code_of_job, ending_of


def test_every_error_class_has_an_exit_code() -> None:
    classes = {
        value
        for _, value in inspect.getmembers(errors, inspect.isclass)
        if issubclass(value, errors.RowcrewError)
    }
    assert set(ENDINGS) == classes


def test_every_ending_says_what_to_do_next() -> None:
    assert [kind for kind, ending in ENDINGS.items() if ending.code == 0 or not ending.hint] == []


def test_an_errors_own_hint_wins_over_the_one_of_its_class() -> None:
    assert ending_of(errors.InvalidRequest("x", hint="mend it")) == Ending(2, "mend it")
    assert ending_of(errors.InvalidRequest("x")) == ENDINGS[errors.InvalidRequest]


def test_a_class_without_an_entry_ends_as_its_parent() -> None:
    class Odd(errors.StoreBusy):
        pass

    assert ending_of(Odd("x")) == ENDINGS[errors.StoreBusy]


@pytest.mark.parametrize(
    ("state", "code"),
    [
        ("running", 75),
        ("running_elsewhere", 75),
        (None, 75),
        ("completed", 1),
        ("failed", 1),
        ("cancelled", 1),
    ],
)
def test_a_conflict_is_to_be_tried_again_unless_the_job_is_over(state: str | None, code: int) -> None:
    assert ending_of(errors.Conflict("x", state=state)).code == code


@pytest.mark.parametrize(
    ("status", "failed", "code"),
    [
        ("completed", 0, 0),
        ("completed", 2, 100),
        ("failed", 2, 1),
        ("cancelled", 0, 75),
        ("paused", 2, 75),
        ("running", 0, 75),
        ("pending", 0, 75),
    ],
)
def test_each_end_of_a_job_has_its_code(status: str, failed: int, code: int) -> None:
    assert code_of_job(status, failed) == code
