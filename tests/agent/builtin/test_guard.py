"""What would widen later runs is not written, whether it is there or not, and nothing is left behind."""

import asyncio
import fcntl
import os
import shutil
import sys
from pathlib import Path

import pytest

from rowcrew.agent.builtin import Sandbox, builtin_tools, shell_tool
from rowcrew.agent.builtin.guard import places
from rowcrew.agent.builtin.sandbox import INSTALL_BUBBLEWRAP
from rowcrew.agent.tools import ToolCall, ToolError, ToolRegistry, ToolResult

HOOK = "mkdir -p .git/hooks; echo evil > .git/hooks/post-commit"
SETTINGS = "echo 'sandbox_mode = \"danger-full-access\"' > rowcrew.toml"


async def run(sandbox: Sandbox, command: str) -> ToolResult:
    return await ToolRegistry([shell_tool(sandbox)]).run(ToolCall("1", "shell", {"command": command}))


async def write(sandbox: Sandbox, path: str) -> ToolResult:
    arguments = {"path": path, "content": "evil"}
    return await ToolRegistry(builtin_tools(sandbox)).run(ToolCall("1", "write_file", arguments))


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    """A workspace in which nothing protected is there yet."""
    folder = tmp_path / "bare"
    folder.mkdir()
    return folder


@pytest.mark.usefixtures("bubblewrap")
@pytest.mark.parametrize(
    "command", [HOOK, SETTINGS, "git init", "mv .git x", "rmdir .git rowcrew.toml; " + HOOK]
)
async def test_what_is_protected_cannot_be_made_either(bare: Path, command: str) -> None:
    await run(Sandbox.open("workspace-write", bare), f"{command}; echo good > new")
    assert names(bare) == ["new"]


@pytest.mark.usefixtures("bubblewrap")
async def test_a_place_is_kept_until_the_last_command_has_ended(bare: Path) -> None:
    sandbox = Sandbox.open("workspace-write", bare)
    os.mkfifo(bare / "go")
    waiting = asyncio.create_task(run(sandbox, f"touch up; cat go; {HOOK}; {SETTINGS}"))
    async with asyncio.timeout(30):
        while not (bare / "up").exists():
            await run(sandbox, "true")
        await asyncio.to_thread((bare / "go").write_text, "go")
        await waiting
    assert names(bare) == ["go", "up"]


def test_a_place_is_only_removed_by_who_has_it_alone_and_only_when_it_is_empty(bare: Path) -> None:
    with places([bare], ()) as kept:
        assert sorted(kept) == [bare / ".git", bare / "rowcrew.toml"]
        other = os.open(bare / ".git", os.O_RDONLY)
        fcntl.flock(other, fcntl.LOCK_SH)
        (bare / "rowcrew.toml" / "made").touch()
    os.close(other)
    assert names(bare) == [".git", "rowcrew.toml"]
    # What a killed process has left is found, used and removed.
    with places([bare], ()):
        pass
    assert names(bare) == ["rowcrew.toml"]


def test_a_link_in_the_place_of_what_is_protected_switches_the_shell_off(bare: Path) -> None:
    (bare / ".git").symlink_to("elsewhere")
    with pytest.raises(ToolError, match="is a symbolic link, which cannot be protected"), places([bare], ()):
        pass


@pytest.mark.usefixtures("bubblewrap")
async def test_where_a_git_file_leads_is_protected_too(bare: Path) -> None:
    (bare / "real.git").mkdir()
    (bare / ".git").write_text("gitdir: real.git\n", encoding="utf-8")
    await run(
        Sandbox.open("workspace-write", bare), "echo evil > real.git/config; mv real.git x; echo x > .git"
    )
    assert names(bare) == [".git", "real.git"]
    assert (names(bare / "real.git"), (bare / ".git").read_text("utf-8")) == ([], "gitdir: real.git\n")


@pytest.mark.usefixtures("bubblewrap")
async def test_the_home_and_rowcrews_own_python_are_not_written(
    bare: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("home", "venv"):
        (bare / name).mkdir()
    monkeypatch.setattr(sys, "prefix", str(bare / "venv"))
    sandbox = Sandbox.open("workspace-write", bare, protected=[bare / "home"])
    await run(sandbox, "touch home/x venv/x; mv venv away; touch good")
    refused = [(await write(sandbox, path)).output for path in ("home/x", "venv/lib/x")]
    assert refused == [
        f"'home/x' cannot be written: `{bare}/home` is protected",
        f"'venv/lib/x' cannot be written: `{bare}/venv` is protected",
    ]
    assert [names(bare), names(bare / "home"), names(bare / "venv")] == [["good", "home", "venv"], [], []]


async def test_a_workspace_in_the_environment_itself_can_be_written(
    bare: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "prefix", str(bare.parent))
    assert (await write(Sandbox.open("workspace-write", bare), "good")).ok


@pytest.mark.parametrize("place", ["bin", "."])
async def test_a_bubblewrap_that_an_agent_could_have_written_is_not_run(
    bare: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    monkeypatch.chdir(bare)
    fake = bare / place / "bwrap"
    fake.parent.mkdir(exist_ok=True)
    fake.write_text("#!/bin/sh\necho evil > ran\n", encoding="utf-8")
    fake.chmod(0o755)
    path = place if place == "." else str(fake.parent)
    sandbox = Sandbox.open("workspace-write", bare, environment={"PATH": path})
    assert (await run(sandbox, "true")).output == INSTALL_BUBBLEWRAP
    assert "ran" not in names(bare)


@pytest.mark.usefixtures("bubblewrap")
async def test_a_real_repository_can_be_worked_in_and_its_hooks_not_changed(bare: Path) -> None:
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    git = "git -c user.name=a -c user.email=a@b -c safe.directory=*"
    await run(
        Sandbox.open("danger-full-access", bare),
        f"{git} init -q && echo x > a && {git} add a && {git} commit -qm a",
    )
    sandbox = Sandbox.open("workspace-write", bare)
    done = await run(
        sandbox, f"echo y > a; {git} status --porcelain; {git} config core.fsmonitor evil; {HOOK}"
    )
    assert done.output.startswith(" M a\n")
    assert "evil" not in (bare / ".git" / "config").read_text("utf-8")
    assert not (bare / ".git" / "hooks" / "post-commit").exists()
