"""The books of a job after whatever happened: is every row there once, is what is told of it true?"""

import csv
from collections import Counter
from dataclasses import astuple, dataclass
from pathlib import Path

from tests.processes.program import Program


@dataclass(frozen=True)
class Books:
    """What was found. `starts`: what workers did; `attempts`: what the store has of it."""

    rows: int = 0
    starts: int = 0
    attempts: int = 0
    lost: int = 0
    doubled: int = 0
    leftover: int = 0

    def __add__(self, other: "Books") -> "Books":
        return Books(*(mine + theirs for mine, theirs in zip(astuple(self), astuple(other), strict=True)))

    def __str__(self) -> str:
        return (
            f"{self.lost} of {self.rows} rows lost, {self.doubled} reported twice,"
            f" {self.leftover} leftover processes, {self.starts} starts in {self.attempts} attempts"
        )


def count_books(program: Program, job_id: str, table: Path, output: Path, *, starts: int) -> Books:
    """What is there, whether it is right or not."""
    given = {row["id"] for row in read(table)}
    written = {row["id"] for row in read(output) if row["result_json"]} if output.exists() else set()
    attempts = program.rows("SELECT item_id, outcome FROM agent_job_attempts WHERE job_id = ?", job_id)
    reports = Counter(item_id for item_id, outcome in attempts if outcome == "reported")
    return Books(
        rows=len(given),
        starts=starts,
        attempts=len(attempts),
        lost=len(given - written),
        doubled=sum(1 for times in reports.values() if times > 1),
        leftover=len(program.live_workers()),
    )


def check_books(program: Program, job_id: str, table: Path, output: Path) -> Books:
    """Compare input, output, store and what the workers themselves wrote down. Raises AssertionError."""
    books = count_books(program, job_id, table, output, starts=len(program.starts()))
    check_totals(program, job_id, check_table(table, output))
    _check_attempts(program, job_id)
    assert (books.lost, books.doubled, books.leftover) == (0, 0, 0)
    return books


def check_table(table: Path, output: Path) -> int:
    """Every row once, in order, its cells unchanged, with its own result. How many there are."""
    given, written = read(table), read(output)
    assert [row["id"] for row in written] == [row["id"] for row in given]
    assert [{name: row[name] for name in given[0]} for row in written] == given
    results = {row["id"]: row["result_json"] for row in written}
    assert results == {row["id"]: f'{{"v":"{row["id"]}"}}' for row in given}
    return len(given)


def read(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def check_totals(program: Program, job_id: str, total: int) -> None:
    """The counts that are kept, and those that are counted: all rows completed."""
    kept = program.rows(
        "SELECT total, pending, running, completed, failed FROM agent_job_totals WHERE job_id = ?", job_id
    )
    assert kept == [(total, 0, 0, total, 0)]
    counted = program.rows(
        "SELECT status, count(*) FROM agent_job_items WHERE job_id = ? GROUP BY status", job_id
    )
    assert counted == [("completed", total)]


def _check_attempts(program: Program, job_id: str) -> None:
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
