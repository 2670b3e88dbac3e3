"""The official Python SDK of Codex drives rowcrew: it is pointed at our command and nothing more."""

import asyncio
import os
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from rowcrew.testing import CallTool, ModelServer, Reply, overloaded, unauthorized
from tests.served import ServerThread


class Models:
    """A model server on an event loop of its own: the SDK blocks."""

    def __init__(self, script: Any) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        self.server = ModelServer(script)
        self.run(self.server.__aenter__())

    def run(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(60)

    def close(self) -> None:
        self.run(self.server.__aexit__(None, None, None))
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


Opened = Callable[..., Any]


def close_pipes(process: subprocess.Popen[str]) -> None:
    """The SDK leaves its ends open, which would be a warning in whichever test runs next."""
    process.wait(10)
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()


@pytest.fixture
def codex(sdk: ModuleType, tmp_path: Path) -> Iterator[Opened]:
    """Opens the SDK's client over our command, with a scripted model behind it."""
    with ExitStack() as stack:
        command = tmp_path / "codex"
        command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m rowcrew "$@"\n')
        command.chmod(0o755)

        def opened(script: Any = "ok", **settings: Any) -> Any:
            models = Models(script)
            stack.callback(models.close)
            environment = {
                "ROWCREW_HOME": str(tmp_path / "home"),
                "ROWCREW_MODEL": "openai-chat:scripted",
                "ROWCREW_BASE_URL": models.server.url,
                "OPENAI_API_KEY": "sk-test",
                "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
            }
            config = sdk.CodexConfig(codex_bin=str(command), cwd=str(tmp_path), env=environment, **settings)
            client = sdk.Codex(config)
            stack.callback(close_pipes, client._client._proc)
            stack.enter_context(client)
            client.models_behind = models
            return client

        yield opened


def test_it_says_hello_and_lists_the_models(codex: Opened) -> None:
    client = codex(config_overrides=("agents.max_threads=3", "some.key_of_codex=1"))
    assert client.metadata.serverInfo.name == "rowcrew"
    assert [model.id for model in client.models().data] == ["openai-chat:scripted", "local"]


def test_a_thread_runs_turns_and_streams_them_in_order(codex: Opened) -> None:
    client = codex(["first", Reply(text="second", reasoning="let me see")])
    thread = client.thread_start()
    result = thread.run("hello")
    assert (result.status.value, result.final_response) == ("completed", "first")
    assert (result.usage.last.input_tokens, result.usage.last.output_tokens) == (10, 5)
    assert result.started_at <= result.completed_at
    methods = [event.method for event in thread.turn("again").stream()]
    assert methods[0] == "turn/started"
    assert methods[-1] == "turn/completed"
    assert Counter(methods)["item/started"] == Counter(methods)["item/completed"]
    assert "item/agentMessage/delta" in methods


def test_every_item_is_one_that_the_sdk_knows(codex: Opened, sdk: ModuleType) -> None:
    calls = [CallTool("shell", {"command": "echo hi"}), CallTool("write_file", {"path": "a", "content": "b"})]
    script = [Reply(calls=[call]) for call in calls] + [Reply(calls=[CallTool("list_dir", {})]), "done"]
    thread = codex(script).thread_start(sandbox=sdk.Sandbox.full_access)
    result = thread.run("work")
    assert [item.root.type for item in result.items] == [
        "userMessage",
        "commandExecution",
        "fileChange",
        "dynamicToolCall",
        "agentMessage",
    ]
    command = result.items[1].root
    assert (command.command, command.exit_code, "hi" in command.aggregated_output) == ("echo hi", 0, True)
    [change] = result.items[2].root.changes
    assert (change.path, change.kind.root.type) == ("a", "add")
    # What is not known is given to the client as it came; nothing of ours may be.
    for event in thread.turn("again").stream():
        assert type(event.payload).__name__ != "UnknownNotification", event


def test_threads_are_listed_read_named_resumed_forked_and_archived(codex: Opened) -> None:
    client = codex()
    thread = client.thread_start()
    thread.run("hello")
    thread.set_name("a name")
    [listed] = client.thread_list().data
    assert (listed.id, listed.name, listed.preview) == (thread.id, "a name", "hello")
    [turn] = thread.read(include_turns=True).thread.turns
    assert [item.root.type for item in turn.items] == ["userMessage", "agentMessage"]
    assert client.thread_resume(thread.id, include_turns=True).id == thread.id
    fork = client.thread_fork(thread.id)
    assert fork.run("more").final_response == "ok"
    assert len(fork.read(include_turns=True).thread.turns) == 2
    client.thread_archive(thread.id)
    assert [one.id for one in client.thread_list().data] == [fork.id]
    assert client.thread_unarchive(thread.id).id == thread.id


def test_a_thread_is_resumed_by_another_process(codex: Opened) -> None:
    first = codex("one")
    thread_id = first.thread_start().id
    first.thread_resume(thread_id).run("hello")
    first.close()
    assert codex("two").thread_resume(thread_id).run("again").final_response == "two"


def test_two_threads_at_once(codex: Opened) -> None:
    client = codex([Reply(text="ok", delay=0.2)] * 2)
    threads = [client.thread_start() for _ in range(2)]
    handles = [thread.turn("hello") for thread in threads]
    results = [handle.run() for handle in handles]
    assert [result.final_response for result in results] == ["ok", "ok"]
    assert client.models_behind.server.peak == 2


def test_a_turn_is_steered_and_interrupted(codex: Opened) -> None:
    gate = threading.Event()

    async def answer(_: Any) -> Reply:
        await asyncio.to_thread(gate.wait, 30)
        return Reply(text="late")

    client = codex(answer)
    handle = client.thread_start().turn("hello")
    client.models_behind.run(client.models_behind.server.until(arrived=1))
    assert handle.steer("and this").turn_id == handle.id
    handle.interrupt()
    result = handle.run()
    gate.set()
    assert result.status.value == "interrupted"
    assert [item.root.content[0].root.text for item in result.items] == ["hello", "and this"]


def test_errors_come_as_the_sdks_own(codex: Opened, sdk: ModuleType) -> None:
    client = codex([unauthorized(), overloaded(), "fine"])
    with pytest.raises(sdk.InvalidRequestError, match="there is no thread"):
        client.thread_resume("no such thread")
    thread = client.thread_start()
    with pytest.raises(RuntimeError, match="Incorrect API key"):
        thread.run("hello")
    with pytest.raises(sdk.MethodNotFoundError):
        thread.compact()


def test_an_answer_has_the_shape_that_was_asked_for(codex: Opened) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    client = codex('{"n": 7}')
    assert client.thread_start().run("a number", output_schema=schema).final_response == '{"n": 7}'
    [received] = client.models_behind.server.requests
    assert '"n"' in str(received.body).replace("'", '"')


def test_the_example_of_the_guide_runs(codex: Opened, sdk: ModuleType, tmp_path: Path) -> None:
    page = Path(__file__).parents[2] / "docs" / "guide" / "app-server.md"
    example = page.read_text(encoding="utf-8").partition("```python talk.py\n")[2].partition("```")[0]
    (tmp_path / "rowcrew").symlink_to(tmp_path / "codex")
    with ServerThread("Hello.") as models:
        environment = {
            **os.environ,
            "PATH": os.pathsep.join([str(tmp_path), os.environ["PATH"]]),
            "PYTHONPATH": os.pathsep.join([str(Path(str(sdk.__file__)).parents[1]), *sys.path]),
            "ROWCREW_HOME": str(tmp_path / "home"),
            "ROWCREW_BASE_URL": models.server.url,
            "OPENAI_API_KEY": "sk-test",
        }
        done = subprocess.run(
            [sys.executable, "-c", example],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert (done.returncode, done.stdout) == (0, "Hello.\nHello.\n2 turns before the fork\n"), done.stderr


async def test_the_asynchronous_client_works_as_well(sdk: ModuleType, tmp_path: Path) -> None:
    command = tmp_path / "codex"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m rowcrew "$@"\n')
    command.chmod(0o755)
    async with ModelServer("ok") as models:
        environment = {
            "ROWCREW_HOME": str(tmp_path / "home"),
            "ROWCREW_MODEL": "openai-chat:scripted",
            "ROWCREW_BASE_URL": models.url,
            "OPENAI_API_KEY": "sk-test",
        }
        config = sdk.CodexConfig(codex_bin=str(command), cwd=str(tmp_path), env=environment)
        async with sdk.AsyncCodex(config) as client:
            threads = [await client.thread_start() for _ in range(3)]
            process = client._client._sync._proc
            results = await asyncio.gather(*(thread.run("hello") for thread in threads))
            assert [result.final_response for result in results] == ["ok"] * 3
        await asyncio.to_thread(close_pipes, process)
