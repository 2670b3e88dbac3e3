"""The app-server as a process: nothing but frames on standard output, and how it ends."""

import itertools
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rowcrew.testing import CallTool, Received, Reply
from tests.processes.program import Outcome, Program, Running, until
from tests.served import ServerThread

Message = dict[str, Any]

# A worker that writes to standard output in every way there is, and warns.
NOISY = """
import ctypes, os, subprocess, sys, warnings

print("noise while it is imported")

def greet(row):
    print("noise")
    sys.__stdout__.write("noise\\n")
    sys.__stdout__.flush()
    os.write(1, b"noise\\n")
    subprocess.run(["echo", "noise"])
    ctypes.CDLL(None).puts(b"noise")
    ctypes.CDLL(None).fflush(None)
    warnings.warn("a warning", stacklevel=1)
    print("noise", file=sys.stderr)
    return {"greeting": row["name"]}

def crash(row):
    print("last words", flush=True)
    raise SystemExit(3)
"""
SHELL_NOISE = "echo noise; echo noise >&2; echo noise > /dev/stderr"


def answer(received: Received) -> Reply:
    text = received.last_user_text
    if "shell" in text and not received.tool_outputs:
        return Reply(calls=[CallTool("shell", {"command": SHELL_NOISE})])
    return Reply(f"You said {text}.", delay=3600 if "wait" in text else 0)


class Served:
    """The server's process and a client of it. Standard output is read as a file, whole lines only."""

    def __init__(self, program: Program) -> None:
        self.running: Running = program.start_server()
        self._numbers = itertools.count(1)
        self.call("initialize", clientInfo={"name": "test", "version": "1"})

    def write(self, data: bytes) -> None:
        assert self.running.process.stdin is not None
        self.running.process.stdin.write(data)
        self.running.process.stdin.flush()

    def frames(self) -> list[Message]:
        """All that was said so far; fails when anything is no frame."""
        whole, _, _ = self.running.out.rpartition("\n")
        return [json.loads(line) for line in whole.splitlines()]

    def call(self, method: str, **params: Any) -> Message:
        number = next(self._numbers)
        self.write(json.dumps({"id": number, "method": method, "params": params}).encode() + b"\n")
        found = until(
            lambda: [one for one in self.frames() if one.get("id") == number], f"{method}: answered"
        )
        answered: Message = found[0]
        assert "result" in answered, answered
        result: Message = answered["result"]
        return result

    def told(self, method: str) -> list[Message]:
        return [one["params"] for one in self.frames() if one.get("method") == method]

    def until_told(self, method: str, count: int = 1) -> list[Message]:
        """All of them, as soon as there are so many."""

        def enough() -> list[Message]:
            told = self.told(method)
            return told if len(told) >= count else []

        found: list[Message] = until(enough, f"{count} times {method}")
        return found

    def thread(self) -> str:
        thread_id: str = self.call("thread/start", sandbox="danger-full-access")["thread"]["id"]
        return thread_id

    def say(self, thread_id: str, text: str) -> str:
        turn = self.call("turn/start", threadId=thread_id, input=[{"type": "text", "text": text}])["turn"]
        turn_id: str = turn["id"]
        return turn_id

    def ends(self) -> list[tuple[str, str]]:
        """(turn, status) of each end of a turn that was told."""
        return [(one["turn"]["id"], one["turn"]["status"]) for one in self.told("turn/completed")]

    def say_no_more(self) -> Outcome:
        assert self.running.process.stdin is not None
        self.running.process.stdin.close()
        return self.running.end()


@pytest.fixture
def models(program: Program) -> Iterator[ServerThread]:
    with ServerThread(answer) as served:
        program.extra |= {
            "ROWCREW_BASE_URL": served.server.url,
            "ROWCREW_MODEL": "openai-chat:m",
            "OPENAI_API_KEY": "k",
        }
        yield served


def job(served: Served, folder: Path, worker: str) -> str:
    (folder / "people.csv").write_text("name\nAda\nGrace\n")
    (folder / "noisy_worker.py").write_text(NOISY)
    made = served.call(
        "job/create",
        inputPath="people.csv", instruction="Greet {name}", worker=f"python:noisy_worker:{worker}",
        maxAttempts=1, new=True, autoExport=False,
    )  # fmt: skip
    job_id: str = made["job"]["jobId"]
    served.call("job/run", jobId=job_id)
    return job_id


def test_whatever_prints_standard_output_carries_frames_alone(program: Program, models: ServerThread) -> None:
    program.extra["PYTHONWARNINGS"] = "always"
    served = Served(program)
    turn_id = served.say(served.thread(), "shell")
    job(served, program.folder, "greet")
    served.until_told("job/completed")
    job(served, program.folder, "crash")
    ended = [(one["status"], one["completedItems"]) for one in served.until_told("job/completed", 2)]
    assert ended == [("completed", 2), ("completed", 0)]
    served.until_told("turn/completed")
    assert served.ends() == [(turn_id, "completed")]
    command = next(
        one["item"] for one in served.told("item/completed") if one["item"]["type"] == "commandExecution"
    )
    assert command["aggregatedOutput"].count("noise") == 3
    outcome = served.say_no_more()
    assert outcome.code == 0
    assert all(isinstance(one, dict) for one in outcome.documents)
    assert "noise while it is imported" in outcome.err


def test_at_the_end_of_its_input_turns_and_jobs_are_ended_and_told(
    program: Program, models: ServerThread
) -> None:
    served = Served(program)
    turn_id = served.say(served.thread(), "wait")
    until(lambda: models.server.requests, "the model to be asked")
    outcome = served.say_no_more()
    assert (outcome.code, served.ends()) == (0, [(turn_id, "interrupted")])
    assert "Traceback" not in outcome.err


def test_a_signal_ends_turns_and_keeps_what_is_queued(program: Program, models: ServerThread) -> None:
    served = Served(program)
    thread_id = served.thread()
    turn_id = served.say(thread_id, "wait")
    until(lambda: models.server.requests, "the model to be asked")
    served.call("thread/queue/add", threadId=thread_id, input=[{"type": "text", "text": "later"}])
    served.running.signal(signal.SIGTERM)
    outcome = served.running.end()
    assert (outcome.code, served.ends()) == (143, [(turn_id, "interrupted")])
    assert "Traceback" not in outcome.err
    again = Served(program)
    turns = again.call("thread/resume", threadId=thread_id)["thread"]["turns"]
    assert [(turn["id"], turn["status"]) for turn in turns] == [(turn_id, "interrupted")]
    queue = again.call("thread/queue/list", threadId=thread_id)
    assert ([one["input"][0]["text"] for one in queue["data"]], queue["held"]) == (["later"], True)
    started = again.call("thread/queue/start", threadId=thread_id)["turn"]["id"]
    again.until_told("turn/completed")
    assert again.ends() == [(started, "completed")]
    assert again.say_no_more().code == 0


def test_killed_in_a_turn_the_history_says_interrupted_and_the_thread_goes_on(
    program: Program, models: ServerThread
) -> None:
    served = Served(program)
    thread_id = served.thread()
    turn_id = served.say(thread_id, "wait")
    until(lambda: models.server.requests, "the model to be asked")
    served.running.kill()
    again = Served(program)
    turns = again.call("thread/resume", threadId=thread_id)["thread"]["turns"]
    assert [(turn["id"], turn["status"]) for turn in turns] == [(turn_id, "interrupted")]
    second = again.say(thread_id, "go on")
    again.until_told("turn/completed")
    assert again.ends() == [(second, "completed")]
    # What another process adds is run by the one that has the thread.
    assert program.call("queue", "add", thread_id, "from elsewhere").code == 0
    told = again.until_told("turn/completed", 2)[1]["turn"]
    assert told["items"][0]["content"][0]["text"] == "from elsewhere"
    assert again.say_no_more().code == 0


def test_a_client_that_is_gone_ends_the_server(program: Program, models: ServerThread) -> None:
    reading, writing = os.pipe()
    process = subprocess.Popen(
        [sys.executable, "-m", "rowcrew", "app-server"],
        cwd=program.folder, env=program.environment(),
        stdin=subprocess.PIPE, stdout=writing, stderr=subprocess.PIPE,
    )  # fmt: skip
    os.close(writing)
    os.close(reading)
    hello = {"id": 1, "method": "initialize", "params": {"clientInfo": {"name": "test"}}}
    assert process.stdin is not None
    process.stdin.write(json.dumps(hello).encode() + b"\n")
    process.stdin.flush()
    with process:
        assert process.wait(60) == 0
        assert process.stderr is not None
        assert process.stderr.read() == b""
