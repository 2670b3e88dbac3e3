"""exec: what it prints where, what it takes, how it ends. The model is scripted, behind a socket."""

import io
import json
import re
import sys
from pathlib import Path
from typing import Any

import apsw
import pytest

from rowcrew.config import Settings
from rowcrew.testing import CallTool, ModelServer, Reply, overloaded, unauthorized
from rowcrew.testing.answers import Script
from tests.cli.conftest import Called, Desk
from tests.served import ServerThread

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
USAGE = {
    "input_tokens": 10,
    "cached_input_tokens": 0,
    "cache_write_input_tokens": 0,
    "output_tokens": 5,
    "reasoning_output_tokens": 0,
}


class Execs:
    """Calls of exec against scripted models."""

    def __init__(self, desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
        self.desk = desk
        self.server: ModelServer | None = None
        self._monkeypatch = monkeypatch

    def __call__(self, *arguments: str, script: Script = "done", stdin: bytes = b"") -> Called:
        with ServerThread(script) as served:
            self.server = served.server
            stream = io.TextIOWrapper(io.BytesIO(stdin))
            self._monkeypatch.setattr(sys, "stdin", stream)
            return self.desk.rowcrew("exec", "-m", "m", "--base-url", self.server.url, *arguments)

    @property
    def asked(self) -> list[Any]:
        assert self.server is not None
        return self.server.requests


@pytest.fixture
def execs(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> Execs:
    monkeypatch.delenv("CODEX_API_KEY", raising=False)
    return Execs(desk, monkeypatch)


def types(called: Called) -> list[str]:
    return [line["type"] for line in called.lines]


def test_the_final_message_alone_is_on_standard_output(execs: Execs) -> None:
    script = [Reply(text="I look.", calls=[CallTool("list_dir", {"path": "."})]), "There are two files."]
    called = execs("what is here?", script=script)
    assert (called.code, called.out) == (0, "There are two files.\n")
    head, *told = called.err.splitlines()
    assert re.fullmatch(
        rf"Thread [0-9a-f]{{8}}: m in {re.escape(str(execs.desk.folder))} \(read-only\)\.", head
    )
    assert told == ["I look.", "- list_dir {'path': '.'}"]


@pytest.mark.parametrize("arguments", [("-",), ()])
def test_the_prompt_may_come_on_standard_input(execs: Execs, arguments: tuple[str, ...]) -> None:
    assert execs(*arguments, stdin="grüß Gott\n".encode()).code == 0
    assert execs.asked[0].last_user_text == "grüß Gott\n"


@pytest.mark.parametrize("flag", ["--json", "--experimental-json"])
def test_the_event_lines_are_those_of_codex(execs: Execs, flag: str) -> None:
    arguments = {"command": "echo hi; exit 3"}
    script = [
        Reply(text="Now.", reasoning="Let me see.", calls=[CallTool("shell", arguments)]),
        Reply(calls=[CallTool("list_dir", {"path": "nowhere"})]),
        "Done.",
    ]
    called = execs(flag, "--sandbox", "danger-full-access", "go", script=script)
    thread_id = called.lines[0]["thread_id"]
    command = {"id": "item_2", "type": "command_execution", "command": arguments["command"]}
    call = {
        "id": "item_3",
        "type": "mcp_tool_call",
        "server": "rowcrew",
        "tool": "list_dir",
        "arguments": {"path": "nowhere"},
        "result": None,
    }
    assert called.code == 0
    assert called.lines == [
        {"type": "thread.started", "thread_id": thread_id},
        {"type": "turn.started"},
        {"type": "item.completed", "item": {"id": "item_0", "type": "reasoning", "text": "Let me see."}},
        {"type": "item.completed", "item": {"id": "item_1", "type": "agent_message", "text": "Now."}},
        {
            "type": "item.started",
            "item": {**command, "aggregated_output": "", "exit_code": None, "status": "in_progress"},
        },
        {
            "type": "item.completed",
            "item": {
                **command,
                "aggregated_output": "hi\n\n[exit code 3]",
                "exit_code": 3,
                "status": "failed",
            },
        },
        {"type": "item.started", "item": {**call, "error": None, "status": "in_progress"}},
        {
            "type": "item.completed",
            "item": {**call, "error": {"message": "there is no 'nowhere'"}, "status": "failed"},
        },
        {"type": "item.completed", "item": {"id": "item_4", "type": "agent_message", "text": "Done."}},
        {"type": "turn.completed", "usage": {**USAGE, "input_tokens": 30, "output_tokens": 15}},
    ]


def test_a_thread_can_be_gone_on_with(execs: Execs) -> None:
    first = execs("--json", "remember: 4")
    thread_id = first.lines[0]["thread_id"]
    second = execs("--json", "resume", thread_id[:8], "what was it?", script="4")
    assert second.lines[0] == {"type": "thread.started", "thread_id": thread_id}
    assert second.lines[-1] == {"type": "turn.completed", "usage": USAGE}
    third = execs("resume", "--last", "-", script="still 4", stdin=b"and now?")
    assert third.out == "still 4\n"
    said = execs.asked[0].text
    assert [text in said for text in ("remember: 4", "done", "what was it?", "4", "and now?")] == [True] * 5


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("two", "words"), "the prompt is one argument and 2 were given"),
        (("  ",), "the prompt is empty"),
        (("resume",), "no thread is named to go on with"),
        (("--last", "go on"), "--last belongs to `exec resume`"),
        (("resume", "abc", "go on"), "no thread id begins with 'abc'"),
        (("resume", "--last", "go on"), "there is no thread yet"),
        (("-C", "nowhere", "go"), "there is no folder"),
        (("--output-schema", "nowhere.json", "go"), "the output schema nowhere.json cannot be read"),
        (
            ("-o", "nowhere/last.txt", "go"),
            "cannot be written to nowhere/last.txt: there is no folder",
        ),
        (("-o", ".", "go"), "cannot be written to .: it is a folder"),
    ],
)
def test_what_cannot_be_carried_out_is_refused_before_anything_is_asked(
    execs: Execs, arguments: tuple[str, ...], message: str
) -> None:
    called = execs("--json", *arguments)
    assert (called.code, len(execs.asked)) == (2, 0)
    assert types(called) == ["error"]
    assert message in called.lines[0]["message"]
    assert f"Error: {called.lines[0]['message']}\nHint: " in called.err


def test_a_turn_that_fails_says_why_and_how_to_go_on(execs: Execs) -> None:
    called = execs("--json", "go", script=unauthorized())
    thread_id = called.lines[0]["thread_id"]
    assert (called.code, types(called)) == (1, ["thread.started", "turn.started", "turn.failed"])
    message = called.lines[-1]["error"]["message"]
    assert "Incorrect API key provided" in message
    assert f"Error: {message}\nHint: " in called.err
    assert f"rowcrew exec resume {thread_id[:8]}" in called.err


def test_a_provider_that_was_busy_is_asked_again(execs: Execs) -> None:
    called = execs("go", script=[overloaded(), "at last"])
    assert (called.code, called.out, len(execs.asked)) == (0, "at last\n", 2)


def test_a_turn_without_a_message_prints_none(execs: Execs) -> None:
    called = execs("go", script=Reply())
    assert (called.code, called.out) == (0, "")
    assert called.err.endswith("The agent ended its turn without a message.\n")


def test_the_last_message_can_be_written_to_a_file(execs: Execs) -> None:
    assert execs("-o", "last.txt", "go").code == 0
    assert (execs.desk.folder / "last.txt").read_text() == "done"


def test_an_output_schema_reaches_the_model(execs: Execs) -> None:
    (execs.desk.folder / "schema.json").write_text(json.dumps(SCHEMA))
    called = execs("--output-schema", "schema.json", "count", script='{"n": 1}')
    assert (called.code, called.out) == (0, '{"n": 1}\n')
    assert "Note:" not in called.err
    assert execs.asked[0].body["response_format"]["json_schema"]["schema"]["required"] == ["n"]


@pytest.mark.parametrize(
    ("message", "why"),
    [
        ('{"n": "1"}', 'at $.n: "1" is not of type "integer"'),
        ("it is 1", "the answer is not one JSON object: Expecting value: line 1 column 1 (char 0)"),
    ],
)
def test_a_last_message_that_does_not_fit_the_schema_is_noted(execs: Execs, message: str, why: str) -> None:
    (execs.desk.folder / "schema.json").write_text(json.dumps(SCHEMA))
    called = execs("--output-schema", "schema.json", "count", script=message)
    assert (called.code, called.out) == (0, f"{message}\n")
    assert called.err.endswith(f"Note: the last message does not fit the output schema: {why}.\n")


@pytest.mark.parametrize(
    ("arguments", "offered"),
    [
        ((), ["spawn_agent", "send_input", "wait", "close_agent", "spawn_agents_on_csv"]),
        (("--enable", "collab", "--enable", "sqlite"), ["spawn_agent", "spawn_agents_on_csv"]),
        (("--disable", "collab"), []),
        (("--config", "features.collab=false"), []),
        (("-c", "agents.max_depth=0"), ["spawn_agents_on_csv"]),
    ],
)
def test_the_feature_collab_offers_agent_and_job_tools(
    execs: Execs, arguments: tuple[str, ...], offered: list[str]
) -> None:
    assert execs(*arguments, "go").code == 0
    tools = execs.asked[0].tool_names
    known = [
        "spawn_agent",
        "send_input",
        "wait",
        "close_agent",
        "spawn_agents_on_csv",
        "report_agent_job_result",
    ]
    found = [name for name in known if name in tools]
    assert [name for name in found if name in offered] == offered
    assert (found == []) == (offered == [])
    assert "report_agent_job_result" not in tools


@pytest.mark.parametrize(
    ("arguments", "mode"),
    [
        ((), "read-only"),
        (("--full-auto",), "workspace-write"),
        (("--full-auto", "--sandbox", "read-only"), "read-only"),
        (("--dangerously-bypass-approvals-and-sandbox",), "danger-full-access"),
    ],
)
def test_the_sandbox_mode_is_the_one_that_was_asked_for(
    execs: Execs, arguments: tuple[str, ...], mode: str
) -> None:
    assert f"({mode})." in execs(*arguments, "go").err


def test_the_flags_of_codex_are_taken(execs: Execs, tmp_path: Path) -> None:
    flags = [
        "--skip-git-repo-check",
        "--add-dir",
        str(tmp_path),
        "--thread-source",
        "user",
        "--color",
        "never",
    ]
    config = ["--config", 'approval_policy="never"', "--config", 'model_reasoning_effort="low"']
    called = execs(*flags, *config, "--image", "a.png", "--enable", "telepathy", "look")
    assert called.code == 0
    assert execs.asked[0].last_user_text == f"look\n\nAttached file: {execs.desk.folder / 'a.png'}"
    assert "--config model_reasoning_effort is no setting of rowcrew and is ignored" in called.err
    assert "there is no feature 'telepathy'" in called.err
    assert "approval_policy" not in called.err


def test_a_bare_model_name_is_openais_and_codexs_key_is_taken(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CODEX_API_KEY", "sk-codex")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-other")
    with ServerThread("hello") as served:
        url = f'openai_base_url="{served.server.url}"'
        called = desk.rowcrew("exec", "-m", "gpt-9", "--config", url, "go")
    (asked,) = served.server.requests
    assert (called.out, asked.api, asked.body["model"]) == ("hello\n", "responses", "gpt-9")
    assert asked.headers["authorization"] == "Bearer sk-codex"


def test_show_has_the_transcript_of_each_attempt_and_rm_deletes_it(execs: Execs) -> None:
    desk = execs.desk

    def work(received: Any) -> Reply:
        named = re.search(r"Job ID: (\S+)\nItem ID: (\S+)", received.text)
        assert named
        values = {"job_id": named[1], "item_id": named[2], "result": {"n": 1}}
        return Reply(text="I report.", calls=[CallTool("report_agent_job_result", values)])

    with ServerThread(work) as served:
        given = ["people.csv", "-i", "Greet {name}", "-m", "m", "--base-url", served.server.url]
        assert desk.rowcrew("run", *given).code == 0
    (attempt,) = desk.rowcrew("show", desk.jobs()[0]["job_id"], "row-2", "--json").json["attempts"]
    (turn,) = attempt["turns"]
    assert [(item["kind"], item["content"].get("tool")) for item in turn["items"]] == [
        ("userMessage", None),
        ("agentMessage", None),
        ("toolCall", "report_agent_job_result"),
    ]
    assert (turn["status"], turn["usage"]) == ("completed", attempt["usage"])
    shown = desk.rowcrew("show", desk.jobs()[0]["job_id"], "row-2").out
    assert f"Attempt 1, thread {attempt['thread_id'][:8]}\n[user]\n" in shown
    assert "[agent]\n  I report.\n[report_agent_job_result] job_id=" in shown
    assert desk.rowcrew("rm", desk.jobs()[0]["job_id"], "--yes").code == 0
    assert kept(Settings.load().home) == (0, 0)


def kept(home: Path) -> tuple[int, int]:
    """How many threads and turns the files hold."""
    counts = []
    for name, table in (("state_1.sqlite", "threads"), ("history_1.sqlite", "turns")):
        connection = apsw.Connection(str(home / name))
        counts.append(connection.execute(f"SELECT count(*) FROM {table}").fetchall()[0][0])
        connection.close()
    return counts[0], counts[1]


def test_without_a_model_it_says_how_to_name_one(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    called = desk.rowcrew("exec", "go")
    assert (called.code, called.out) == (2, "")
    assert called.err.startswith("Error: an agent needs a model and none is named\nHint: give `-m ")
