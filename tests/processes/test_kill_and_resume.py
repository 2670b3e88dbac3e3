"""The whole engine is killed with SIGKILL at work; `resume` goes on. Nothing is lost, doubled or left."""

import os
import random
import signal

from tests.processes.books import check_books, read
from tests.processes.program import REPORT, Program, Running, until

# The first attempt never ends, the next ones report.
HANG_AT_FIRST = f'[ "$ROWCREW_ATTEMPT" = 1 ] && exec sleep 600\n{REPORT}'


def run_job(program: Program, worker: str, rows: int, *words: str) -> Running:
    table = program.table(rows)
    return program.start(
        "run", table, "-i", "do {text}", "--id-column", "id", "-o", "out.csv", "--worker", worker, *words
    )


def test_after_kills_at_random_moments_every_row_is_there_once(program: Program) -> None:
    chance = random.Random(7)
    running = run_job(program, program.worker(f"sleep 0.05\n{REPORT}"), 80, "-j", "8", "--max-attempts", "99")
    job_id = program.job_id()
    for round_ in range(5):
        wanted = 12 * round_ + chance.randrange(12)
        until(
            lambda wanted=wanted, running=running: (
                program.counts().get("completed", 0) >= wanted or running.process.poll() is not None
            ),
            f"{wanted} rows to be done",
        )
        running.kill()
        running = program.start("resume", job_id)
    assert running.end().code == 0
    check_books(program, job_id, program.folder / "in.csv", program.folder / "out.csv")


def test_workers_that_outlive_the_engine_are_ended_before_their_rows_run_again(program: Program) -> None:
    running = run_job(program, program.worker(HANG_AT_FIRST), 4, "-j", "4")
    until(lambda: len(program.starts()) == 4, "all workers to run")
    running.kill()
    orphans = program.live_workers()
    assert len(orphans) >= 4
    assert program.counts() == {"running": 4}
    outcome = program.call("resume", "--json")
    assert outcome.code == 0
    assert [document["type"] for document in outcome.documents][:: len(outcome.documents) - 1] == [
        "job.started",
        "job.finished",
    ]
    assert set(orphans) & set(program.live_workers()) == set()
    check_books(program, program.job_id(), program.folder / "in.csv", program.folder / "out.csv")
    assert program.rows("SELECT DISTINCT attempt_count FROM agent_job_items") == [(2,)]
    assert (
        program.rows("SELECT error_class, error FROM agent_job_attempts WHERE number = 1")
        == [("crashed", "the engine was killed while this attempt ran")] * 4
    )


def test_workers_that_have_reported_and_stay_are_ended_after_a_crash_too(program: Program) -> None:
    body = f'{REPORT}\n[ "$ROWCREW_ITEM_ID" = r7 ] || exec sleep 600'
    running = run_job(
        program, program.worker(f'[ "$ROWCREW_ITEM_ID" = r7 ] && sleep 2\n{body}'), 8, "-j", "2"
    )
    until(lambda: program.counts().get("completed", 0) >= 2, "two reports")
    running.kill()
    reported = {
        row[0] for row in program.rows("SELECT pid FROM agent_job_attempts WHERE outcome = 'reported'")
    }
    assert reported & set(program.live_workers())
    assert program.call("resume").code == 0
    assert program.live_workers() == []


def test_a_row_that_was_running_in_its_last_attempt_is_failed_as_crashed(program: Program) -> None:
    running = run_job(program, program.worker(HANG_AT_FIRST), 2, "-j", "1", "--max-attempts", "1")
    until(lambda: program.starts(), "a worker to run")
    running.kill()
    # The other row, in its own first and only attempt, would hang for ever.
    program.worker(REPORT)
    outcome = program.call("resume")
    assert outcome.code == 100
    assert program.rows("SELECT item_id, status, error_class FROM agent_job_items ORDER BY row_index") == [
        ("r0", "failed", "crashed"),
        ("r1", "completed", None),
    ]


def test_resume_needs_the_input_file_no_more(program: Program) -> None:
    running = run_job(program, program.worker(HANG_AT_FIRST), 3, "-j", "3")
    until(lambda: len(program.starts()) == 3, "all workers to run")
    running.kill()
    given = read(program.folder / "in.csv")
    (program.folder / "in.csv").unlink()
    outcome = program.call("resume")
    assert outcome.code == 0
    assert outcome.err.count("is gone or has changed") == 1
    assert [row["text"] for row in read(program.folder / "out.csv")] == [row["text"] for row in given]


def test_a_worker_whose_engine_died_before_the_attempt_was_stored_never_runs(program: Program) -> None:
    """Stopped and killed at many moments of many starts: no run without its attempt in the store."""
    chance = random.Random(11)
    running = run_job(program, program.worker(REPORT), 400, "-j", "16", "--max-attempts", "99")
    job_id = program.job_id()
    for _ in range(4):
        seen = len(program.starts())
        until(
            lambda seen=seen, running=running: (
                len(program.starts()) > seen + 5 or running.process.poll() is not None
            ),
            "a few starts",
        )
        for _ in range(chance.randrange(2000)):
            os.getpid()
        running.signal(signal.SIGSTOP)
        running.kill()
        running = program.start("resume", job_id)
    assert running.end().code == 0
    check_books(program, job_id, program.folder / "in.csv", program.folder / "out.csv")
