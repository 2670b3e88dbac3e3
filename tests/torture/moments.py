"""Random moments of a run: in its start, or in the midst of its work however slow the machine is."""

import time
from random import Random

from tests.processes.program import Program, Running, until


def wait_for_a_moment(program: Program, chance: Random, running: Running) -> bool:
    """Some moment of its run. False where it has come to its end before."""
    if chance.random() < 0.25:
        ends_at = time.monotonic() + chance.uniform(0.05, 1.5)
        until(lambda: time.monotonic() > ends_at or _has_ended(running), "a moment")
    else:
        wanted = _reports(program) + chance.randrange(12)
        until(lambda: _has_ended(running) or _reports(program) >= wanted, f"{wanted} reports", 600)
        time.sleep(chance.uniform(0, 0.1))
    return not _has_ended(running)


def _has_ended(running: Running) -> bool:
    return running.process.poll() is not None


def _reports(program: Program) -> int:
    found = program.rows("SELECT sum(completed) FROM agent_job_totals")
    return int(found[0][0] or 0) if found else 0
