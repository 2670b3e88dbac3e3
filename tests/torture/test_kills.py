"""The engine is killed with SIGKILL at random moments, again and again, and resumed each time."""

import time
from collections import Counter
from pathlib import Path
from random import Random

from rowcrew.testing import CallTool, Received, Reply
from tests.processes.books import check_books, check_table, check_totals, count_books
from tests.processes.program import REPORT, Program, Running, until
from tests.served import ServerThread
from tests.torture.conftest import Torture
from tests.torture.moments import wait_for_a_moment


def run(program: Program, number: int, rows: int, kills: int, *words: str) -> Running:
    """A new job over so many rows, none of which is ever given up: each comes to its end after the kills."""
    table = program.table(rows, f"in-{number}.csv")
    return program.start(
        "run", table, "-i", f"{number}: do {{text}}", "--id-column", "id", "-o", f"out-{number}.csv",
        "--max-attempts", str(kills + 1), "--progress", "none", *words,
    )  # fmt: skip


def files(program: Program, number: int) -> tuple[Path, Path]:
    """That job's table and its output."""
    return program.folder / f"in-{number}.csv", program.folder / f"out-{number}.csv"


def wait_for_job(program: Program, number: int) -> None:
    """Until that one, counted from 0, is stored."""
    until(lambda: len(program.rows("SELECT 1 FROM agent_jobs")) > number, "the job")


def check_reasons(program: Program, job_id: str) -> None:
    """Nothing else went wrong than the kills, and each of them is named as what it was."""
    reasons = program.rows(
        "SELECT DISTINCT error_class FROM agent_job_attempts WHERE job_id = ? AND outcome <> 'reported'",
        job_id,
    )
    assert {reason for (reason,) in reasons} <= {"crashed"}


def kill_and_resume(program: Program, chance: Random, running: Running, most: int) -> int:
    """Kill and resume until the job has ended by itself or enough kills are done. How many there were."""
    kills = 0
    job_id = program.job_id()
    while kills < most and wait_for_a_moment(program, chance, running):
        running.kill()
        kills += 1
        running = program.start("resume", job_id, "--progress", "none")
    outcome = running.end(600)
    assert outcome.code == 0, outcome.err
    return kills


def test_command_workers_under_kills(program: Program, torture: Torture) -> None:
    wanted = torture.times(3)
    chance, kills, total = torture.random("command workers"), 0, 0
    worker = program.worker(f'sleep "0.0$(( $$ % 9 ))"\n{REPORT}')
    for number in range(10 * wanted):
        program.starts_path.unlink(missing_ok=True)
        # Few rows, so that many kills meet an end; and many.
        rows = chance.choice([20, 60, 400]) if torture.is_long else 30
        total += rows
        running = run(program, number, rows, wanted, "-j", "8", "--worker", worker)
        wait_for_job(program, number)
        done = kill_and_resume(program, chance, running, wanted - kills)
        kills += done
        job_id, table, output = program.job_id(), *files(program, number)
        torture.count(count_books(program, job_id, table, output, starts=len(program.starts())), kills=done)
        check_books(program, job_id, table, output)
        check_reasons(program, job_id)
        if kills >= wanted:
            break
    torture.tell(f"command workers: {kills} kills in {number + 1} jobs of {total} rows")


def test_kills_while_a_job_is_made(program: Program, torture: Torture) -> None:
    """There is no job or a whole one; and what comes next finds nothing in its way."""
    wanted, rows = torture.times(2), 20_000
    chance = torture.random("making")
    table = program.table(rows)
    for number in range(wanted):
        words = ("run", table, "-i", f"{number}: do {{text}}", "--worker", "command:sleep 60", "-j", "1")
        running = program.start(*words, "-o", f"out-{number}.csv")
        time.sleep(chance.uniform(0.2, 1.2))
        running.kill()
    totals = program.rows("SELECT job_id, total FROM agent_job_totals ORDER BY 1")
    counted = program.rows("SELECT job_id, count(*) FROM agent_job_items GROUP BY 1 ORDER BY 1")
    jobs = program.rows("SELECT id, ? FROM agent_jobs ORDER BY 1", rows)
    assert (totals, counted) == (jobs, jobs)
    for job_id, _ in jobs:
        assert program.call("cancel", job_id).code == 0
    assert program.live_workers() == []
    torture.kills += wanted
    torture.tell(f"kills while a job of {rows} rows is made: {wanted}, of which {len(jobs)} left a whole job")


def named_in(received: Received, label: str) -> str:
    """What the worker's prompt says after that label."""
    return next(line for line in received.text.splitlines() if line.startswith(label)).removeprefix(label)


def item_of(received: Received) -> str:
    return named_in(received, "Item ID: ")


def answer(received: Received) -> Reply:
    """The worker's model: report at once, with the row's own id."""
    item_id = item_of(received)
    given = {"job_id": named_in(received, "Job ID: "), "item_id": item_id, "result": {"v": item_id}}
    return Reply(calls=[CallTool("report_agent_job_result", given)], delay=0.05)


def test_agent_workers_under_kills(program: Program, torture: Torture) -> None:
    wanted = torture.times(1)
    chance, kills, total = torture.random("agent workers"), 0, 0
    program.extra["OPENAI_API_KEY"] = "k"
    with ServerThread(answer) as served:
        model = ["-m", "openai-chat:m", "--base-url", served.server.url, "--worker", "agent"]
        for number in range(10 * wanted):
            served.server.requests.clear()
            rows = chance.choice([40, 100, 400]) if torture.is_long else 20
            total += rows
            running = run(program, number, rows, wanted, "-j", "8", *model)
            wait_for_job(program, number)
            done = kill_and_resume(program, chance, running, wanted - kills)
            kills += done
            job_id, table, output = program.job_id(), *files(program, number)
            asked = Counter(item_of(received) for received in served.server.requests)
            torture.count(count_books(program, job_id, table, output, starts=asked.total()), kills=done)
            check_table(table, output)
            check_totals(program, job_id, rows)
            check_reasons(program, job_id)
            _check_requests(program, job_id, rows, asked)
            if kills >= wanted:
                break
    torture.tell(f"agent workers: {kills} kills in {number + 1} jobs of {total} rows")


def _check_requests(program: Program, job_id: str, rows: int, asked: Counter[str]) -> None:
    """Each attempt asks the model once. No request without its attempt; the counts are the attempts."""
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
