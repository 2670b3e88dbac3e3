"""How long and with which seed to torture, and the summary at the end.

The ordinary suite runs a short form of each. `scripts/torture` sets the variables below.
"""

import os
import random
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.processes.books import Books
from tests.processes.program import Program


@dataclass
class Torture:
    """What was asked for, and what has come of it so far.

    `seed`: every random choice follows from it. `rounds`: kills for each kind of worker, stops, walks;
    None in the short form, in which each test has a number of its own. `minutes`: at one home.
    """

    seed: int
    rounds: int | None
    minutes: float
    kills: int = 0
    books: Books = field(default_factory=Books)
    summary: list[str] = field(default_factory=list)

    @property
    def is_long(self) -> bool:
        return self.rounds is not None

    def times(self, short: int) -> int:
        return short if self.rounds is None else self.rounds

    def random(self, what: str) -> random.Random:
        """A source of its own for each test, so that leaving one out changes no other."""
        return random.Random(f"{self.seed} {what}")

    def count(self, books: Books, *, kills: int) -> None:
        """Before anything is asserted of them, so that the last line tells the truth."""
        self.books += books
        self.kills += kills

    def tell(self, line: str) -> None:
        """A line of the summary."""
        self.summary.append(line)


def _asked() -> Torture:
    rounds = os.environ.get("TORTURE_ROUNDS")
    return Torture(
        seed=int(os.environ.get("TORTURE_SEED", "1")),
        rounds=None if rounds is None else int(rounds),
        minutes=float(os.environ.get("TORTURE_MINUTES", "0.03")),
    )


TORTURE = _asked()


@pytest.fixture
def torture() -> Torture:
    return TORTURE


@pytest.fixture
def program(tmp_path: Path) -> Iterator[Program]:
    """A home and a folder of this test's own."""
    if not sys.platform.startswith("linux"):
        pytest.skip("looks for leftover processes in /proc")
    folder = tmp_path / "folder"
    folder.mkdir()
    program = Program(tmp_path / "home", folder)
    yield program
    program.clean_up()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if not TORTURE.is_long:
        return
    terminalreporter.section(f"torture, seed {TORTURE.seed}")
    for line in TORTURE.summary:
        terminalreporter.write_line(line)
    failed = len(terminalreporter.stats.get("failed", []))
    terminalreporter.write_line(
        f"torture: {TORTURE.kills} kills, {TORTURE.books}, {failed} of these tests failed"
    )
