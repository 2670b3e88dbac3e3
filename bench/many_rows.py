"""A job of 300,000 rows: memory that stays flat, and a resume that starts at once. One process per job."""

import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

import apsw
import uvloop

from _figures import done, figure, folder, request, run_job, table
from rowcrew.config import Settings
from rowcrew.engine import Engine

MANY, FEW = 300_000, 1_000
LEFT = MANY // 100


async def run(source: str) -> None:
    """One whole job, with export. Prints what it took."""
    async with Engine.open(Settings.load()) as engine:
        start = time.perf_counter()
        ended = await run_job(engine, request(Path(source), "note_time", concurrency=64, export=True))
        seconds = time.perf_counter() - start
    unit = 1 if sys.platform == "darwin" else 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6
    print(json.dumps({"job": ended.result.job_id, "seconds": seconds, "run": ended.seconds, "peak_mb": peak}))


async def resume(job_id: str) -> None:
    """Resume a job. Prints when the first row ran, seen from the start of this process."""
    async with Engine.open(Settings.load()) as engine:
        job_run = await engine.jobs.start(job_id, auto_export=False)
        await job_run.done()


def in_process(*arguments: str) -> str:
    """Run this file with a verb in a process of its own."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), str(Path.cwd())])}
    command = [sys.executable, str(Path(__file__).resolve()), *arguments]
    return subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True).stdout


def reopen(home: Path, job_id: str) -> None:
    """Make the last hundredth of the rows pending again, as if the job had been killed there."""
    connection = apsw.Connection(str(home / "state_1.sqlite"))
    connection.execute(
        "UPDATE agent_job_items SET status = 'pending', result_json = NULL, reported_at_ms = NULL,"
        " completed_at_ms = NULL, attempt_count = 0 WHERE job_id = ? AND row_index >= ?",
        (job_id, MANY - LEFT),
    )
    connection.close()


def first_new_row(home: Path, job_id: str) -> float:
    """When the first of them ran, in seconds since 1970."""
    connection = apsw.Connection(str(home / "state_1.sqlite"))
    row = connection.execute(
        "SELECT min(result_json ->> '$.at') FROM agent_job_items WHERE job_id = ? AND row_index >= ?",
        (job_id, MANY - LEFT),
    ).fetchone()
    connection.close()
    assert row is not None
    return float(row[0])


def main() -> None:
    with folder() as path:
        few = json.loads(in_process("run", str(table(path / "few.csv", FEW))))
        many = json.loads(in_process("run", str(table(path / "many.csv", MANY))))
        figure(f"{MANY:,} rows, from the file to the file", many["seconds"], "s")
        figure("of that, running", MANY / many["run"], "rows/s")
        figure(f"memory with {FEW:,} rows", few["peak_mb"], "MB")
        figure(f"memory with {MANY:,} rows, more", many["peak_mb"] - few["peak_mb"], "MB", at_most=50)
        home = Path(os.environ["ROWCREW_HOME"])
        reopen(home, many["job"])
        start = time.time()
        in_process("resume", many["job"])
        figure(
            "resume at 99 %, to the first new row", first_new_row(home, many["job"]) - start, "s", at_most=1
        )
    done()


if __name__ == "__main__":
    verbs = {"run": run, "resume": resume}
    if len(sys.argv) > 1:
        uvloop.run(verbs[sys.argv[1]](sys.argv[2]))
    else:
        main()
