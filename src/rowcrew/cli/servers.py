"""mcp: serve the job tools to other agents until they have gone or a signal comes. No rule of its own."""

import asyncio
import sys
from collections.abc import Coroutine
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from rowcrew.cli.exits import OK
from rowcrew.cli.interrupts import Interrupts
from rowcrew.cli.opening import load_settings, with_engine
from rowcrew.cli.session import Verb, session_of
from rowcrew.cli.terminal import say
from rowcrew.engine import Engine
from rowcrew.errors import InvalidRequest
from rowcrew.jobtools import JobDefaults, JobTools

# Below the 60 s after which many clients give a call up.
DEFAULT_MAX_WAIT = 50.0


class _Serving:
    """A server as signals see it: the first stops it and pauses its jobs, the second gives them no grace."""

    def __init__(self, task: asyncio.Task[None], tools: JobTools) -> None:
        self._task = task
        self._tools = tools

    def interrupt(self) -> None:
        say("Stopping. Jobs that run here are paused; run_agent_job or `rowcrew resume` goes on with them.")
        self._task.cancel()

    def abort(self) -> None:
        self._tools.abort()


@click.command(cls=Verb)
@click.option("--http", "port", type=click.IntRange(0, 65535), help="Serve HTTP on this port of 127.0.0.1.")
@click.option("--worker", help="For the jobs: agent, oneshot, command:WORDS or python:MODULE:FUNCTION.")
@click.option("-m", "--model", help="For the jobs, such as openai:gpt-5 or local.")
@click.option("--base-url", metavar="URL", help="An OpenAI-compatible server for the jobs.")
@click.option(
    "-C",
    "--cd",
    "folder",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="The folder where relative paths start and workers work.",
)
@click.option(
    "--max-wait",
    type=click.FloatRange(min=0),
    default=DEFAULT_MAX_WAIT,
    show_default=True,
    metavar="SECONDS",
    help="How long spawn_agents_on_csv waits before it answers that the job goes on.",
)
@click.pass_context
def mcp(
    context: click.Context,
    *,
    port: int | None,
    worker: str | None,
    model: str | None,
    base_url: str | None,
    folder: Path | None,
    max_wait: float,
) -> int:
    """Serve the job tools to other agents over MCP."""
    server = _load()
    defaults = JobDefaults(worker, model, base_url)
    settings = load_settings(session_of(context))

    async def work(engine: Engine) -> int:
        with Interrupts(lambda _sentence: None) as interrupts:
            async with server.job_tools(engine, folder or Path.cwd(), defaults, max_wait=max_wait) as tools:
                if port is None:
                    _greet_people()
                    serving = server.serve_stdio(tools)
                else:
                    serving = server.serve_http(tools, port, ready=lambda at: say(f"Serving MCP at {at}"))
                await _until_signal(serving, tools, interrupts)
        return interrupts.exit_code or OK

    return with_engine(context, work, settings=settings, fast=True)


async def _until_signal(serving: Coroutine[Any, Any, None], tools: JobTools, interrupts: Interrupts) -> None:
    """Serve until the other side has gone or a signal has come."""
    task = asyncio.create_task(serving)
    interrupts.attach(_Serving(task, tools), lambda _sentence: None)
    await asyncio.wait({task})
    if not task.cancelled():
        task.result()


def _greet_people() -> None:
    if sys.stdin is not None and sys.stdin.isatty():
        say("Serving MCP on standard input and output, for a program that has started this. End with Ctrl-D.")


def _load() -> Any:
    try:
        return import_module("rowcrew.mcp.server")
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("mcp", "mcp_types", "uvicorn", "starlette", "anyio"):
            raise
        raise InvalidRequest(
            "the MCP server needs a package that is not installed", hint="pip install 'rowcrew[mcp]'"
        ) from error
