"""The program under test, cleaned up after each test."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.processes.program import Program


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
