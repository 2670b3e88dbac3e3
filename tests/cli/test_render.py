"""What people read about jobs, rows and progress."""

from dataclasses import replace
from typing import Any

import pytest

from rowcrew.cli.render import (
    duration,
    fields,
    item_table,
    item_text,
    job_table,
    job_text,
    next_steps,
    progress_line,
    rows,
    table,
    tally,
)
from rowcrew.domain.attempt import Attempt, AttemptOutcome, Usage
from rowcrew.domain.item import JobItem, JobItemStatus
from rowcrew.domain.job import Job, JobCounts, JobSettings, JobStatus, Lease, PausedReason
from rowcrew.errors import ErrorClass
from rowcrew.processes import ProcessIdentity
from rowcrew.scheduler.progress import Progress
from rowcrew.scheduler.views import JobView

JOB_ID = "1a2b3c4d-0000-4000-8000-000000000000"
NOON = 1_767_268_800_000  # 2026-01-01 12:00:00 UTC


def job(**changes: Any) -> Job:
    return replace(
        Job(
            id=JOB_ID,
            name="reviews",
            status=JobStatus.RUNNING,
            instruction="Do",
            auto_export=True,
            settings=JobSettings(worker="oneshot", model="local"),
            output_schema=None,
            input_headers=("id",),
            input_path="in.csv",
            input_digest="",
            input_size=0,
            output_path="out.csv",
            output_is_ours=False,
            counts=JobCounts(total=10, pending=3, running=2, completed=4, failed=1),
            usage=Usage(requests=5, input_tokens=1200, output_tokens=30),
            paused_reason=None,
            last_error=None,
            lease=None,
            run_started_at_ms=None,
            run_started_done=None,
            created_at_ms=NOON,
            updated_at_ms=NOON,
            started_at_ms=NOON + 1000,
            completed_at_ms=None,
        ),
        **changes,
    )


def view(
    *, active: bool = False, rate: float | None = None, eta: float | None = None, **changes: Any
) -> JobView:
    return JobView(job(**changes), active, rate, eta)


DONE = JobCounts(total=10, pending=0, running=0, completed=9, failed=1)
LEASE = Lease(1, "owner", "host", ProcessIdentity(123, "s", "b"), 0, 0)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.4, "0 s"),
        (59.4, "59 s"),
        (59.6, "1 min 00 s"),
        (61, "1 min 01 s"),
        (3600, "1 h 00 min"),
        (90_000, "25 h 00 min"),
    ],
)
def test_a_time_span_is_said_as_people_say_it(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_counts_of_rows_know_the_singular() -> None:
    assert [rows(count) for count in (0, 1, 2, 1234)] == ["0 rows", "1 row", "2 rows", "1,234 rows"]
    assert tally(DONE) == "9 of 10 rows completed, 1 failed"
    assert tally(JobCounts(1, 1, 0, 0, 0)) == "0 of 1 row completed, 0 failed, 1 left"


def test_a_progress_line_says_what_is_known() -> None:
    progress = Progress(200, 80, 16, 102, 2, 12.34, 61.0, 8.0, "rate limit")
    assert progress_line(progress) == (
        "104/200 rows done, 2 failed, 16 running, 12.3 rows/s, about 1 min 01 s left, waiting: rate limit"
    )
    assert progress_line(Progress(3, 3, 0, 0, 0, None, None, 0.0)) == "0/3 rows done, 0 running"
    assert progress_line(Progress(3, 0, 0, 3, 0, None, 0.0, 1.0)) == "3/3 rows done, 0 running"


def test_a_table_sets_its_columns_side_by_side() -> None:
    assert table(("A", "NUMBER"), [("x", "1"), ("long", "22")], right=frozenset({1})) == (
        "A     NUMBER\nx          1\nlong      22"
    )


def test_fields_without_a_value_are_left_out() -> None:
    assert fields([("a", "1"), ("none", ""), ("b", "2")]) == "  a     1\n  b     2"


def test_the_list_of_jobs_has_a_line_each() -> None:
    views = [view(active=True), view(), view(status=JobStatus.COMPLETED, counts=DONE, name="a\nb\x1b[31m")]
    assert job_table(views) == (
        "JOB       STATUS     ROWS  DONE  FAILED  CREATED           NAME\n"
        "1a2b3c4d  running      10     4       1  2026-01-01 12:00  reviews\n"
        "1a2b3c4d  stopped      10     4       1  2026-01-01 12:00  reviews\n"
        "1a2b3c4d  completed    10     9       1  2026-01-01 12:00  a b\\x1b[31m"
    )


def test_a_running_job_in_full() -> None:
    assert job_text(view(active=True, rate=2.5, eta=2.0, lease=LEASE)) == (
        f"Job {JOB_ID} (reviews)\n"
        "  status     running\n"
        "  rows       10 = 4 completed + 1 failed + 2 running + 3 pending\n"
        "  progress   50 %, 2.5 rows/s, about 2 s left\n"
        "  runner     process 123 on host\n"
        "  worker     oneshot, model local\n"
        "  input      in.csv\n"
        "  output     out.csv\n"
        "  created    2026-01-01 12:00:00 UTC\n"
        "  started    2026-01-01 12:00:01 UTC\n"
        "  usage      5 requests, 1,200 tokens in, 30 out"
    )


def test_a_paused_job_says_why() -> None:
    text = job_text(
        view(status=JobStatus.PAUSED, paused_reason=PausedReason.ACCOUNT, last_error="no \x1b[1mcredit")
    )
    assert "  status     paused (account)\n" in text
    assert "  said       no \\x1b[1mcredit\n" in text


def test_a_job_whose_process_is_gone_says_so() -> None:
    assert "  status     stopped: it was running, and its process is gone\n" in job_text(view())


RESUME = "Go on with: rowcrew resume 1a2b3c4d"
RETRY = "Run the failed rows again with: rowcrew retry 1a2b3c4d"
LOOK = "Look at them with: rowcrew show 1a2b3c4d"


@pytest.mark.parametrize(
    ("shown", "steps"),
    [
        (view(active=True), ["Watch it with: rowcrew status 1a2b3c4d --follow"]),
        (view(), [RESUME, RETRY, LOOK]),
        (view(status=JobStatus.COMPLETED, counts=DONE), [RETRY, LOOK]),
        (view(status=JobStatus.COMPLETED, counts=JobCounts(9, 0, 0, 9, 0)), []),
        (view(status=JobStatus.CANCELLED, counts=JobCounts(9, 1, 0, 8, 0)), [RESUME]),
        (
            view(
                status=JobStatus.PAUSED,
                paused_reason=PausedReason.ACCOUNT,
                counts=JobCounts(9, 1, 0, 8, 0),
            ),
            ["Put the key or the credit right, then go on with: rowcrew resume 1a2b3c4d"],
        ),
        (
            view(status=JobStatus.PAUSED, paused_reason=PausedReason.USER, counts=JobCounts(9, 1, 0, 8, 0)),
            [RESUME],
        ),
        (
            view(status=JobStatus.FAILED, counts=JobCounts(9, 0, 0, 9, 0)),
            ["Write its table elsewhere with: rowcrew export 1a2b3c4d -o PATH"],
        ),
    ],
)
def test_each_state_says_what_to_type_next(shown: JobView, steps: list[str]) -> None:
    assert next_steps(shown) == steps


def item(**changes: Any) -> JobItem:
    return replace(
        JobItem(
            job_id=JOB_ID,
            item_id="a1",
            row_index=0,
            source_id="a1",
            row={"id": "a1", "text": "two\nlines"},
            status=JobItemStatus.COMPLETED,
            assigned_thread_id=None,
            attempt_count=2,
            result_json='{"ok":"ü"}',
            last_error=None,
            error_class=None,
            not_before_at_ms=0,
            created_at_ms=NOON,
            updated_at_ms=NOON,
            completed_at_ms=NOON + 5000,
            reported_at_ms=NOON + 5000,
        ),
        **changes,
    )


def attempt(**changes: Any) -> Attempt:
    return replace(
        Attempt(
            job_id=JOB_ID,
            item_id="a1",
            number=1,
            thread_id="abcdefgh-1",
            started_at_ms=NOON,
            ended_at_ms=NOON + 2000,
            outcome=AttemptOutcome.FAILED,
            counted=True,
            error_class=ErrorClass.INVALID_RESULT,
            error="bad\x07",
            raw_answer="not {json",
            usage=Usage(),
        ),
        **changes,
    )


def test_a_job_item_shows_its_row_attempts_and_result() -> None:
    second = attempt(
        number=2,
        ended_at_ms=None,
        outcome=AttemptOutcome.REPORTED,
        error_class=None,
        error=None,
        raw_answer=None,
    )
    assert item_text(item(), [attempt(), second]) == (
        f"Job item a1 of job {JOB_ID}\n"
        "  status    completed\n"
        "  reported  2026-01-01 12:00:05 UTC\n"
        "Row\n"
        "  id    a1\n"
        "  text  two lines\n"
        "Attempts\n"
        "  #  OUTCOME   CLASS           STARTED                  TOOK  THREAD    ERROR\n"
        "  1  failed    invalid_result  2026-01-01 12:00:00 UTC   2 s  abcdefgh  bad\\x07\n"
        "  2  reported                  2026-01-01 12:00:00 UTC        abcdefgh\n"
        "Last answer that could not be used\n"
        "  not {json\n"
        "Result\n"
        "  {\n"
        '    "ok": "ü"\n'
        "  }"
    )


def test_job_items_in_a_table_show_the_result_or_the_error() -> None:
    failed = item(status=JobItemStatus.FAILED, result_json=None, last_error="broke\nbadly", item_id="b")
    assert item_table([item(), failed]) == (
        "ITEM  STATUS     TRIES  RESULT OR ERROR\n"
        'a1    completed      2  {"ok":"ü"}\n'
        "b     failed         2  broke badly"
    )
