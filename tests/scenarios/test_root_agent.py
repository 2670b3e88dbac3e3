"""A root agent that runs a job, through the real command. The scripted model plays it and its workers."""

import asyncio
import csv
import json
import os
import re
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from rowcrew.testing import CallTool, ModelServer, Reply, Silence
from rowcrew.testing.answers import Received, Script

PROMPT = b"Make a CSV of five paths, have each file scored, and tell me where the table is."
PATHS = [f"src/part_{number}.py" for number in range(5)]
SCHEMA = {"type": "object", "properties": {"score": {"type": "integer"}}, "required": ["score"]}
JOB = {
    "csv_path": "paths.csv",
    "instruction": "Read the file {path} and score it from 0 to 9.",
    "output_csv_path": "scored.csv",
    "output_schema": SCHEMA,
}
CODE = "import sys; from rowcrew.cli.main import main; sys.exit(main(sys.argv[1:]))"
PATIENCE = 60.0


@dataclass
class Ended:
    code: int
    out: str
    err: str
    at: float


class Command:
    """`rowcrew exec … -` in a process of its own."""

    def __init__(self, folder: Path, server: ModelServer) -> None:
        self.folder = folder
        self.server = server

    async def start(self, *arguments: str) -> asyncio.subprocess.Process:
        flags = ["--enable", "collab", "--enable", "sqlite", "--full-auto", "-C", str(self.folder)]
        model = ["-m", "m", "--base-url", self.server.url]
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", CODE, "exec", *flags, *model, *arguments, "-"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=os.environ,
        )
        assert process.stdin is not None
        process.stdin.write(PROMPT)
        process.stdin.close()
        return process

    async def end(self, process: asyncio.subprocess.Process) -> Ended:
        async with asyncio.timeout(PATIENCE):
            out, err = await process.communicate()
        assert process.returncode is not None
        return Ended(process.returncode, out.decode(), err.decode(), time.monotonic())

    async def run(self, *arguments: str) -> Ended:
        return await self.end(await self.start(*arguments))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A small repository."""
    for number, path in enumerate(PATHS):
        file = tmp_path / "repository" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"VALUE = {number}\n")
    return tmp_path / "repository"


def is_worker(received: Received) -> bool:
    return "report_agent_job_result" in received.tool_names


def work(received: Received) -> Reply:
    """A worker: it reads its file, then reports the number in it."""
    outputs = list(received.tool_outputs.values())
    if not outputs:
        found = re.search(r"Read the file (\S+) and", received.text)
        assert found
        return Reply(calls=[CallTool("read_file", {"path": found[1]})])
    score = re.search(r"VALUE = (\d)", outputs[0])
    return report(received, {"score": int(score[1]) if score else -1})


def report(received: Received, result: Any) -> Reply:
    named = re.search(r"Job ID: (\S+)\nItem ID: (\S+)", received.text)
    assert named
    values = {"job_id": named[1], "item_id": named[2], "result": result}
    return Reply(calls=[CallTool("report_agent_job_result", values)])


def lead(received: Received) -> Reply:
    """The root: the table, the job, then what has become of it."""
    outputs = list(received.tool_outputs.values())
    if not outputs:
        content = "path\n" + "".join(f"{path}\n" for path in PATHS)
        return Reply(calls=[CallTool("write_file", {"path": "paths.csv", "content": content})])
    if len(outputs) == 1:
        return Reply(calls=[CallTool("spawn_agents_on_csv", JOB)])
    ended = json.loads(outputs[1])
    return Reply(text=f"{ended['completed_items']} files are scored: {ended['output_csv_path']}")


def play(received: Received) -> Reply:
    return work(received) if is_worker(received) else lead(received)


def scores(folder: Path) -> list[tuple[str, str, str]]:
    with (folder / "scored.csv").open(newline="", encoding="utf-8") as file:
        return [(row["path"], row["status"], row["result.score"]) for row in csv.DictReader(file)]


SCORED = [(path, "completed", str(number)) for number, path in enumerate(PATHS)]


async def test_a_root_agent_makes_a_table_has_it_worked_on_and_names_the_result(folder: Path) -> None:
    last_row = 0.0

    def script(received: Received) -> Reply:
        nonlocal last_row
        if is_worker(received) and received.tool_outputs:
            last_row = time.monotonic()
        return play(received)

    async with ModelServer(script) as server:
        ended = await Command(folder, server).run()
    assert (ended.code, ended.out) == (0, f"5 files are scored: {folder / 'scored.csv'}\n")
    assert scores(folder) == SCORED
    assert ended.at - last_row < 5
    # Progress was shown while the job ran, and nothing of it is in the answer.
    assert re.search(r"Job [0-9a-f]{8} runs\. If it stops: rowcrew resume", ended.err)
    assert "5/5 rows done" in ended.err


async def test_the_event_lines_carry_the_jobs_progress_and_count_nothing_twice(folder: Path) -> None:
    async with ModelServer(play) as server:
        ended = await Command(folder, server).run("--json")
    lines = [json.loads(line) for line in ended.out.splitlines()]
    updates = [line["item"] for line in lines if line["type"] == "item.updated"]
    assert {(update["type"], update["tool"]) for update in updates} == {
        ("mcp_tool_call", "spawn_agents_on_csv")
    }
    assert updates[-1]["progress"]["completed_items"] == 5
    # Three requests of the root; the ten of the workers are the job's.
    assert (lines[-1]["type"], lines[-1]["usage"]["input_tokens"]) == ("turn.completed", 30)
    assert len(server.requests) == 13


async def test_an_interrupt_pauses_the_job_and_both_can_be_gone_on_with(folder: Path) -> None:
    job_id = ""

    def script(received: Received) -> Any:
        if not job_id:
            return Silence() if is_worker(received) else lead(received)
        if is_worker(received):
            return work(received)
        outputs = list(received.tool_outputs.values())
        if len(outputs) == 2:
            return Reply(calls=[CallTool("run_agent_job", {"job_id": job_id})])
        if len(outputs) == 3:
            return Reply(calls=[CallTool("wait_agent_job", {"job_id": job_id})])
        return Reply(text=json.loads(outputs[3])["status"]["status"])

    async with ModelServer(script) as server:
        command = Command(folder, server)
        process = await command.start("--json")
        await server.until(arrived=2 + len(PATHS))
        process.send_signal(signal.SIGINT)
        ended = await command.end(process)
        assert ended.code == 130
        lines = [json.loads(line) for line in ended.out.splitlines()]
        assert lines[-1] == {"type": "turn.failed", "error": {"message": "the turn was interrupted"}}
        assert lines[-2]["item"]["tool"] == "spawn_agents_on_csv"
        assert lines[-2]["item"]["error"]["message"].startswith("tool execution interrupted after ")
        job_id = lines_job(lines)
        assert f"rowcrew resume {job_id[:8]}" in ended.err
        thread_id = lines[0]["thread_id"]
        assert f"rowcrew exec resume {thread_id[:8]}" in ended.err
        assert {status for _, status, _ in scores(folder)} == {"pending"}
        ended = await command.run("resume", thread_id)
    assert (ended.code, ended.out, scores(folder)) == (0, "completed\n", SCORED)


def lines_job(lines: list[dict[str, Any]]) -> str:
    """The job that the progress lines are about."""
    job_ids = {line["item"]["progress"]["job_id"] for line in lines if line["type"] == "item.updated"}
    (job_id,) = job_ids
    return str(job_id)


async def test_a_confined_root_cannot_send_a_job_outside_its_folder(folder: Path) -> None:
    secret = folder.parent / "secret.csv"
    secret.write_text("path\nx\n")
    job: Script = [
        Reply(calls=[CallTool("spawn_agents_on_csv", {**JOB, "csv_path": str(secret)})]),
        Reply(calls=[CallTool("spawn_agents_on_csv", {**JOB, "output_csv_path": "../out.csv"})]),
        Reply(calls=[CallTool("spawn_agents_on_csv", {**JOB, "csv_path": "~/in.csv"})]),
        "I may not.",
    ]
    async with ModelServer(job) as server:
        ended = await Command(folder, server).run()
        outputs = list(server.requests[-1].tool_outputs.values())
    assert (ended.code, ended.out) == (0, "I may not.\n")
    assert ["is outside the workspace" in output for output in outputs] == [True] * 3
    assert not (folder.parent / "out.csv").exists()
