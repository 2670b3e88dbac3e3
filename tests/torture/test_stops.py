"""Owners that sleep past their lease while another takes over, and wake: the old one writes nothing."""

import signal
import time
from pathlib import Path

import apsw

from tests.processes.books import check_books, count_books
from tests.processes.program import REPORT, Program, Running, until
from tests.torture.conftest import Torture
from tests.torture.moments import wait_for_a_moment


def stop(program: Program, running: Running) -> bool:
    """Put it to sleep for a minute, as its lease has it. False where it has ended before."""
    while running.process.poll() is None:
        running.signal(signal.SIGSTOP)
        until(lambda: _state(running.process.pid) in "TZ", "it to sleep")
        if _state(running.process.pid) == "T" and _age_the_lease(program):
            return True
        # It fell asleep in the midst of a write: nobody can write until it wakes.
        running.signal(signal.SIGCONT)
        time.sleep(0.01)
    return False


def _state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def _age_the_lease(program: Program) -> bool:
    connection = apsw.Connection(str(program.home / "state_1.sqlite"))
    try:
        connection.execute("UPDATE agent_jobs SET lease_heartbeat_up_ms = lease_heartbeat_up_ms - 60000")
    except apsw.BusyError:
        return False
    finally:
        connection.close()
    return True


def winner(one: Running, other: Running) -> Running:
    """The one that goes on with the job. The other one ends, and says why."""
    until(lambda: None not in (one.process.poll(), other.process.poll()) or _loser(one, other), "a loser")
    loser = _loser(one, other)
    if loser is None:  # the job was done meanwhile, and there was nothing to lose
        return other
    lost = ("another process runs job", "is running already, in process")
    assert any(words in loser.err for words in lost), loser.err
    return other if loser is one else one


def _loser(one: Running, other: Running) -> Running | None:
    return next((running for running in (one, other) if running.process.poll() == 75), None)


def test_owners_that_sleep_past_their_lease(program: Program, torture: Torture) -> None:
    wanted = torture.times(2)
    rows = 200 * wanted if torture.is_long else 60
    chance, stops = torture.random("stops"), 0
    worker = program.worker(f'sleep "0.0$(( $$ % 9 ))"\n{REPORT}')
    running = program.start(
        "run", program.table(rows), "-i", "do {text}", "--id-column", "id", "-o", "out.csv", "-j", "4",
        "--max-attempts", str(2 * wanted + 1), "--worker", worker, "--progress", "none",
    )  # fmt: skip
    job_id = program.job_id()
    while stops < wanted:
        wait_for_a_moment(program, chance, running)
        if not stop(program, running):
            break
        stops += 1
        other = program.start("resume", job_id, "--progress", "none")
        # It wakes before the other takes over, while it does, or in the midst of the other's work.
        wait_for_a_moment(program, chance, other)
        running.signal(signal.SIGCONT)
        running = winner(running, other)
    outcome = running.end(600)
    assert outcome.code == 0, outcome.err
    table, output = program.folder / "in.csv", program.folder / "out.csv"
    torture.count(count_books(program, job_id, table, output, starts=len(program.starts())), kills=0)
    check_books(program, job_id, table, output)
    torture.tell(f"owners put to sleep past their lease and woken: {stops}")
