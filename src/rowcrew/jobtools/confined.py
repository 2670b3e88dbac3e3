"""The job tools as an agent in a sandbox gets them: paths stay in its workspace. It runs no job itself."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from rowcrew.agent.builtin import Sandbox, SandboxMode
from rowcrew.agent.setup import LiveThread
from rowcrew.agent.tools import Arguments, Tool, ToolError, ToolResult
from rowcrew.jobtools.tools import JobDefaults, JobEngine, JobTools, Listener
from rowcrew.scheduler.progress import Progress

READ_PATHS = ("csv_path",)
WRITTEN_PATHS = ("output_csv_path", "path")
# What writes a table beside its input unless it is told not to.
EXPORTERS = frozenset({"spawn_agents_on_csv", "run_agent_job"})

READ_ONLY = (
    "this sandbox is read-only, so that no output table can be written: pass auto_export: false, and say in "
    "your answer that `rowcrew export` with the job_id writes the table"
)


def job_tools_of(
    engine: JobEngine, live: LiveThread, tell: Callable[[str, str, Progress], None]
) -> list[Tool]:
    """The job tools of a thread. `tell` hears (thread id, job id, progress) of what a call waits for."""
    setup = live.setup
    defaults = JobDefaults(model=setup.model, base_url=setup.base_url, sandbox_mode=setup.sandbox_mode)
    tools = JobTools(engine, live.sandbox.workspace, defaults)
    return confined_tools(
        tools, live.sandbox, on_progress=lambda job_id, progress: tell(live.id, job_id, progress)
    )


def confined_tools(tools: JobTools, sandbox: Sandbox, *, on_progress: Listener | None = None) -> list[Tool]:
    """The tools of a root agent, checked against its sandbox before they do anything."""
    return [_confined(tool, sandbox) for tool in tools.agent_tools(on_progress=on_progress)]


def _confined(tool: Tool, sandbox: Sandbox) -> Tool:
    async def run(given: Arguments) -> ToolResult:
        _check(tool.name, given.values, sandbox)
        return await tool.run(given)

    return replace(tool, run=run)


def _check(name: str, values: Mapping[str, Any], sandbox: Sandbox) -> None:
    if not sandbox.is_confined:
        return
    for key in READ_PATHS:
        if path := _path(values, key):
            sandbox.resolve(path)
    for key in WRITTEN_PATHS:
        if path := _path(values, key):
            sandbox.resolve_for_write(path)
    exports = name in EXPORTERS and values.get("auto_export") is not False
    if sandbox.mode is SandboxMode.READ_ONLY:
        if exports:
            raise ToolError(READ_ONLY)
        if name == "export_agent_job_csv":
            raise ToolError(READ_ONLY.partition(":")[0])
    elif exports and (path := _path(values, "csv_path")) and not values.get("output_csv_path"):
        # The table is written beside its input.
        sandbox.resolve_for_write(str(Path(path).parent / "table.csv"))


def _path(values: Mapping[str, Any], key: str) -> str | None:
    """As the job tools will take it. What is no text is refused where arguments are checked."""
    given = values.get(key)
    return str(Path(given).expanduser()) if isinstance(given, str) and "\0" not in given else None
