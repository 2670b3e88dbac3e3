"""Eight processes at one home at once: no lock reaches a user, the books are right, the log stays small."""

import contextlib
import json
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tests.processes.program import Program
from tests.torture.conftest import Torture

HAMMER = Path(__file__).with_name("hammer.py")
MEGABYTE = 1 << 20


def log_sizes(program: Program) -> Iterator[int]:
    """Of each write-ahead log that is there at the moment."""
    yield 0
    for path in program.home.glob("*-wal"):
        with contextlib.suppress(FileNotFoundError):
            yield path.stat().st_size


def test_eight_processes_at_one_home(program: Program, torture: Torture) -> None:
    program.table(30)
    (program.folder / "hammered.py").write_text("def nothing(row):\n    return {}\n")
    seconds = 60 * torture.minutes
    hammers = [
        program.start_python(HAMMER, str(seconds), f"{torture.seed} {number}", str(program.folder))
        for number in range(8)
    ]
    longest = 0
    while any(hammer.process.poll() is None for hammer in hammers):
        longest = max(longest, *log_sizes(program))
        time.sleep(0.05)
    outcomes = [hammer.end() for hammer in hammers]
    assert [(outcome.code, outcome.err) for outcome in outcomes] == [(0, "")] * 8
    found = [json.loads(outcome.out) for outcome in outcomes]
    assert [error for one in found for error in one["errors"]] == []
    done = Counter[str]()
    for one in found:
        done.update(one["done"])
    totals = program.rows(
        "SELECT t.job_id FROM agent_job_totals t WHERE t.pending <> (SELECT count(*) FROM agent_job_items i"
        " WHERE i.job_id = t.job_id AND i.status = 'pending') OR t.completed <> (SELECT count(*) FROM"
        " agent_job_items i WHERE i.job_id = t.job_id AND i.status = 'completed')"
    )
    assert totals == []
    assert program.rows("SELECT count(*) FROM agent_job_items WHERE status = 'running'") == [(0,)]
    twice = program.rows(
        "SELECT job_id, item_id FROM agent_job_attempts WHERE outcome = 'reported'"
        " GROUP BY 1, 2 HAVING count(*) > 1"
    )
    assert twice == []
    queued = program.rows("SELECT status, count(*) FROM queued_turns GROUP BY 1", file="queue_1.sqlite")
    # What was added and not claimed: none of it lost, none claimed twice.
    assert dict(queued).get("pending", 0) == done["queue_add"] - done["queue_claim"]
    assert dict(queued).keys() <= {"pending"}
    assert longest < 80 * MEGABYTE
    acts = sum(count for verb, count in done.items() if not verb.endswith("refused"))
    torture.tell(
        f"eight processes for {seconds:g} s: {acts} acts, {done['run']} of them whole jobs,"
        f" 0 errors, log at most {longest / MEGABYTE:.1f} MB"
    )
