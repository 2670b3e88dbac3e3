"""A folder with a table and workers, and the real command `rowcrew mcp` with the official client on it."""

import itertools
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytest
from mcp.client.stdio import StdioServerParameters

from mcp import Client

WORKERS = """
import asyncio
import os
import pathlib
import sys

def greet(row):
    print("noise")
    os.write(1, b"more noise\\n")
    if row["name"] == "Grace":
        raise ValueError("no Grace")
    return {"greeting": "Hello " + row["name"]}

async def gated(row):
    if row["name"] != "Ada" and not pathlib.Path("open").exists():
        await asyncio.Event().wait()
    return {"greeting": "Hello " + row["name"]}
"""
_NUMBERS = itertools.count()

# The handshake of all clients of today, and the protocol of 2026 that has none.
Era = Literal["legacy", "auto"]


@dataclass(frozen=True)
class Desk:
    """The folder that the server works in."""

    folder: Path
    module: str

    def words(self, worker: str, *options: str) -> list[str]:
        """The arguments of `python` that serve jobs with this worker."""
        return ["-m", "rowcrew", "mcp", "--worker", f"python:{self.module}:{worker}", *options]

    @asynccontextmanager
    async def client(
        self, worker: str = "greet", *options: str, mode: Era = "legacy", **more: Any
    ) -> AsyncIterator[Client]:
        """A server process of its own, and a client that has connected to it."""
        parameters = StdioServerParameters(
            command=sys.executable, args=self.words(worker, *options), env={**os.environ}, cwd=self.folder
        )
        async with Client(parameters, mode=mode, **more) as client:
            yield client


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    folder = tmp_path / "desk"
    folder.mkdir()
    module = f"mcp_workers_{next(_NUMBERS)}"
    (folder / f"{module}.py").write_text(WORKERS)
    (folder / "people.csv").write_text("id,name\n7,Ada\n8,Grace\n9,Alan\n")
    return Desk(folder, module)
