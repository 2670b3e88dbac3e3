"""How long the commands take that people type most. It runs the installed command, as people do."""

import compileall
import re
import statistics
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import rowcrew
from _figures import done, figure, folder

COMMAND = str(Path(sys.executable).with_name("rowcrew"))


def seconds(*arguments: str) -> float:
    """The median of ten runs."""
    times = []
    for _ in range(10):
        start = time.perf_counter()
        subprocess.run([COMMAND, *arguments], capture_output=True, check=False)
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def main() -> None:
    # As every installed package has it.
    compileall.compile_dir(str(Path(rowcrew.__file__).parent), quiet=1)
    with folder() as path:
        (path / "words.csv").write_text("word\none\n", encoding="utf-8")
        run = ["run", "words.csv", "-i", "{word}", "--worker", "python:bench_workers:nothing"]
        subprocess.run([COMMAND, *run], capture_output=True, check=True)
        figure("python -c pass", seconds_of_python(), "s")
        figure("rowcrew --help", seconds("--help"), "s", at_most=0.2)
        figure("rowcrew status", seconds("status"), "s", at_most=0.3)
        for name, cost in dearest_imports("status"):
            figure(f"  of that, importing {name}", cost, "s")
    done()


def dearest_imports(*arguments: str) -> list[tuple[str, float]]:
    """The five packages that take longest to import, each with all of its own modules but no other's."""
    told = subprocess.run(
        [sys.executable, "-X", "importtime", COMMAND, *arguments], capture_output=True, text=True, check=False
    ).stderr
    costs: Counter[str] = Counter()
    for own, name in re.findall(r"^import time:\s+(\d+) \|\s+\d+ \|\s+(\S+)$", told, re.MULTILINE):
        costs[name.partition(".")[0]] += int(own)
    return [(name, cost / 1e6) for name, cost in costs.most_common(5)]


def seconds_of_python() -> float:
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", "pass"], check=True)
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
