"""The books of a job after whatever happened: is every row there once, is what is told of it true?"""

import csv
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from tests.processes.program import Program


@dataclass(frozen=True)
class Books:
    """What was found. `starts`: runs of the worker program; `attempts`: what the store has of them."""

    rows: int
    starts: int
    attempts: int
    lost: int
    doubled: int
    leftover: int


def check_books(program: Program, job_id: str, table: Path, output: Path) -> Books:
    """Compare input, output, store and what the workers themselves wrote down. Raises AssertionError."""
    given, written = read(table), read(output)
    assert [row["id"] for row in written] == [row["id"] for row in given]
    assert [{name: row[name] for name in given[0]} for row in written] == given
    results = {row["id"]: row["result_json"] for row in written}
    assert results == {row["id"]: f'{{"v":"{row["id"]}"}}' for row in given}
    _check_totals(program, job_id, len(given))
    starts, attempts = _check_attempts(program, job_id)
    leftover = program.live_workers()
    assert leftover == []
    return Books(len(given), starts, attempts, 0, 0, 0)


def read(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def _check_totals(program: Program, job_id: str, total: int) -> None:
    kept = program.rows(
        "SELECT total, pending, running, completed, failed FROM agent_job_totals WHERE job_id = ?", job_id
    )
    assert kept == [(total, 0, 0, total, 0)]
    counted = program.rows(
        "SELECT status, count(*) FROM agent_job_items WHERE job_id = ? GROUP BY status", job_id
    )
    assert counted == [("completed", total)]


def _check_attempts(program: Program, job_id: str) -> tuple[int, int]:
    """No run of a worker without its attempt, none twice, one report a row, and the counts are the truth."""
    attempts = program.rows(
        "SELECT item_id, thread_id, outcome, counted FROM agent_job_attempts WHERE job_id = ?", job_id
    )
    starts = program.starts()
    threads = Counter(thread for _, _, thread, _ in starts)
    assert [thread for thread, times in threads.items() if times > 1] == []
    stored = {(item_id, thread_id) for item_id, thread_id, _, _ in attempts}
    assert {(item_id, thread) for item_id, _, thread, _ in starts} - stored == set()
    reported = [(item_id, thread_id) for item_id, thread_id, outcome, _ in attempts if outcome == "reported"]
    assert Counter(Counter(item_id for item_id, _ in reported).values()).keys() <= {1}
    assert set(reported) - {(item_id, thread) for item_id, _, thread, _ in starts} == set()
    assert [outcome for _, _, outcome, _ in attempts if outcome == "running"] == []
    counted = Counter(item_id for item_id, _, _, counted in attempts if counted)
    kept = program.rows("SELECT item_id, attempt_count FROM agent_job_items WHERE job_id = ?", job_id)
    assert dict(kept) == dict(counted)
    return len(starts), len(attempts)
