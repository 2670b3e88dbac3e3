"""The official TypeScript SDK of Codex, unchanged, at our command: run, stream, resume, structured output.

It is installed from npm without its scripts, once, into a cache folder; skipped without Node or network.
"""

import asyncio
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rowcrew.testing import CallTool, Failure, ModelServer, Reply
from rowcrew.testing.answers import Received

PACKAGE, VERSION = "@openai/codex-sdk", "0.163.0"
INSTALL_SECONDS = 120
SCRIPT = Path(__file__).with_name("codex_sdk.mjs")


@pytest.fixture(scope="module")
def sdk() -> Path:
    """The SDK's module."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        pytest.skip("the TypeScript SDK needs Node and npm")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = cache / "rowcrew-tests" / f"codex-sdk-{VERSION}"
    module = folder / "node_modules" / PACKAGE / "dist" / "index.js"
    if not module.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        flags = ["--ignore-scripts", "--omit=optional", "--no-audit", "--no-fund", "--no-package-lock"]
        try:
            done = subprocess.run(
                ["npm", "install", *flags, "--prefix", str(folder), f"{PACKAGE}@{VERSION}"],
                capture_output=True,
                text=True,
                timeout=INSTALL_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            pytest.skip(f"npm did not install {PACKAGE} within {INSTALL_SECONDS} s")
        if done.returncode != 0 or not module.is_file():
            pytest.skip(f"npm cannot install {PACKAGE}: {done.stderr.strip()[-200:]}")
    return module


@pytest.fixture
def command(tmp_path: Path) -> Path:
    """The command as one file, as the SDK wants it."""
    path = tmp_path / "rowcrew"
    path.write_text(f"#!{sys.executable}\nfrom rowcrew.cli.main import main\nraise SystemExit(main())\n")
    path.chmod(0o755)
    return path


def answer(received: Received) -> Reply | Failure:
    """The scripted model: what the user said last says what is wanted."""
    match received.last_user_text.partition(":")[0]:
        case "run":
            return Reply(
                text="hello", reasoning="A greeting.", input_tokens=7, cached_tokens=2, output_tokens=3
            )
        case "stream" if not received.tool_outputs:
            call = CallTool("write_file", {"path": "hello.txt", "content": "hello\n"})
            return Reply(text="I write it.", calls=[call])
        case "stream":
            return Reply(text="It is written.")
        case "resume":
            said = [word for word in ("run", "stream", "resume") if f"{word}:" in received.text]
            return Reply(text=f"You said {' '.join(said)}.")
        case "schema":
            form = received.body.get("text", {}).get("format", {})
            return Reply(text=json.dumps({"score": 5 if "score" in json.dumps(form) else 0}))
        case _:
            return Failure(400, "invalid_request", "this prompt is refused")


async def test_the_official_sdk_runs_streams_resumes_and_gets_structured_output(
    sdk: Path, command: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    async with ModelServer(answer) as server:
        process = await asyncio.create_subprocess_exec(
            "node",
            str(SCRIPT),
            str(sdk),
            str(command),
            server.url,
            str(folder),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, err = await process.communicate()
        keys = {received.headers["authorization"] for received in server.requests}
        apis = {received.api for received in server.requests}
    assert process.returncode == 0, err.decode()
    told: dict[str, Any] = json.loads(out)

    assert told["ran"] == {
        "items": [
            {"id": "item_0", "type": "reasoning", "text": "A greeting."},
            {"id": "item_1", "type": "agent_message", "text": "hello"},
        ],
        "finalResponse": "hello",
        "usage": {
            "input_tokens": 7,
            "cached_input_tokens": 2,
            "cache_write_input_tokens": 0,
            "output_tokens": 3,
            "reasoning_output_tokens": 0,
        },
    }
    assert [event["type"] for event in told["events"]] == [
        "thread.started",
        "turn.started",
        "item.completed",
        "item.completed",
        "item.completed",
        "turn.completed",
    ]
    assert told["events"][0]["thread_id"] == told["threadId"]
    assert [event["item"] for event in told["events"] if "item" in event] == [
        {"id": "item_0", "type": "agent_message", "text": "I write it."},
        {
            "id": "item_1",
            "type": "file_change",
            "changes": [{"path": "hello.txt", "kind": "add"}],
            "status": "completed",
        },
        {"id": "item_2", "type": "agent_message", "text": "It is written."},
    ]
    assert (folder / "hello.txt").read_text() == "hello\n"
    assert told["resumed"]["finalResponse"] == "You said run stream resume."
    assert json.loads(told["structured"]["finalResponse"]) == {"score": 5}
    assert "this prompt is refused" in told["failed"]
    assert "no thread id begins with 'no-such-thread'" in told["unknown"]
    assert (keys, apis) == ({"Bearer sk-from-the-sdk"}, {"responses"})
