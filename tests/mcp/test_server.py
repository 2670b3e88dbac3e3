"""`rowcrew mcp` as other programs see it: the official client on a real process, over stdio and over HTTP."""

import asyncio
import csv
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import jsonschema_rs
import pytest
from mcp_types import CallToolResult, TextContent

from mcp import Client
from tests.mcp.conftest import Desk, Era

SPAWN = {"csv_path": "people.csv", "instruction": "Greet {name}", "id_column": "id"}
NAMES = [
    "spawn_agents_on_csv",
    "run_agent_job",
    "get_agent_job_status",
    "wait_agent_job",
    "export_agent_job_csv",
]


def text_of(result: CallToolResult) -> str:
    [content] = result.content
    assert isinstance(content, TextContent)
    return content.text


def values_of(result: CallToolResult) -> dict[str, Any]:
    """The answer, which is there both as text and as structure."""
    assert not result.is_error, text_of(result)
    values: dict[str, Any] = result.structured_content
    assert json.loads(text_of(result)) == values
    return values


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_the_tools_are_listed_with_schemas_that_validate(desk: Desk, mode: Era) -> None:
    async with desk.client(mode=mode) as client:
        tools = (await client.list_tools()).tools
    assert [tool.name for tool in tools] == NAMES
    for tool in tools:
        jsonschema_rs.meta.validate(tool.input_schema)
        assert tool.description
        assert tool.annotations is not None
    assert [tool.name for tool in tools if tool.annotations and tool.annotations.read_only_hint] == [
        "get_agent_job_status",
        "wait_agent_job",
    ]


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_a_table_comes_back_with_progress_on_the_way(desk: Desk, mode: Era) -> None:
    heard: list[tuple[float, float | None]] = []

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        assert message
        heard.append((progress, total))

    async with desk.client(mode=mode) as client:
        result = await client.call_tool(
            "spawn_agents_on_csv", {**SPAWN, "output_csv_path": "out.csv"}, None, hear
        )
        answer = values_of(result)
        exported = values_of(
            await client.call_tool("export_agent_job_csv", {"job_id": answer["job_id"], "path": "again.csv"})
        )
    output = desk.folder / "out.csv"
    assert answer == {
        "job_id": answer["job_id"],
        "status": "completed",
        "output_csv_path": str(output),
        "total_items": 3,
        "completed_items": 2,
        "failed_items": 1,
        "job_error": None,
        "failed_item_errors": [{"item_id": "8", "source_id": "8", "last_error": "ValueError: no Grace"}],
    }
    assert [row["status"] for row in csv.DictReader(output.read_text().splitlines())] == [
        "completed",
        "failed",
        "completed",
    ]
    assert (exported["row_count"], (desk.folder / "again.csv").read_text()) == (3, output.read_text())
    assert heard == sorted(set(heard))
    assert {total for _, total in heard} == {3}


async def test_every_error_is_an_answer_of_the_tool(desk: Desk) -> None:
    async with desk.client() as client:

        async def refusal(name: str, **arguments: Any) -> str:
            result = await client.call_tool(name, arguments)
            assert result.is_error
            return text_of(result)

        assert "did you mean `csv_path`?" in await refusal("spawn_agents_on_csv", csv_pat="people.csv")
        assert await refusal("spawn_agents_on_csv", **{**SPAWN, "csv_path": "no.csv"}) == (
            f"there is no file {desk.folder / 'no.csv'}. Hint: looked in {desk.folder}"
        )
        assert "Hint:" in await refusal("get_agent_job_status", job_id="12345678")
        assert "`job_id` takes" not in await refusal("wait_agent_job")
        assert (await refusal("report_agent_job_result", job_id="1")).startswith("there is no tool")
        # And the connection is as good as before.
        assert len((await client.list_tools()).tools) == 5


async def test_a_call_that_would_last_too_long_answers_and_the_job_goes_on(desk: Desk) -> None:
    async with desk.client("gated", "--max-wait", "0") as client:
        answer = values_of(await client.call_tool("spawn_agents_on_csv", SPAWN))
        assert "wait_agent_job" in answer["next"]
        waited = values_of(
            await client.call_tool("wait_agent_job", {"job_id": answer["job_id"], "timeout_ms": 1000})
        )
        assert (waited["timed_out"], waited["status"]["runner_active"]) == (True, True)


async def test_a_cancelled_call_leaves_its_job_running_and_the_next_server_resumes_it(desk: Desk) -> None:
    first_done = asyncio.Event()

    async def hear(progress: float, _total: float | None, _message: str | None) -> None:
        if progress >= 1:
            first_done.set()

    async with desk.client("gated") as client:
        call = asyncio.create_task(client.call_tool("spawn_agents_on_csv", SPAWN, None, hear))
        await first_done.wait()
        call.cancel()
        await asyncio.wait({call})
        again = await client.call_tool("spawn_agents_on_csv", SPAWN)
        assert again.is_error
        short_id = text_of(again).partition("with job_id `")[2].partition("`")[0]
        status = values_of(await client.call_tool("get_agent_job_status", {"job_id": short_id}))
        assert (status["status"], status["completed_items"], status["runner_active"]) == ("running", 1, True)

    (desk.folder / "open").touch()
    async with desk.client("gated") as client:
        job = {"job_id": status["job_id"]}
        stopped = values_of(await client.call_tool("get_agent_job_status", job))
        assert (stopped["status"], stopped["paused_reason"]) == ("paused", "interrupted")
        assert values_of(await client.call_tool("run_agent_job", job))["started"] is True
        ended = values_of(await client.call_tool("wait_agent_job", job))
        assert (ended["timed_out"], ended["status"]["completed_items"]) == (False, 3)


@asynccontextmanager
async def http_server(desk: Desk, worker: str, *options: str) -> AsyncIterator[tuple[str, Any]]:
    """A server process over HTTP: its address, and the process."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *desk.words(worker, "--http", "0", *options),
        cwd=desk.folder,
        env={**os.environ},
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stderr is not None
    try:
        line = (await process.stderr.readline()).decode()
        assert line.startswith("Serving MCP at http://127.0.0.1:"), line
        yield line.split()[-1], process
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGTERM)
        await process.communicate()


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_over_http_two_clients_share_the_jobs(desk: Desk, mode: Era) -> None:
    async with http_server(desk, "greet") as (url, _):
        async with Client(url, mode=mode) as one:
            answer = values_of(await one.call_tool("spawn_agents_on_csv", SPAWN))
        async with Client(url, mode=mode) as two:
            status = values_of(await two.call_tool("get_agent_job_status", {"job_id": answer["job_id"]}))
            wrong = await two.call_tool("get_agent_job_status", {"job": "1"})
    assert (status["status"], status["completed_items"]) == ("completed", 2)
    assert wrong.is_error


async def test_a_web_page_cannot_use_the_http_server(desk: Desk) -> None:
    async with http_server(desk, "greet") as (url, _), httpx2.AsyncClient() as browser:
        headers = {"Origin": "http://evil.example", "Accept": "application/json, text/event-stream"}
        answer = await browser.post(url, json={}, headers=headers)
    assert answer.status_code == 403


async def test_a_signal_pauses_the_jobs_of_an_http_server_whose_clients_hold_on(desk: Desk) -> None:
    async with (
        http_server(desk, "gated", "--max-wait", "0") as (url, process),
        Client(url, mode="legacy") as client,
    ):
        job_id = values_of(await client.call_tool("spawn_agents_on_csv", SPAWN))["job_id"]
        process.send_signal(signal.SIGINT)
        _, said = await process.communicate()
    assert process.returncode == 130
    assert b"Stopping. Jobs that run here are paused" in said
    async with desk.client() as client:
        status = values_of(await client.call_tool("get_agent_job_status", {"job_id": job_id}))
    assert (status["status"], status["paused_reason"]) == ("paused", "interrupted")


async def test_the_next_server_goes_on_after_one_that_was_killed(desk: Desk) -> None:
    async with http_server(desk, "gated", "--max-wait", "0") as (url, process):
        async with Client(url, mode="legacy") as client:
            job = {"job_id": values_of(await client.call_tool("spawn_agents_on_csv", SPAWN))["job_id"]}
        process.kill()
        await process.wait()
    (desk.folder / "open").touch()
    async with desk.client() as client:
        left = values_of(await client.call_tool("get_agent_job_status", job))
        assert (left["status"], left["runner_active"]) == ("running", False)
        assert values_of(await client.call_tool("run_agent_job", job))["started"] is True
        ended = values_of(await client.call_tool("wait_agent_job", job))
    assert (ended["timed_out"], ended["status"]["completed_items"]) == (False, 3)


async def test_a_port_that_is_taken_is_refused(desk: Desk) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        done = await asyncio.to_thread(run, desk, "greet", "--http", port)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"cannot listen on 127.0.0.1:{port}" in done.stderr
    assert "Hint: choose another port" in done.stderr


def run(desk: Desk, worker: str, *options: str, said: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *desk.words(worker, *options)],
        cwd=desk.folder,
        input=said,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


HELLO = [
    {
        "jsonrpc": "2.0",
        "id": 0,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"},
        },
    },
    {"jsonrpc": "2.0", "method": "notifications/initialized"},
]


def test_standard_output_carries_frames_only_and_each_line_is_answered(desk: Desk) -> None:
    call = {"name": "spawn_agents_on_csv", "arguments": {**SPAWN, "job_name": "\ud800"}}
    lines = [
        "this is no JSON",
        *map(json.dumps, HELLO),
        "",
        '{"id": 1, "method": "tools/list"}',
        json.dumps({"jsonrpc": "2.0", "id": 2, "method": "no/such"}),
        json.dumps({"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": {"name": 5}}),
        json.dumps({"jsonrpc": "2.0", "id": 4, "method": "tools/call", "params": call}),
    ]
    with subprocess.Popen(
        [sys.executable, *desk.words("greet")],
        cwd=desk.folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("\n".join(lines) + "\n")
        process.stdin.flush()
        frames = [json.loads(process.stdout.readline()) for _ in range(6)]
        rest, noise = process.communicate()
    assert (process.returncode, rest) == (0, "")
    answers = {frame["id"]: frame.get("error", {}).get("code", "result") for frame in frames}
    assert answers == {None: -32700, 0: "result", 1: -32600, 2: -32601, 3: -32602, 4: "result"}
    assert "more noise" in noise
    assert "Traceback" not in noise


async def test_a_signal_ends_a_stdio_server_whose_client_says_nothing(desk: Desk) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *desk.words("greet"),
        cwd=desk.folder,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdin.write(json.dumps(HELLO[0]).encode() + b"\n")
    await process.stdout.readline()
    process.send_signal(signal.SIGTERM)
    assert await process.wait() == 143
    assert (await process.stderr.read()).startswith(b"Stopping.")


def test_without_the_extra_it_says_what_to_install(desk: Desk) -> None:
    (desk.folder / "mcp.py").write_text("raise ModuleNotFoundError('no mcp here', name='mcp')")
    done = run(desk, "greet")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "Error: the MCP server needs a package that is not installed\nHint: pip install 'rowcrew[mcp]'\n"
    )


def test_the_folder_of_the_server_can_be_chosen(desk: Desk, tmp_path: Path) -> None:
    call = {"name": "spawn_agents_on_csv", "arguments": {**SPAWN, "csv_path": "none.csv"}}
    lines = [*HELLO, {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}]
    done = run(desk, "greet", "-C", str(tmp_path), said="\n".join(map(json.dumps, lines)) + "\n")
    assert f"looked in {tmp_path}" in done.stdout
