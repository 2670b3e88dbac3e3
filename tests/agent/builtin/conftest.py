"""A workspace with something outside of it, and a way to call a tool in it."""

import shutil
import subprocess
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from rowcrew.agent.builtin import Sandbox, SandboxMode, builtin_tools
from rowcrew.agent.tools import ToolCall, ToolRegistry, ToolResult


def _why_no_bubblewrap() -> str | None:
    bubblewrap = shutil.which("bwrap")
    if bubblewrap is None:
        return "bubblewrap is not installed"
    done = subprocess.run(
        [bubblewrap, "--unshare-all", "--ro-bind", "/", "/", "true"],
        capture_output=True,
        text=True,
        check=False,
    )
    return f"bubblewrap does not work here: {done.stderr.strip()}" if done.returncode else None


@pytest.fixture(scope="session")
def bubblewrap() -> None:
    """For tests that need the sandbox of commands."""
    if why := _why_no_bubblewrap():
        pytest.skip(why)


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    (tmp_path / "secret.txt").write_text("the secret\n", encoding="utf-8")
    return tmp_path


@pytest.fixture
def workspace(outside: Path) -> Path:
    folder = outside / "workspace"
    (folder / "src").mkdir(parents=True)
    (folder / "src" / "app.py").write_text("import os\n\nprint('hello')\n", encoding="utf-8")
    (folder / "notes.txt").write_text("one\ntwo\nthree\n", encoding="utf-8")
    (folder / ".git" / "hooks").mkdir(parents=True)
    (folder / ".git" / "config").write_text("[core]\n", encoding="utf-8")
    (folder / "out").symlink_to(outside)
    (folder / "leak").symlink_to(outside / "secret.txt")
    return folder


Call = Callable[..., Awaitable[ToolResult]]


@pytest.fixture
def call(workspace: Path) -> Call:
    async def call(name: str, mode: str = "workspace-write", **arguments: Any) -> ToolResult:
        registry = ToolRegistry(builtin_tools(Sandbox.open(SandboxMode(mode), workspace)))
        return await registry.run(ToolCall("1", name, arguments))

    return call


def snapshot(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): path.read_text(encoding="utf-8")
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.is_symlink()
    }


@pytest.fixture
def everything(outside: Path, workspace: Path) -> Callable[[], dict[str, str]]:
    """All files inside and outside, to compare before and after."""
    return lambda: snapshot(outside)
