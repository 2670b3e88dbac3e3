"""A folder with a table and workers, an engine, and the job tools over it. Its jobs are real jobs."""

import itertools
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from rowcrew.agent.tools import ToolError
from rowcrew.config import Settings
from rowcrew.engine import Engine
from rowcrew.jobtools import JobDefaults, JobTools

_NUMBERS = itertools.count()

WORKERS = """
import asyncio
import pathlib

FOLDER = pathlib.Path(__file__).parent

def greet(row):
    if row["name"] == "Grace" and not (FOLDER / "mended").exists():
        raise ValueError("no Grace")
    return {"greeting": "Hello " + row["name"]}

async def gated(row):
    if row["name"] != "Ada" and not (FOLDER / "open").exists():
        await asyncio.Event().wait()
    return {"greeting": "Hello " + row["name"]}
"""

TABLE = "id,name\n7,Ada\n8,Grace\n9,Alan\n"


@dataclass(frozen=True)
class Desk:
    """The folder, and how to get tools for its workers."""

    folder: Path
    engine: Engine
    tools: Callable[..., JobTools]

    async def refusal(self, name: str, **arguments: Any) -> str:
        """The sentence that the tools answer to a call that must fail."""
        with pytest.raises(ToolError) as refused:
            await self.tools().call(name, arguments)
        return str(refused.value)


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    folder = tmp_path / "desk"
    folder.mkdir()
    module = f"job_tool_workers_{next(_NUMBERS)}"
    (folder / f"{module}.py").write_text(WORKERS)
    (folder / "people.csv").write_text(TABLE)
    async with AsyncExitStack() as stack:
        engine = await stack.enter_async_context(Engine.open(Settings.load(folder=folder)))

        def tools(worker: str = "greet", **options: Any) -> JobTools:
            made = JobTools(engine, folder, JobDefaults(worker=f"python:{module}:{worker}"), **options)
            stack.push_async_callback(made.close)
            return made

        yield Desk(folder, engine, tools)
