"""Reading, listing and writing files: what comes back, and what is off limits in which mode."""

import os
import stat
from pathlib import Path
from typing import Any

import pytest

from rowcrew.agent.builtin import Sandbox, SandboxMode, builtin_tools
from rowcrew.agent.builtin.files import write_bytes
from rowcrew.agent.tools import ToolError, ToolResult
from rowcrew.errors import InvalidRequest

OUTSIDE = [
    "../secret.txt",
    "leak",
    "out/secret.txt",
    "src/../../secret.txt",
    "/etc/hostname",
    "./out/../secret.txt",
]


@pytest.mark.parametrize("mode", ["read-only", "workspace-write"])
@pytest.mark.parametrize("path", OUTSIDE)
@pytest.mark.parametrize("tool", ["read_file", "list_dir", "search_files"])
async def test_nothing_outside_the_workspace_is_read(call: Any, mode: str, path: str, tool: str) -> None:
    result = await call(tool, mode, path=path, **({"pattern": "."} if tool == "search_files" else {}))
    assert (result.ok, "is outside the workspace" in result.output) == (False, True)


@pytest.mark.parametrize("path", [*OUTSIDE, "out/new.txt", "../new.txt", "/new.txt"])
async def test_nothing_outside_the_workspace_is_written(call: Any, everything: Any, path: str) -> None:
    before = everything()
    result = await call("write_file", path=path, content="x")
    assert (result.ok, "is outside the workspace" in result.output) == (False, True)
    patch = f"*** Begin Patch\n*** Add File: {path}\n+x\n*** End Patch"
    assert not (await call("apply_patch", patch=patch)).ok
    assert everything() == before


@pytest.mark.parametrize("path", [".git/hooks/pre-commit", ".GIT/config", "src/.git/config", "rowcrew.toml"])
async def test_what_would_widen_later_runs_is_not_written(call: Any, everything: Any, path: str) -> None:
    before = everything()
    result = await call("write_file", path=path, content="x")
    assert (result.ok, result.output.endswith("is protected")) == (False, True)
    assert everything() == before


async def test_read_only_offers_no_tool_that_writes_and_writes_nothing(call: Any, workspace: Path) -> None:
    names = {tool.name for tool in builtin_tools(Sandbox.open("read-only", workspace))}
    assert names == {"shell", "read_file", "list_dir", "search_files"}
    result = await call("write_file", "read-only", path="a", content="x")
    assert result.output.startswith("there is no tool `write_file`")
    with pytest.raises(ToolError, match="this sandbox is read-only"):
        write_bytes(Sandbox.open("read-only", workspace), "a", b"x")


async def test_full_access_reaches_outside(call: Any, outside: Path) -> None:
    assert (await call("read_file", "danger-full-access", path="../secret.txt")).output == "the secret"
    assert (await call("write_file", "danger-full-access", path="../new.txt", content="x")).ok
    assert (outside / "new.txt").read_text(encoding="utf-8") == "x"


async def test_a_link_put_in_place_between_check_and_open_is_not_followed(
    workspace: Path, outside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sandbox = Sandbox.open("workspace-write", workspace)
    resolve = Sandbox.resolve

    def resolve_then_swap(self: Sandbox, path: str) -> Path:
        real = resolve(self, path)
        (workspace / "src").rename(workspace / "moved")
        (workspace / "src").symlink_to(outside)
        return real

    monkeypatch.setattr(Sandbox, "resolve", resolve_then_swap)
    with pytest.raises(ToolError, match="leads through a file or a link"):
        write_bytes(sandbox, "src/secret.txt", b"changed")
    assert (outside / "secret.txt").read_text(encoding="utf-8") == "the secret\n"


async def test_a_file_is_read_whole_or_in_part(call: Any) -> None:
    assert (await call("read_file", path="notes.txt")).output == "one\ntwo\nthree"
    part = await call("read_file", path="notes.txt", offset=2, limit=1)
    assert part.output == "two\n[lines 2 to 2 of 3; go on with offset 3]"
    assert (await call("read_file", path="notes.txt", offset=3)).output == "three\n[lines 3 to 3 of 3]"
    result = await call("read_file", path="notes.txt", offset=9)
    assert result == ToolResult("the file has 3 lines; there is no line 9", ok=False)


async def test_a_long_file_comes_in_bounded_parts(call: Any, workspace: Path) -> None:
    (workspace / "long.txt").write_text(
        "x" * 5000 + "\n" + "y" * 99 + "\n" + "line\n" * 30_000, encoding="utf-8"
    )
    result = await call("read_file", path="long.txt", limit=30_000)
    assert result.output.startswith("x" * 2000 + " [… line cut …]\n" + "y" * 99 + "\nline\n")
    assert len(result.output) < 30_000
    assert "go on with offset" in result.output[-60:]


async def test_what_is_no_text_file_is_said_to_be_none(call: Any, workspace: Path) -> None:
    (workspace / "binary").write_bytes(b"a\0b")
    (workspace / "empty").write_bytes(b"")
    (workspace / "latin").write_bytes(b"caf\xe9")
    os.mkfifo(workspace / "pipe")
    answers = {
        path: (await call("read_file", path=path)).output
        for path in ("binary", "empty", "latin", "pipe", "src", "none", "notes.txt/x", "", "a\0b")
    }
    assert answers == {
        "binary": "'binary' is not a text file",
        "empty": "[the file is empty]",
        "latin": "caf\ufffd",
        "pipe": "'pipe' is not a regular file",
        "src": "'src' is not a regular file",
        "none": "there is no 'none'",
        "notes.txt/x": "'notes.txt/x' is not a folder, or leads through a file or a link",
        "": "a path must be text without NUL characters, and not empty",
        "a\0b": "a path must be text without NUL characters, and not empty",
    }


async def test_a_folder_is_listed_with_sizes_links_and_folders(call: Any, workspace: Path) -> None:
    listed = (await call("list_dir")).output
    assert listed == ".git/\nleak -> (link)\nnotes.txt (14)\nout -> (link)\nsrc/"
    (workspace / "many").mkdir()
    for number in range(502):
        (workspace / "many" / f"{number:03}").touch()
    assert (await call("list_dir", path="many")).output.endswith("499 (0)\n[… and 2 more]")
    (workspace / "none").mkdir()
    assert (await call("list_dir", path="none")).output == "[the folder is empty]"
    assert (await call("list_dir", path="notes.txt")).output.startswith("'notes.txt' is not a folder")


async def test_a_file_is_written_new_and_replaced_with_its_mode(call: Any, workspace: Path) -> None:
    result = await call("write_file", path="a/b/c.txt", content="né\n")
    assert result.output == "wrote a/b/c.txt (4 bytes)"
    assert result.details == {"changes": [{"path": "a/b/c.txt", "kind": "add", "diff": ""}]}
    (workspace / "notes.txt").chmod(0o750)
    assert (
        await call("write_file", path="notes.txt", content="new")
    ).output == "replaced notes.txt (3 bytes)"
    assert stat.S_IMODE((workspace / "notes.txt").stat().st_mode) == 0o750
    listed = (await call("list_dir")).output.splitlines()
    assert listed == [".git/", "a/", "leak -> (link)", "notes.txt (3)", "out -> (link)", "src/"]


async def test_a_hard_link_to_a_file_outside_does_not_lead_there(
    call: Any, workspace: Path, outside: Path
) -> None:
    os.link(outside / "secret.txt", workspace / "hard")
    assert (await call("write_file", path="hard", content="changed")).ok
    assert (outside / "secret.txt").read_text(encoding="utf-8") == "the secret\n"


async def test_a_folder_is_not_replaced_by_a_file(call: Any) -> None:
    assert (await call("write_file", path="src", content="x")).output == "'src' is a folder"
    assert (await call("write_file", path=".", content="x")).output == "'.' is the workspace itself"


async def test_a_further_folder_can_be_opened_to_writing(workspace: Path, outside: Path) -> None:
    (outside / "more").mkdir()
    sandbox = Sandbox.open("workspace-write", workspace, also_writable=[outside / "more"])
    assert write_bytes(sandbox, str(outside / "more" / "x"), b"1") is False
    with pytest.raises(ToolError, match="outside the workspace"):
        write_bytes(sandbox, str(outside / "x"), b"1")


def test_a_mode_or_a_folder_that_is_none_is_refused(workspace: Path) -> None:
    with pytest.raises(InvalidRequest, match="no sandbox mode 'open'"):
        Sandbox.open("open", workspace)
    with pytest.raises(InvalidRequest, match="there is no folder"):
        Sandbox.open(SandboxMode.READ_ONLY, workspace / "none")
