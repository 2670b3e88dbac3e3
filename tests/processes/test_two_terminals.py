"""A job runs in one process; others look at it, steer it, or want to run it too."""

import json
import os
import signal
import socket
import time

import pytest

from tests.processes.books import check_books, read
from tests.processes.program import REPORT, Program, Running, until

# Every row waits for the gate file, so that a test says when they end; r0 does not wait.
GATED = f'[ "$ROWCREW_ITEM_ID" = r0 ] || while [ ! -e gate ]; do sleep 0.02; done\n{REPORT}'


def run_gated(program: Program, *words: str, rows: int = 6) -> Running:
    running = program.start(
        "run", program.table(rows), "-i", "do {text}", "--id-column", "id", "-o", "out.csv", "-j", "3",
        "--worker", program.worker(GATED), *words,
    )  # fmt: skip
    until(lambda: program.counts().get("completed") == 1 and len(program.starts()) == 4, "three to wait")
    return running


def test_a_second_resume_is_refused_and_names_the_owner(program: Program) -> None:
    running = run_gated(program)
    refused = program.call("resume")
    assert refused.code == 75
    assert f"in process {running.process.pid} on {socket.gethostname()}" in refused.err
    assert "--follow" in refused.err
    follower = program.start("status", "--follow", "--json")
    until(lambda: follower.out, "the follower to see it")
    (program.folder / "gate").touch()
    assert running.end().code == 0
    followed = follower.end()
    assert followed.code == 0
    kinds = [document["type"] for document in followed.documents]
    assert (kinds[0], kinds[-1]) == ("job.started", "job.finished")
    assert set(kinds[1:-1]) == {"job.progress"}
    check_books(program, program.job_id(), program.folder / "in.csv", program.folder / "out.csv")


@pytest.mark.parametrize(("verb", "status"), [("cancel", "cancelled"), ("pause", "paused")])
def test_another_process_stops_it_within_the_grace_time(program: Program, verb: str, status: str) -> None:
    running = run_gated(program)
    began = time.monotonic()
    stopped = program.call(verb, program.job_id()[:6], "--json")
    assert stopped.code == 0
    shown = json.loads(stopped.out)
    assert (shown["status"], shown["runner_active"], shown["running_items"]) == (status, False, 0)
    assert running.end().code == 75
    # The grace time is 5 s, noticing takes at most one; the rest is this machine's.
    assert time.monotonic() - began < 15
    assert program.live_workers() == []
    assert program.counts() == {"completed": 1, "pending": 5}
    assert [row["status"] for row in read(program.folder / "out.csv")] == ["completed"] + ["pending"] * 5
    assert program.call(verb, program.job_id()).code == 0
    assert program.call("cancel" if verb == "pause" else "pause", program.job_id()).code in (0, 1)


def test_export_takes_the_table_as_it_stands_while_it_runs(program: Program) -> None:
    running = run_gated(program)
    part = program.call("export", "-o", "part.csv", "--json")
    assert (part.code, json.loads(part.out)["row_count"]) == (0, 6)
    assert [row["status"] for row in read(program.folder / "part.csv")] == [
        "completed", *["running"] * 3, *["pending"] * 2,
    ]  # fmt: skip
    assert program.call("export", "-o", "part.csv").code == 2
    assert program.call("rm", program.job_id(), "--yes").code == 75
    (program.folder / "gate").touch()
    assert running.end().code == 0
    assert [row["status"] for row in read(program.folder / "out.csv")] == ["completed"] * 6


def test_the_same_run_again_is_told_to_resume(program: Program) -> None:
    running = run_gated(program, "--no-export")
    (program.folder / "gate").touch()
    running.end()
    # The unfinished one: stopped before its rows were done.
    (program.folder / "gate").unlink()
    words = ("run", "in.csv", "-i", "again {text}", "--worker", program.worker(GATED), "-j", "2")
    running = program.start(*words)
    until(lambda: program.counts().get("running") == 2, "rows to run")
    running.signal(signal.SIGINT)
    assert running.end().code == 130
    again = program.call(*words)
    assert again.code == 75
    assert f"rowcrew resume {program.job_id()[:8]}" in again.err
    other = program.call(*words[:4], "--worker", "command:true", "-o", "out.csv")
    assert (other.code, other.out) == (100, "")
    (program.folder / "gate").touch()
    assert program.call(*words, "--new").code == 0
    assert len(program.rows("SELECT id FROM agent_jobs")) == 4


def test_two_jobs_for_one_output_are_refused(program: Program) -> None:
    running = run_gated(program)
    other = program.call("run", "in.csv", "-i", "other {text}", "--worker", "command:true", "-o", "out.csv")
    assert other.code == 2
    assert program.job_id()[:8] in other.err
    assert len(program.rows("SELECT id FROM agent_jobs")) == 1
    running.signal(signal.SIGTERM)
    assert running.end().code == 143


def test_an_owner_that_slept_past_its_lease_writes_nothing_more(program: Program) -> None:
    running = run_gated(program)
    until(lambda: running.err, "it to be under way")
    os.killpg(running.process.pid, signal.SIGSTOP)
    assert program.call("resume").code == 75
    # As if it had slept for long: its heartbeat is old by the machine's clock.
    program.rows("UPDATE agent_jobs SET lease_heartbeat_up_ms = lease_heartbeat_up_ms - 60000")
    (program.folder / "gate").touch()
    assert program.call("resume").code == 0
    books = check_books(program, program.job_id(), program.folder / "in.csv", program.folder / "out.csv")
    before = (_everything(program), (program.folder / "out.csv").stat().st_ino)
    running.signal(signal.SIGCONT)
    woken = running.end()
    assert woken.code == 75
    assert "another process runs job" in woken.err
    assert (_everything(program), (program.folder / "out.csv").stat().st_ino) == before
    assert books.starts == 9


def _everything(program: Program) -> list[list[tuple[object, ...]]]:
    tables = ("agent_jobs", "agent_job_items", "agent_job_attempts", "agent_job_totals")
    return [program.rows(f"SELECT * FROM {table} ORDER BY 1, 2") for table in tables]


def test_what_a_dead_owner_left_can_be_cancelled_without_resuming(program: Program) -> None:
    running = run_gated(program)
    running.kill()
    assert program.call("wait", "--timeout", "30").code == 75
    stopped = program.call("cancel", program.job_id())
    assert stopped.code == 0
    assert program.live_workers() == []
    assert program.counts() == {"completed": 1, "pending": 5}
    assert [row["status"] for row in read(program.folder / "out.csv")] == ["completed"] + ["pending"] * 5
    (program.folder / "gate").touch()
    assert program.call("resume", program.job_id()).code == 0
    assert program.counts() == {"completed": 6}
