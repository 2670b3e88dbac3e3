"""Job tools as MCP tools: their listing, one call, its progress. An error is an answer that a model reads."""

import asyncio
import contextlib
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from mcp_types import CallToolResult, TextContent, Tool, ToolAnnotations

from rowcrew.agent.tools import ToolError
from rowcrew.jobtools import JobTools, JobToolSpec, Listener
from rowcrew.scheduler.progress import Progress

logger = logging.getLogger(__name__)

# (rows done, rows in all, a line for people)
ReportProgress = Callable[[float, float, str], Awaitable[None]]


def listed(spec: JobToolSpec) -> Tool:
    """The tool as clients list it."""
    return Tool(
        name=spec.name,
        description=spec.description,
        input_schema=dict(spec.parameters),
        annotations=ToolAnnotations(
            read_only_hint=spec.read_only,
            # Nothing of the user's is deleted or replaced; but workers may reach the world.
            destructive_hint=False,
            open_world_hint=spec.name in ("spawn_agents_on_csv", "run_agent_job"),
        ),
    )


async def answer(
    tools: JobTools, name: str, arguments: dict[str, Any] | None, *, report: ReportProgress
) -> CallToolResult:
    """Carry out a call of a client's. It raises nothing but cancellation."""
    known = [spec.name for spec in JobTools.specs()]
    if name not in known:
        return _refusal(f"there is no tool `{name}`; the tools are {', '.join(known)}")
    try:
        async with _progress_to(report) as listener:
            values = await tools.call(name, arguments or {}, on_progress=listener)
    except ToolError as error:
        return _refusal(str(error))
    except Exception as error:
        # The last line before the client, whose model can do nothing with a traceback.
        logger.exception("the tool %s broke", name)
        said = f"{type(error).__name__}: {error}".rstrip(": ")
        return _refusal(f"something in rowcrew itself broke ({said}); jobs are safe, look at their status")
    text = json.dumps(values, ensure_ascii=False)
    return CallToolResult(content=[TextContent(text=text)], structured_content=values)


def _refusal(sentence: str) -> CallToolResult:
    return CallToolResult(content=[TextContent(text=sentence)], is_error=True)


@contextlib.asynccontextmanager
async def _progress_to(report: ReportProgress) -> AsyncIterator[Listener]:
    """A listener whose news go to the client, one at a time; a slow client gets the latest and not all."""
    latest: list[Progress] = []
    news = asyncio.Event()

    def listen(_job_id: str, progress: Progress) -> None:
        latest[:] = [progress]
        news.set()

    async def send() -> None:
        sent = -1
        while True:
            await news.wait()
            news.clear()
            progress = latest[0]
            done = progress.completed + progress.failed
            # The protocol wants every notification to be further than the one before.
            if done > sent:
                sent = done
                await report(done, progress.total, progress_line(progress))

    sender = asyncio.create_task(send(), name="mcp progress")
    try:
        yield listen
    finally:
        sender.cancel()
        await asyncio.gather(sender, return_exceptions=True)


def progress_line(progress: Progress) -> str:
    """Where a run stands, on one line."""
    line = f"{progress.completed + progress.failed} of {progress.total} rows done"
    if progress.failed:
        line += f", {progress.failed} failed"
    if progress.eta_seconds:
        line += f", about {progress.eta_seconds:.0f} s left"
    if progress.held_by:
        line += f", waiting: {progress.held_by}"
    return line
