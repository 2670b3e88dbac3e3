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

from tests.processes.program import Program

# TORTURE_SEED: every random choice follows from it. TORTURE_KILLS: kills of the engine, for each kind of
# worker. TORTURE_SECONDS: how long eight processes hammer one home. TORTURE_WALKS: walks over the verbs.
SHORT = {"SEED": 1, "KILLS": 3, "SECONDS": 2, "WALKS": 5}


@dataclass
class Torture:
    """What was asked for, and what has come of it so far."""

    seed: int
    kills: int
    seconds: int
    walks: int
    summary: list[str] = field(default_factory=list)

    @property
    def is_long(self) -> bool:
        return self.kills > SHORT["KILLS"]

    def random(self, what: str) -> random.Random:
        """A source of its own for each test, so that leaving one out changes no other."""
        return random.Random(f"{self.seed} {what}")

    def tell(self, line: str) -> None:
        """A line of the summary."""
        self.summary.append(line)


def _asked() -> Torture:
    given = {name: int(os.environ.get(f"TORTURE_{name}", default)) for name, default in SHORT.items()}
    return Torture(given["SEED"], given["KILLS"], given["SECONDS"], given["WALKS"])


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
    if not TORTURE.is_long or not TORTURE.summary:
        return
    terminalreporter.section(f"torture, seed {TORTURE.seed}")
    for line in TORTURE.summary:
        terminalreporter.write_line(line)
