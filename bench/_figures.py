"""What the measurements share: a table, a worker's module, a line per figure. It measures nothing itself."""

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

WORKERS = """
import asyncio
import os

SECONDS = float(os.environ.get("BENCH_SECONDS", "0"))


async def nothing(row):
    return {}


async def wait(row):
    await asyncio.sleep(SECONDS)
    return {}


def first(row):
    return {"at": __import__("time").time()}
"""

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


def done() -> None:
    """End with 1 when a bound was not kept."""
    sys.exit(1 if missed else 0)
