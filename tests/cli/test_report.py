"""report: what is refused before the engine is asked, and what the engine refuses."""

import io
import sys
from typing import Any

import pytest

Desk = Any  # the fixture's class lives in conftest.py, which is no module to import from


def test_without_a_worker_around_it_a_report_says_what_is_missing(desk: Desk) -> None:
    called = desk.rowcrew("report", "{}")
    assert (called.code, called.out) == (2, "")
    assert called.err.startswith("Error: there is no job to report for\nHint: ")


@pytest.mark.parametrize("result", ["[1]", "nonsense", '{"x": NaN}', "Here it is: {}"])
def test_what_is_no_json_object_is_not_accepted(desk: Desk, result: str) -> None:
    called = desk.rowcrew("report", result, "--job", "a", "--item", "b", "--thread", "c")
    assert (called.code, called.json["accepted"]) == (1, False)
    assert called.json["reason"] != ""


def test_bytes_that_are_no_text_are_not_accepted(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b'{"x": "\xff"}')))
    called = desk.rowcrew("report", "-", "--job", "a", "--item", "b", "--thread", "c")
    assert (called.code, called.json) == (
        1,
        {"accepted": False, "reason": "the result is not UTF-8 text (byte 7)"},
    )


def test_a_report_for_a_row_that_is_done_is_not_accepted(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.run()
    job_id = desk.jobs()[0]["job_id"]
    for name, value in (("JOB_ID", job_id), ("ITEM_ID", "a1"), ("THREAD_ID", "t")):
        monkeypatch.setenv(f"ROWCREW_{name}", value)
    called = desk.rowcrew("report", '{"x": 1}')
    assert (called.code, called.json["accepted"]) == (1, False)
    assert called.err == "The report was not accepted. Reporting it again will not help: end here.\n"


def test_a_report_for_an_unknown_job_is_refused(desk: Desk) -> None:
    called = desk.rowcrew("report", "{}", "--job", "abc", "--item", "b", "--thread", "c")
    assert (called.code, called.out) == (2, "")
