"""Signals to the command at work: what it says, how soon and how it ends, and what is kept."""

import signal
import time

import pytest

from tests.processes.program import REPORT, Program, Running, until

# The first row reports, the others hang; `deaf` ones through SIGTERM too.
HANG = f'if [ "$ROWCREW_ITEM_ID" = r0 ]; then\n{REPORT}\nelse\n{{deaf}}sleep 600 & wait\nfi'


def run_hanging(program: Program, *, deaf: bool = False) -> Running:
    body = HANG.replace("{deaf}", "trap '' TERM; " if deaf else "")
    running = program.start(
        "run", program.table(6), "-i", "do {text}", "--id-column", "id", "-o", "out.csv", "-j", "3",
        "--worker", program.worker(body),
    )  # fmt: skip
    until(lambda: program.counts().get("completed") == 1 and len(program.starts()) == 4, "three to hang")
    until(lambda: "rows done" in running.err, "progress to be shown")
    return running


def check_kept(program: Program) -> None:
    assert program.live_workers() == []
    assert program.rows("SELECT status, paused_reason, lease_owner FROM agent_jobs") == [
        ("paused", "interrupted", None)
    ]
    items = program.rows("SELECT item_id, status, attempt_count FROM agent_job_items ORDER BY row_index")
    assert items == [("r0", "completed", 1), *((f"r{number}", "pending", 0) for number in range(1, 6))]
    ended = program.rows("SELECT outcome, counted, count(*) FROM agent_job_attempts GROUP BY 1, 2")
    assert ended == [("released", 0, 3), ("reported", 1, 1)]


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 143)]
)
def test_one_signal_says_so_at_once_and_leaves_the_rows_as_if_they_had_not_begun(
    program: Program, number: signal.Signals, code: int
) -> None:
    running = run_hanging(program)
    running.signal(number)
    resume = f"rowcrew resume {program.job_id()[:8]}"
    until(lambda: "Interrupted" in running.err.rpartition("rows done")[2], "a sentence")
    assert resume in running.err.rpartition("Interrupted")[2]
    outcome = running.end()
    assert outcome.code == code
    assert resume in outcome.err.splitlines()[-1]
    check_kept(program)
    # And on it goes, with all attempts still to be had.
    program.worker(REPORT)
    assert program.call("resume").code == 0
    assert program.rows("SELECT DISTINCT attempt_count, status FROM agent_job_items") == [(1, "completed")]


def test_workers_that_do_not_listen_are_ended_after_the_grace_time(program: Program) -> None:
    running = run_hanging(program, deaf=True)
    began = time.monotonic()
    running.signal(signal.SIGINT)
    assert running.end().code == 130
    # They had their 5 seconds.
    assert time.monotonic() - began > 4
    check_kept(program)


def test_a_second_signal_ends_them_at_once(program: Program) -> None:
    running = run_hanging(program, deaf=True)
    began = time.monotonic()
    running.signal(signal.SIGINT)
    until(lambda: "Interrupted" in running.err, "the first sentence")
    running.signal(signal.SIGINT)
    outcome = running.end()
    assert outcome.code == 130
    assert "Ending at once" in outcome.err
    assert time.monotonic() - began < 5
    check_kept(program)


def test_a_third_signal_leaves_what_a_crash_would_leave(program: Program) -> None:
    running = run_hanging(program, deaf=True)
    while running.process.poll() is None:
        running.signal(signal.SIGINT)
    assert running.end().code == 130
    program.worker(REPORT)
    assert program.call("resume").code == 0
    assert program.counts() == {"completed": 6}
    assert program.live_workers() == []


def test_a_signal_before_the_first_row_leaves_no_job_or_a_whole_one(program: Program) -> None:
    table = program.table(30_000)
    running = program.start("run", table, "-i", "do {text}", "--worker", program.worker(REPORT))
    until(lambda: (program.home / "state_1.sqlite").exists() or running.process.poll() is not None, "home")
    running.signal(signal.SIGINT)
    outcome = running.end()
    assert outcome.code in (130, -signal.SIGINT)
    assert "Traceback" not in outcome.err
    rows = program.rows("SELECT total, (SELECT count(*) FROM agent_job_items) FROM agent_job_totals")
    assert rows in ([], [(30_000, 30_000)])


def test_an_interrupted_run_in_json_is_json_to_the_end(program: Program) -> None:
    running = program.start(
        "run", program.table(3), "-i", "do {text}", "--json", "--worker", program.worker("sleep 600")
    )
    until(lambda: len(program.starts()) == 3, "workers")
    running.signal(signal.SIGINT)
    outcome = running.end()
    assert outcome.code == 130
    last = outcome.documents[-1]
    assert (last["type"], last["status"], last["total_items"], last["completed_items"]) == (
        "job.finished",
        "paused",
        3,
        0,
    )
