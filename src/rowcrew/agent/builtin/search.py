"""The search_files tool: a regular expression over files of the workspace, bounded in time and findings."""

import asyncio
import json
import os
import re
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from rowcrew.agent.builtin.output import bound
from rowcrew.agent.builtin.sandbox import Sandbox, explain
from rowcrew.agent.tools import Arguments, Tool, ToolError, ToolResult

MAX_FINDINGS = 200
SEARCH_SECONDS = 20.0
LONGEST_PATTERN = 1000
CHILD = Path(__file__).with_name("search_child.py")


def search_files_tool(sandbox: Sandbox) -> Tool:
    """Finds lines by a pattern."""

    async def run(arguments: Arguments) -> ToolResult:
        path = arguments.get("path", ".")
        pattern = arguments["pattern"]
        try:
            re.compile(pattern)
        except (re.error, RecursionError, OverflowError) as error:
            raise ToolError(f"the pattern is not a regular expression: {error}") from None
        folder, only = await asyncio.to_thread(_open, sandbox, path)
        request = {
            "root": folder,
            "only": only,
            "pattern": pattern,
            "glob": arguments.get("glob"),
            "ignore_case": arguments.get("ignore_case", False),
            "limit": MAX_FINDINGS,
        }
        try:
            lines, in_time = await _search(folder, request)
        finally:
            os.close(folder)
        return ToolResult(_tell(lines, path if only is None else str(Path(path).parent), in_time=in_time))

    return Tool(
        "search_files",
        "Find lines by a regular expression (Python's) in the text files of a folder and below it. "
        f"At most {MAX_FINDINGS} lines come back, each as path:line: text.",
        {
            "type": "object",
            "properties": {
                "pattern": {"type": "string", "minLength": 1, "maxLength": LONGEST_PATTERN},
                "path": {
                    "type": "string",
                    "description": "A folder or a file, from the workspace; the workspace if not given.",
                },
                "glob": {"type": "string", "description": "Only files whose name fits, such as `*.py`."},
                "ignore_case": {"type": "boolean"},
            },
            "required": ["pattern"],
            "additionalProperties": False,
        },
        run,
        read_only=True,
    )


def _open(sandbox: Sandbox, path: str) -> tuple[int, str | None]:
    """The folder to search, and the one file in it that is meant."""
    real = sandbox.resolve(path)
    try:
        if real.is_dir():
            return sandbox.open_folder(real), None
        os.close(sandbox.open_file(real))
        return sandbox.open_folder(real.parent), real.name
    except OSError as error:
        raise explain(error, path) from None


async def _search(folder: int, request: dict[str, object]) -> tuple[list[bytes], bool]:
    """The findings as JSON lines, and whether the search came to its end."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-I",
        "-S",
        str(CHILD),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        pass_fds=(folder,),
        start_new_session=True,
    )
    assert process.stdin is not None  # noqa: S101 - they were opened as pipes
    assert process.stdout is not None  # noqa: S101
    lines: list[bytes] = []
    in_time = False
    try:
        process.stdin.write(json.dumps(request).encode())
        process.stdin.close()
        async with asyncio.timeout(SEARCH_SECONDS):
            async for line in process.stdout:
                lines.append(line)  # noqa: PERF401 - what came before the time was up is kept
            in_time = await process.wait() == 0
    except TimeoutError:
        pass
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        with suppress(TimeoutError):
            async with asyncio.timeout(SEARCH_SECONDS):
                await process.wait()
    return lines, in_time


def _tell(lines: list[bytes], folder: str, *, in_time: bool) -> str:
    told = list(_told(lines, folder))
    if len(told) == MAX_FINDINGS:
        told.append(f"[only the first {MAX_FINDINGS}; narrow the pattern, the path or the glob]")
    elif not in_time:
        told.append("[the search was ended before it was done; use a simpler pattern or a smaller folder]")
    return bound("\n".join(told) or "[nothing found]")


def _told(lines: list[bytes], folder: str) -> Iterator[str]:
    for line in lines:
        # The last line may be half there when the search was ended.
        with suppress(ValueError):
            found = json.loads(line)
            yield f"{os.path.normpath(Path(folder) / found['path'])}:{found['line']}: {found['text']}"
