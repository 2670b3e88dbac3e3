"""What the measurements share: a table, a worker's module, a line per figure. It measures nothing itself."""

import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rowcrew.domain.job import JobSettings
from rowcrew.engine import Engine
from rowcrew.scheduler.creation import JobRequest
from rowcrew.scheduler.views import JobResult

WORKERS = """
import asyncio
import time


async def nothing(row):
    return {}


async def wait_1(row):
    await asyncio.sleep(1)
    return {}


async def wait_2(row):
    await asyncio.sleep(2)
    return {}


async def note_time(row):
    return {"at": time.time()}
"""

# (workers at once, seconds that each takes, rounds of them in a job, what must be held). The first and the
# last round weigh in: what all of them cost once is the time by which the last one ends after the first.
HELD = ((64, 2, 8, 0.97), (256, 1, 12, 0.90))

missed: list[str] = []


@contextmanager
def folder() -> Iterator[Path]:
    """An empty folder with a home and the workers' module, current and importable."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory(prefix="rowcrew-bench-") as name:
        path = Path(name)
        (path / "bench_workers.py").write_text(WORKERS, encoding="utf-8")
        os.environ["ROWCREW_HOME"] = str(path / "home")
        os.chdir(path)
        sys.path.insert(0, str(path))
        try:
            yield path
        finally:
            os.chdir(before)
            sys.path.remove(str(path))


def table(path: Path, rows: int) -> Path:
    """A table of so many rows with an id, a word and a sentence."""
    with path.open("w", encoding="utf-8") as file:
        file.write("id,word,sentence\n")
        file.writelines(f"r{n},word{n},The quick brown fox jumps over dog number {n}\n" for n in range(rows))
    return path


def figure(
    name: str, value: float, unit: str, *, at_least: float | None = None, at_most: float | None = None
) -> None:
    """Print a figure with its bound, and remember it when the bound is not kept."""
    bound, kept = "", True
    if at_least is not None:
        bound, kept = f"  (at least {at_least:g})", value >= at_least
    if at_most is not None:
        bound, kept = f"  (at most {at_most:g})", value <= at_most
    if not kept:
        missed.append(name)
    print(f"{'  ' if kept else '! '}{name:55} {value:12,.2f} {unit}{bound}", flush=True)


@dataclass(frozen=True)
class Run:
    """A run that has ended: its result, and seconds from the lease to the end."""

    result: JobResult
    seconds: float


def request(source: Path, worker: str, *, concurrency: int, export: bool = False) -> JobRequest:
    """A job over `source` with the least instruction there is."""
    settings = JobSettings(worker=f"python:bench_workers:{worker}", max_concurrency=concurrency)
    return JobRequest(
        input_path=source, instruction="{word}", settings=settings, auto_export=export, new=True
    )


async def run_job(engine: Engine, asked: JobRequest) -> Run:
    """Create and run a job in this process."""
    created = await engine.jobs.create_from_table(asked)
    start = time.perf_counter()
    run = await engine.jobs.start(created.job.id)
    result = await run.done()
    return Run(result, time.perf_counter() - start)


def done() -> None:
    """End with 1 when a bound was not kept."""
    sys.exit(1 if missed else 0)
