"""A folder with a table and a worker, and the command called in this process. Its jobs are real jobs."""

import itertools
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from rowcrew.cli.main import main

_NUMBERS = itertools.count()

WORKER = """
import pathlib

def greet(row):
    if row["name"] == "Grace" and not pathlib.Path("mended").exists():
        raise ValueError("no \\x1b[31mGrace")
    return {"greeting": "Hello " + row["name"]}

def chatter(row):
    print("I am a row")
    return {}

def stop(row, context):
    if row["name"] == "Ada":
        context.stop()
    return {}
"""


@dataclass(frozen=True)
class Called:
    """What a call of the command gave."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def lines(self) -> list[Any]:
        return [json.loads(line) for line in self.out.splitlines()]


@dataclass(frozen=True)
class Desk:
    """The folder that one works in."""

    folder: Path
    worker: str
    rowcrew: Callable[..., Called]

    def run(self, *arguments: str, function: str = "greet") -> Called:
        """A run over people.csv: Ada, Grace (who fails until `mend`), Alan."""
        worker = f"python:{self.worker}:{function}"
        given = ["people.csv", "-i", "Greet {name}", "--id-column", "id", "--worker", worker]
        return self.rowcrew("run", *given, "-o", "out.csv", "--max-attempts", "1", "-j", "1", *arguments)

    def mend(self) -> None:
        (self.folder / "mended").touch()

    def jobs(self) -> list[dict[str, Any]]:
        jobs: list[dict[str, Any]] = self.rowcrew("list", "--json").json["jobs"]
        return jobs


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Desk:
    folder = tmp_path / "desk"
    folder.mkdir()
    monkeypatch.chdir(folder)
    # A name of its own, because this process keeps the modules that it has imported.
    worker = f"cli_worker_{next(_NUMBERS)}"
    (folder / f"{worker}.py").write_text(WORKER)
    (folder / "people.csv").write_text("id,name\na1,Ada\nb2,Grace\nc3,Alan\n")

    def rowcrew(*arguments: str) -> Called:
        code = main(arguments)
        return Called(code, *capsys.readouterr())

    return Desk(folder, worker, rowcrew)
