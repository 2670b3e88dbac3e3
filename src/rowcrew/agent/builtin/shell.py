"""The shell tool: one command inside the sandbox, bounded in time and output. It leaves nothing running."""

import asyncio
import os
import shutil
import signal
from contextlib import suppress

from rowcrew.agent.builtin.output import BoundedOutput
from rowcrew.agent.builtin.sandbox import Sandbox, SandboxMode, explain
from rowcrew.agent.tools import Arguments, Tool, ToolError, ToolResult
from rowcrew.domain.events import TurnItemKind

DEFAULT_TIMEOUT_MS = 120_000
LONGEST_TIMEOUT_MS = 1_800_000
# What a killed process group gets to be gone and its pipe to run empty.
END_SECONDS = 2.0
CHUNK_BYTES = 64 * 1024

RULES = {
    SandboxMode.READ_ONLY: "Nothing can be written and there is no network.",
    SandboxMode.WORKSPACE_WRITE: (
        "Only the workspace (but not its .git), and /tmp, which is empty, can be written; no network."
    ),
    SandboxMode.DANGER_FULL_ACCESS: "It is not confined.",
}


def shell_tool(sandbox: Sandbox) -> Tool:
    """Runs a command line with bash (or sh) in the workspace."""

    async def run(arguments: Arguments) -> ToolResult:
        folder = sandbox.resolve(arguments.get("workdir", "."))
        if not folder.is_dir():
            raise ToolError(f"there is no folder {arguments['workdir']!r}")
        timeout_ms = arguments.get("timeout_ms", DEFAULT_TIMEOUT_MS)
        # Not from the PATH: confined, only the system's own folders are there.
        shell = shutil.which("bash", path="/bin:/usr/bin:/usr/local/bin") or "/bin/sh"
        output = BoundedOutput()
        with sandbox.wrapped([shell, "-c", arguments["command"]], folder) as command:
            exit_code = await _run(command, sandbox, folder, output, seconds=timeout_ms / 1000)
        told = f"exit code {exit_code}" if exit_code is not None else f"ended after {timeout_ms / 1000:g} s"
        details = {"command": arguments["command"], "folder": str(folder), "exit_code": exit_code}
        return ToolResult(f"{output.text()}\n[{told}]".lstrip("\n"), ok=exit_code == 0, details=details)

    return Tool(
        "shell",
        "Run a command line with bash in the workspace. Standard output and error come back together, "
        f"then the exit code; the middle of a long output is left out. {RULES[sandbox.mode]}",
        {
            "type": "object",
            "properties": {
                "command": {"type": "string", "minLength": 1, "description": "The command line."},
                "workdir": {
                    "type": "string",
                    "description": "The folder to run it in; the workspace if not given.",
                },
                "timeout_ms": {
                    "type": "integer",
                    "minimum": 1,
                    "maximum": LONGEST_TIMEOUT_MS,
                    "description": f"When to end it, in milliseconds; {DEFAULT_TIMEOUT_MS} if not given.",
                },
            },
            "required": ["command"],
            "additionalProperties": False,
        },
        run,
        item_kind=TurnItemKind.COMMAND,
    )


async def _run(
    command: list[str], sandbox: Sandbox, folder: os.PathLike[str], output: BoundedOutput, *, seconds: float
) -> int | None:
    """The exit code, or None when it had to be ended. Nothing of its process group is left afterwards."""
    readable, writable = os.pipe()
    reading = asyncio.create_task(_read(readable, output))
    try:
        process = await asyncio.create_subprocess_exec(
            *command,
            cwd=folder,
            env=sandbox.shell_environment(),
            stdin=asyncio.subprocess.DEVNULL,
            # A pipe of our own: with one of asyncio's, `wait` would also wait for what it left behind.
            stdout=writable,
            stderr=writable,
            start_new_session=True,
        )
    except OSError as error:
        reading.cancel()
        raise explain(error, command[0]) from None
    except ValueError:
        reading.cancel()
        raise ToolError("a command line cannot hold a NUL character") from None
    finally:
        os.close(writable)
    try:
        async with asyncio.timeout(seconds):
            return await process.wait()
    except TimeoutError:
        return None
    finally:
        # Also after a good end: what it started in the background must not outlive the call.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        with suppress(TimeoutError):
            async with asyncio.timeout(END_SECONDS):
                await process.wait()
        await asyncio.wait({reading}, timeout=END_SECONDS)
        reading.cancel()


async def _read(readable: int, output: BoundedOutput) -> None:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(CHUNK_BYTES)
    transport, _ = await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(readable, "rb")
    )
    try:
        while data := await reader.read(CHUNK_BYTES):
            output.add(data)
    finally:
        transport.close()
