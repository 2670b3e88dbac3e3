"""The MCP server: one engine's job tools over standard input and output, or over HTTP on this machine.

It owns the runs of its jobs. When it stops they are paused (`interrupted`), and `run_agent_job` of the next
server goes on with them.
"""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any, cast

import uvicorn
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp_types import CallToolRequestParams, CallToolResult, ListToolsResult, PaginatedRequestParams

from rowcrew.engine import Engine
from rowcrew.errors import InvalidRequest
from rowcrew.jobtools import JobDefaults, JobTools
from rowcrew.mcp.stdio import Lines, claimed_streams
from rowcrew.mcp.tools import answer, listed

HOST = "127.0.0.1"
PATH = "/mcp"
# Clients hold streams open for as long as they live; a server that stops does not wait for that.
CLOSING_SECONDS = 2

INSTRUCTIONS = (
    "rowcrew runs one worker agent over every row of a CSV file, as a durable job. Write the rows into a "
    "CSV, then call spawn_agents_on_csv. When its answer has `next`, the job still runs: call wait_agent_job "
    "until it answers timed_out: false. Jobs survive interruptions: run_agent_job goes on with one, and rows "
    "that are done never run twice."
)


def make_server(tools: JobTools) -> Server[Any]:
    """The server of these tools. It starts nothing."""
    found = ListToolsResult(tools=[listed(spec) for spec in JobTools.specs()])

    async def list_tools(
        _context: ServerRequestContext[Any, Any], _params: PaginatedRequestParams | None
    ) -> ListToolsResult:
        return found

    async def call_tool(
        context: ServerRequestContext[Any, Any], params: CallToolRequestParams
    ) -> CallToolResult:
        return await answer(tools, params.name, params.arguments, report=context.session.report_progress)

    return Server(
        "rowcrew",
        version=version("rowcrew"),
        instructions=INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


@contextlib.asynccontextmanager
async def job_tools(
    engine: Engine, folder: Path, defaults: JobDefaults, *, max_wait: float | None
) -> AsyncIterator[JobTools]:
    """The tools of one server. Its jobs are paused at the end."""
    tools = JobTools(engine, folder, defaults, max_wait=max_wait)
    try:
        yield tools
    finally:
        await tools.close()


async def serve_stdio(tools: JobTools) -> None:
    """Until the client closes standard input, or the task is cancelled."""
    server = make_server(tools)
    with claimed_streams() as (source, target):
        lines = Lines(source, target)
        lines.start()
        # The SDK asks for anyio's files, and uses no more of them than Lines has.
        async with stdio_server(cast("Any", lines), cast("Any", lines)) as (reading, writing):
            await server.run(reading, writing, server.create_initialization_options())


async def serve_http(tools: JobTools, port: int, *, ready: Callable[[str], None]) -> None:
    """Until the task is cancelled. `ready` is told the address. Raises InvalidRequest for a taken port."""
    app = make_server(tools).streamable_http_app(streamable_http_path=PATH, host=HOST)
    with _listening(port) as listener:
        config = uvicorn.Config(
            app, log_config=None, access_log=False, timeout_graceful_shutdown=CLOSING_SECONDS
        )
        web = _WebServer(config)
        serving = asyncio.create_task(web.serve([listener]), name="mcp http")
        ready(f"http://{HOST}:{listener.getsockname()[1]}{PATH}")
        try:
            await asyncio.shield(serving)
        finally:
            web.should_exit = True
            await serving


class _WebServer(uvicorn.Server):
    """uvicorn without hands on the signals: they are the command's."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@contextlib.contextmanager
def _listening(port: int) -> Iterator[socket.socket]:
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((HOST, port))
        except OSError as error:
            raise InvalidRequest(
                f"cannot listen on {HOST}:{port}: {error.strerror or error}",
                hint="choose another port, or 0 for any that is free",
            ) from error
        listener.listen()
        yield listener
