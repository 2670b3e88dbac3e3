"""Jobs of up to 300,000 rows: memory that stays flat, a resume that starts at once. One process a step."""

import asyncio
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
from rowcrew.scheduler.progress import Progress

SIZES = (1_000, 10_000, 100_000, 300_000)
MANY = SIZES[-1]
COMMAND = str(Path(sys.executable).with_name("rowcrew"))


async def run(source: str) -> None:
    """One whole job, without export. Prints what it took."""
    async with Engine.open(Settings.load()) as engine:
        start = time.perf_counter()
        ended = await run_job(engine, request(Path(source), "note_time", concurrency=64))
        seconds = time.perf_counter() - start
    job_id, creation = ended.result.job_id, seconds - ended.seconds
    print(json.dumps({"job": job_id, "creation": creation, "run": ended.seconds, "peak_mb": peak_mb()}))


async def export(job_id: str) -> None:
    """The table of a finished job. Prints what it took."""
    async with Engine.open(Settings.load()) as engine:
        start = time.perf_counter()
        await engine.jobs.export(job_id)
        print(json.dumps({"seconds": time.perf_counter() - start, "peak_mb": peak_mb()}))


async def resume(job_id: str) -> None:
    """Resume a job until a row is done, and interrupt it."""
    begun = asyncio.Event()

    def look(progress: Progress) -> None:
        if progress.rate:
            begun.set()

    async with Engine.open(Settings.load()) as engine:
        job_run = await engine.jobs.start(job_id, auto_export=False, on_progress=look)
        ended = asyncio.create_task(job_run.done())
        await asyncio.wait({ended, asyncio.create_task(begun.wait())}, return_when=asyncio.FIRST_COMPLETED)
        job_run.interrupt()
        await ended


def peak_mb() -> float:
    """The most memory that this process has had."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6


def in_process(*arguments: str) -> str:
    """Run this file with a verb in a process of its own."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), str(Path.cwd())])}
    command = [sys.executable, str(Path(__file__).resolve()), *arguments]
    return subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True).stdout


def reopen(home: Path, job_id: str, first: int) -> None:
    """Make the rows from `first` on pending again, as if the job had been killed there."""
    connection = apsw.Connection(str(home / "state_1.sqlite"))
    connection.execute(
        "UPDATE agent_job_items SET status = 'pending', result_json = NULL, reported_at_ms = NULL,"
        " completed_at_ms = NULL, attempt_count = 0 WHERE job_id = ? AND row_index >= ?",
        (job_id, first),
    )
    connection.close()


def first_new_row(home: Path, job_id: str, first: int) -> float:
    """When the first of the rows from `first` on ran, in seconds since 1970."""
    connection = apsw.Connection(str(home / "state_1.sqlite"))
    row = connection.execute(
        "SELECT min(result_json ->> '$.at') FROM agent_job_items WHERE job_id = ? AND row_index >= ?",
        (job_id, first),
    ).fetchone()
    connection.close()
    assert row is not None
    return float(row[0])


def main() -> None:
    with folder() as path:
        home = Path(os.environ["ROWCREW_HOME"])
        sizes = {
            rows: json.loads(in_process("run", str(table(path / f"{rows}.csv", rows)))) for rows in SIZES
        }
        job_id, few = sizes[MANY]["job"], sizes[SIZES[0]]["peak_mb"]
        figure(f"creation of {MANY:,} rows", sizes[MANY]["creation"], "s")
        for rows, ran in sizes.items():
            figure(f"{rows:,} rows, running", rows / ran["run"], "rows/s")
        figure(f"memory with {SIZES[0]:,} rows", few, "MB")
        for rows in SIZES[1:]:
            figure(f"memory with {rows:,} rows, more", sizes[rows]["peak_mb"] - few, "MB", at_most=50)
        exported = json.loads(in_process("export", job_id))
        figure(f"export of {MANY:,} rows", exported["seconds"], "s")
        figure("memory of the export, more", exported["peak_mb"] - few, "MB", at_most=50)
        start = time.perf_counter()
        subprocess.run([COMMAND, "status", job_id, "--json"], capture_output=True, check=True)
        figure(f"rowcrew status of {MANY:,} rows", time.perf_counter() - start, "s", at_most=0.3)
        for percent in (99, 50, 0):
            first = MANY * percent // 100
            reopen(home, job_id, first)
            started = time.time()
            in_process("resume", job_id)
            seconds = first_new_row(home, job_id, first) - started
            figure(f"resume at {percent} %, to the first new row", seconds, "s", at_most=1)
    done()


if __name__ == "__main__":
    verbs = {"run": run, "resume": resume, "export": export}
    if len(sys.argv) > 1:
        uvloop.run(verbs[sys.argv[1]](sys.argv[2]))
    else:
        main()
