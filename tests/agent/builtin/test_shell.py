"""The shell tool: what a command can do in each mode, how it ends, and that nothing of it is left."""

import asyncio
import os
import shlex
import socket
from pathlib import Path
from typing import Any

import pytest

from rowcrew.agent.builtin import Sandbox, shell_tool
from rowcrew.agent.builtin.output import BoundedOutput, bound
from rowcrew.agent.builtin.sandbox import INSTALL_BUBBLEWRAP
from rowcrew.agent.tools import ToolCall, ToolRegistry

FREE = "danger-full-access"


async def test_output_and_errors_come_back_with_the_exit_code(call: Any, workspace: Path) -> None:
    result = await call("shell", FREE, command="pwd; echo oops >&2; exit 3", workdir="src")
    assert (result.ok, result.output) == (False, f"{workspace}/src\noops\n\n[exit code 3]")
    assert result.details == {
        "command": "pwd; echo oops >&2; exit 3",
        "folder": f"{workspace}/src",
        "exit_code": 3,
    }
    assert (await call("shell", FREE, command="true")).output == "[exit code 0]"
    assert (await call("shell", FREE, command="x", workdir="none")).output == "there is no folder 'none'"
    assert (await call("shell", FREE, command="a\0b")).output == "a command line cannot hold a NUL character"


async def test_a_command_that_takes_too_long_is_ended_with_all_it_started(call: Any, workspace: Path) -> None:
    fifo = workspace / "alive"
    os.mkfifo(fifo)
    # The child holds the pipe open for as long as it lives.
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    result = await call("shell", FREE, command="echo begun; sleep 100 >alive & sleep 100", timeout_ms=1500)
    assert (result.ok, result.output) == (False, "begun\n\n[ended after 1.5 s]")
    assert result.details["exit_code"] is None
    assert await next_of(reader) == b""
    os.close(reader)


async def next_of(reader: int) -> bytes:
    """What comes next out of a pipe; nothing when nobody holds its other end any more."""
    come = asyncio.Event()
    asyncio.get_running_loop().add_reader(reader, come.set)
    try:
        async with asyncio.timeout(30):
            await come.wait()
    finally:
        asyncio.get_running_loop().remove_reader(reader)
    return os.read(reader, 10)


async def test_what_runs_on_in_the_background_does_not_outlive_the_command(call: Any) -> None:
    async with asyncio.timeout(30):
        assert (await call("shell", FREE, command="sleep 100 & echo done")).output == "done\n\n[exit code 0]"


async def test_a_cancelled_command_is_gone(call: Any, workspace: Path) -> None:
    fifo = workspace / "alive"
    os.mkfifo(fifo)
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    running = asyncio.create_task(call("shell", FREE, command="exec >alive; echo up; sleep 100"))
    assert await next_of(reader) == b"up\n"
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert await next_of(reader) == b""
    os.close(reader)


def test_long_output_keeps_its_head_and_its_tail() -> None:
    output = BoundedOutput(20)
    for number in range(100):
        output.add(b"%02d " % number)
    assert output.text() == "00 01 02 0\n[… 280 bytes left out …]\n 97 98 99 "
    assert bound("short") == "short"
    assert bound("aéb", 4) == "aéb"
    assert bound("x" * 10, 4) == "xx\n[… 6 bytes left out …]\nxx"


async def test_a_flood_of_output_is_bounded(call: Any) -> None:
    result = await call("shell", FREE, command="head -c 20000000 /dev/zero | tr '\\0' x; echo; echo end")
    assert len(result.output) < 30_000
    assert result.output.endswith("x\nend\n\n[exit code 0]")
    assert "bytes left out" in result.output


@pytest.mark.parametrize("mode", ["read-only", "workspace-write"])
async def test_without_bubblewrap_the_shell_is_refused_and_runs_nothing(
    workspace: Path, everything: Any, mode: str
) -> None:
    before = everything()
    sandbox = Sandbox.open(mode, workspace, environment={"PATH": str(workspace)})
    registry = ToolRegistry([shell_tool(sandbox)])
    result = await registry.run(ToolCall("1", "shell", {"command": "touch ran; /bin/touch ran"}))
    assert (result.ok, result.output) == (False, INSTALL_BUBBLEWRAP)
    assert everything() == before


# Each tries to write outside the workspace, or where a later run would trust what it finds.
ESCAPES = [
    "echo x > ../new",
    "echo x > out/new",
    "echo x >> leak",
    "echo x > /etc/new",
    "echo x > .git/hooks/pre-commit",
    "mv .git old",
    "rm -rf .git",
    "ln -s ../secret.txt s && echo x > s",
    "mount -o remount,rw / || umount /usr",
    "unshare -Ur sh -c 'mount -o remount,rw,bind .git && echo x > .git/y'",
]


@pytest.mark.usefixtures("bubblewrap")
@pytest.mark.parametrize(
    "command", [*ESCAPES, "echo x > new", "rm notes.txt", "mkdir d", "echo x > src/app.py"]
)
async def test_read_only_writes_nothing_anywhere(call: Any, everything: Any, command: str) -> None:
    before = everything()
    await call("shell", "read-only", command=command)
    assert everything() == before


@pytest.mark.usefixtures("bubblewrap")
@pytest.mark.parametrize("command", ESCAPES)
async def test_workspace_write_writes_nothing_outside(call: Any, everything: Any, command: str) -> None:
    before = everything()
    await call("shell", "workspace-write", command=command)
    assert everything() == before


@pytest.mark.usefixtures("bubblewrap")
@pytest.mark.parametrize(
    "command", ["echo x > /new", "mkdir /x", "echo x > /etc/new", "echo x > .git/config"]
)
async def test_a_write_that_is_not_allowed_is_told_to_the_command(call: Any, command: str) -> None:
    result = await call("shell", command=command)
    assert (result.ok, "Read-only file system" in result.output) == (False, True)


@pytest.mark.usefixtures("bubblewrap")
async def test_workspace_write_writes_in_the_workspace(call: Any, workspace: Path) -> None:
    result = await call("shell", command="echo x > src/new && echo y > /tmp/y && cat /tmp/y src/new && pwd")
    assert result.output == f"y\nx\n{workspace}\n\n[exit code 0]"
    assert (workspace / "src" / "new").read_text(encoding="utf-8") == "x\n"


@pytest.mark.usefixtures("bubblewrap")
@pytest.mark.parametrize("mode", ["read-only", "workspace-write"])
async def test_what_lies_outside_is_not_even_seen(call: Any, mode: str, outside: Path) -> None:
    secret = shlex.quote(str(outside / "secret.txt"))
    result = await call("shell", mode, command=f"cat {secret}; cat leak; ls /home /root /run 2>&1")
    assert (result.ok, "the secret" in result.output) == (False, False)


@pytest.mark.usefixtures("bubblewrap")
@pytest.mark.parametrize("mode", ["read-only", "workspace-write"])
async def test_there_is_no_network_and_no_socket_of_the_machine(call: Any, mode: str, outside: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        result = await call("shell", mode, command=f"exec 3<>/dev/tcp/127.0.0.1/{port}")
    assert not result.ok


@pytest.mark.usefixtures("bubblewrap")
async def test_no_secret_of_the_environment_reaches_a_confined_command(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment = {**os.environ, "SOME_API_KEY": "s3cret"}
    registry = ToolRegistry([shell_tool(Sandbox.open("read-only", workspace, environment=environment))])
    command = "env; cat /proc/*/environ | tr '\\0' '\\n'"
    result = await registry.run(ToolCall("1", "shell", {"command": command}))
    assert (f"HOME={workspace}" in result.output, "s3cret" in result.output) == (True, False)


@pytest.mark.usefixtures("bubblewrap")
async def test_a_confined_command_is_ended_with_all_it_started(call: Any) -> None:
    async with asyncio.timeout(30):
        slow = await call("shell", command="setsid sleep 100 & sleep 100", timeout_ms=700)
        assert slow.output == "[ended after 0.7 s]"
        assert (await call("shell", command="setsid sleep 100 & echo ok")).output == "ok\n\n[exit code 0]"


@pytest.mark.usefixtures("bubblewrap")
async def test_the_whole_machine_is_no_workspace_for_a_confined_shell() -> None:
    registry = ToolRegistry([shell_tool(Sandbox.open("read-only", Path("/")))])
    result = await registry.run(ToolCall("1", "shell", {"command": "true"}))
    assert result.output.startswith("the shell is off: the workspace is the whole machine")
