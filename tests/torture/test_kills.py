"""The engine is killed with SIGKILL at random moments, again and again, and resumed each time."""

import time
from collections import Counter

from rowcrew.testing import CallTool, Received, Reply
from tests.processes.books import Books, check_books, check_table, check_totals
from tests.processes.program import REPORT, Program, Running, until
from tests.served import ServerThread
from tests.torture.conftest import Torture

# So many that no row is ever given up: what is tested is that each comes to its end.
ATTEMPTS = "1000000"


def run(program: Program, number: int, rows: int, *words: str) -> Running:
    """A new job over so many rows."""
    table = program.table(rows, f"in-{number}.csv")
    return program.start(
        "run", table, "-i", f"{number}: do {{text}}", "--id-column", "id", "-o", f"out-{number}.csv",
        "--max-attempts", ATTEMPTS, "--progress", "none", *words,
    )  # fmt: skip


def wait_for_job(program: Program, number: int) -> None:
    """Until that one, counted from 0, is stored."""
    until(lambda: len(program.rows("SELECT 1 FROM agent_jobs")) > number, "the job")


def kill_and_resume(program: Program, torture: Torture, running: Running, *, longest: float) -> int:
    """Kill and resume until the job has ended by itself or enough kills are done. How many there were."""
    chance = torture.random(f"kills {len(program.calls)}")
    kills = 0
    job_id = program.job_id()
    while kills < torture.kills:
        ends_at = time.monotonic() + chance.uniform(0.05, longest)
        while time.monotonic() < ends_at and running.process.poll() is None:
            time.sleep(0.01)
        if running.process.poll() is not None:
            break
        running.kill()
        kills += 1
        running = program.start("resume", job_id, "--progress", "none")
    outcome = running.end(600)
    assert outcome.code == 0, outcome.err
    return kills


def test_command_workers_under_kills(program: Program, torture: Torture) -> None:
    rows = 600 if torture.is_long else 40
    worker = program.worker(f'sleep "0.0$(( $$ % 9 ))"\n{REPORT}')
    kills, books = 0, Books()
    for number in range(100):
        program.starts_path.unlink(missing_ok=True)
        running = run(program, number, rows, "-j", "8", "--worker", worker)
        wait_for_job(program, number)
        kills += kill_and_resume(program, torture, running, longest=1.2)
        books += check_books(
            program,
            program.job_id(),
            program.folder / f"in-{number}.csv",
            program.folder / f"out-{number}.csv",
        )
        if kills >= torture.kills:
            break
    torture.tell(f"command workers: {kills} kills, {books}")


def answer(received: Received) -> Reply:
    """The worker's model: report at once, with the row's own id."""
    lines = received.text.splitlines()
    job_id, item_id = (
        next(line for line in lines if line.startswith(label)).removeprefix(label)
        for label in ("Job ID: ", "Item ID: ")
    )
    given = {"job_id": job_id, "item_id": item_id, "result": {"v": item_id}}
    return Reply(calls=[CallTool("report_agent_job_result", given)], delay=0.05)


def test_agent_workers_under_kills(program: Program, torture: Torture) -> None:
    rows = 2000 if torture.is_long else 60
    program.extra["OPENAI_API_KEY"] = "k"
    kills, books = 0, Books()
    with ServerThread(answer) as served:
        model = ["-m", "openai-chat:m", "--base-url", served.server.url, "--worker", "agent"]
        for number in range(100):
            served.server.requests.clear()
            running = run(program, number, rows, "-j", "8", *model)
            wait_for_job(program, number)
            kills += kill_and_resume(program, torture, running, longest=3.5)
            job_id = program.job_id()
            check_table(program.folder / f"in-{number}.csv", program.folder / f"out-{number}.csv")
            check_totals(program, job_id, rows)
            books += _check_requests(program, job_id, rows, served.server.requests)
            if kills >= torture.kills:
                break
    torture.tell(f"agent workers: {kills} kills, {books}")


def _check_requests(program: Program, job_id: str, rows: int, requests: list[Received]) -> Books:
    """Each attempt asks the model once. No request without its attempt; the counts are the attempts."""
    asked = Counter(
        line.removeprefix("Item ID: ")
        for received in requests
        for line in received.text.splitlines()
        if line.startswith("Item ID: ")
    )
    attempts = program.rows(
        "SELECT item_id, outcome, counted FROM agent_job_attempts WHERE job_id = ?", job_id
    )
    stored = Counter(item_id for item_id, _, _ in attempts)
    assert {item_id: count for item_id, count in asked.items() if count > stored[item_id]} == {}
    reported = Counter(item_id for item_id, outcome, _ in attempts if outcome == "reported")
    assert (len(reported), set(reported.values())) == (rows, {1})
    assert [outcome for _, outcome, _ in attempts if outcome == "running"] == []
    counted = Counter(item_id for item_id, _, counted in attempts if counted)
    assert dict(counted) == dict(
        program.rows("SELECT item_id, attempt_count FROM agent_job_items WHERE job_id = ?", job_id)
    )
    return Books(rows, asked.total(), len(attempts))
