"""The tools read_file, list_dir and write_file, inside the sandbox. Their work on disk is done in threads."""

import asyncio
import os
import secrets
import stat
from contextlib import suppress
from pathlib import Path

from rowcrew.agent.builtin.output import MAX_OUTPUT_BYTES
from rowcrew.agent.builtin.sandbox import Sandbox, SandboxMode, explain
from rowcrew.agent.tools import Arguments, Tool, ToolError, ToolResult
from rowcrew.domain.events import TurnItemKind

DEFAULT_LINES = 2000
LONGEST_SHOWN_LINE = 2000
MAX_ENTRIES = 500
MAX_READ_BYTES = 64 * 1024 * 1024
PATH = {"type": "string", "description": "A path, from the workspace."}


def file_tools(sandbox: Sandbox) -> list[Tool]:
    """Those that this mode allows: read_file, list_dir, and write_file where something may be written."""
    tools = [_read_file_tool(sandbox), _list_dir_tool(sandbox)]
    if sandbox.mode is not SandboxMode.READ_ONLY:
        tools.append(_write_file_tool(sandbox))
    return tools


def read_bytes(sandbox: Sandbox, path: str) -> bytes:
    """A whole file of the workspace. ToolError when it is none, or larger than can be held."""
    real = sandbox.resolve(path)
    try:
        file = sandbox.open_file(real)
        with os.fdopen(file, "rb") as opened:
            data = opened.read(MAX_READ_BYTES + 1)
    except OSError as error:
        raise explain(error, path) from None
    if len(data) > MAX_READ_BYTES:
        raise ToolError(
            f"{path!r} is larger than {MAX_READ_BYTES:,} bytes; look at parts of it with the shell"
        )
    return data


def read_text(sandbox: Sandbox, path: str) -> str:
    """A file as text. Bytes that are no UTF-8 show as U+FFFD; a file with NUL characters is refused."""
    data = read_bytes(sandbox, path)
    if b"\0" in data:
        raise ToolError(f"{path!r} is not a text file")
    return data.decode("utf-8", "replace")


def write_bytes(sandbox: Sandbox, path: str, data: bytes) -> bool:
    """Write beside the file, then take its place, so that links to it and readers of it keep the old one.

    Returns whether the file was there before. Folders on the way are made.
    """
    real = sandbox.resolve_for_write(path)
    try:
        folder = sandbox.open_folder(real.parent, create=True)
    except OSError as error:
        raise explain(error, path) from None
    try:
        return _replace(folder, real.name, data)
    except OSError as error:
        raise explain(error, path) from None
    finally:
        os.close(folder)


def remove_file(sandbox: Sandbox, path: str) -> None:
    real = sandbox.resolve_for_write(path)
    try:
        folder = sandbox.open_folder(real.parent)
        try:
            os.unlink(real.name, dir_fd=folder)
        finally:
            os.close(folder)
    except OSError as error:
        raise explain(error, path) from None


def _replace(folder: int, name: str, data: bytes) -> bool:
    try:
        before = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        before = None
    if before is not None and not stat.S_ISREG(before.st_mode):
        raise IsADirectoryError(21, "not a regular file")
    mode = 0o666 if before is None else stat.S_IMODE(before.st_mode)
    temporary = f".{name[:100]}.{secrets.token_hex(6)}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    file = os.open(temporary, flags, mode, dir_fd=folder)
    try:
        with os.fdopen(file, "wb") as opened:
            if before is not None:
                os.fchmod(file, mode)
            opened.write(data)
        os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary, dir_fd=folder)
        raise
    return before is not None


def _read_file_tool(sandbox: Sandbox) -> Tool:
    async def run(arguments: Arguments) -> ToolResult:
        text = await asyncio.to_thread(read_text, sandbox, arguments["path"])
        offset, limit = arguments.get("offset", 1), arguments.get("limit", DEFAULT_LINES)
        return ToolResult(_lines(text, offset, limit))

    return Tool(
        "read_file",
        "Read a text file, or some of its lines.",
        {
            "type": "object",
            "properties": {
                "path": PATH,
                "offset": {
                    "type": "integer",
                    "minimum": 1,
                    "description": "The first line to show, from 1; 1 if not given.",
                },
                "limit": {
                    "type": "integer",
                    "minimum": 1,
                    "description": f"How many lines to show; {DEFAULT_LINES} if not given.",
                },
            },
            "required": ["path"],
            "additionalProperties": False,
        },
        run,
        read_only=True,
    )


def _lines(text: str, offset: int, limit: int) -> str:
    lines = text.split("\n")
    if lines and not lines[-1]:
        lines.pop()
    if not lines:
        return "[the file is empty]"
    if offset > len(lines):
        raise ToolError(f"the file has {len(lines)} lines; there is no line {offset}")
    shown: list[str] = []
    size = 0
    for line in lines[offset - 1 : offset - 1 + limit]:
        cut = line if len(line) <= LONGEST_SHOWN_LINE else f"{line[:LONGEST_SHOWN_LINE]} [… line cut …]"
        size += len(cut.encode("utf-8", "replace")) + 1
        if shown and size > MAX_OUTPUT_BYTES:
            break
        shown.append(cut)
    last = offset - 1 + len(shown)
    told = "\n".join(shown)
    if offset > 1 or last < len(lines):
        rest = f"; go on with offset {last + 1}" if last < len(lines) else ""
        told += f"\n[lines {offset} to {last} of {len(lines)}{rest}]"
    return told


def _list_dir_tool(sandbox: Sandbox) -> Tool:
    async def run(arguments: Arguments) -> ToolResult:
        return ToolResult(await asyncio.to_thread(_list_dir, sandbox, arguments.get("path", ".")))

    return Tool(
        "list_dir",
        "List a folder: folders end with /, files are shown with their size in bytes.",
        {
            "type": "object",
            "properties": {
                "path": {
                    "type": "string",
                    "description": "A folder, from the workspace; the workspace if not given.",
                }
            },
            "additionalProperties": False,
        },
        run,
        read_only=True,
    )


def _list_dir(sandbox: Sandbox, path: str) -> str:
    real = sandbox.resolve(path)
    try:
        folder = sandbox.open_folder(real)
        try:
            with os.scandir(folder) as entries:
                lines = sorted(_entry(entry) for entry in entries)
        finally:
            os.close(folder)
    except OSError as error:
        raise explain(error, path) from None
    if len(lines) > MAX_ENTRIES:
        lines = [*lines[:MAX_ENTRIES], f"[… and {len(lines) - MAX_ENTRIES} more]"]
    return "\n".join(lines) or "[the folder is empty]"


def _entry(entry: "os.DirEntry[str]") -> str:
    if entry.is_symlink():
        return f"{entry.name} -> (link)"
    if entry.is_dir(follow_symlinks=False):
        return f"{entry.name}/"
    return f"{entry.name} ({entry.stat(follow_symlinks=False).st_size})"


def _write_file_tool(sandbox: Sandbox) -> Tool:
    async def run(arguments: Arguments) -> ToolResult:
        path, text = arguments["path"], arguments["content"]
        data = text.encode("utf-8", "replace")
        existed = await asyncio.to_thread(write_bytes, sandbox, path, data)
        kind = "update" if existed else "add"
        change = {"path": str(Path(path)), "kind": kind, "diff": ""}
        told = f"{'replaced' if existed else 'wrote'} {path} ({len(data)} bytes)"
        return ToolResult(told, details={"changes": [change]})

    return Tool(
        "write_file",
        "Write a whole text file, new or in place of the old one. Folders on the way are made.",
        {
            "type": "object",
            "properties": {
                "path": PATH,
                "content": {"type": "string", "description": "All of the file's text."},
            },
            "required": ["path", "content"],
            "additionalProperties": False,
        },
        run,
        item_kind=TurnItemKind.FILE_CHANGE,
    )
