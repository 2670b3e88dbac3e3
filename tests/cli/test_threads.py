"""thread: conversations are listed, shown, named and put away; and what a wrong id says."""

import re
import subprocess
import sys

import pytest

from tests.cli.conftest import Desk
from tests.served import ServerThread


def talk(desk: Desk, *prompts: str) -> list[str]:
    """The ids of new threads with one turn each, the newest first."""
    with ServerThread(lambda received: f"You said {received.last_user_text}.") as served:
        for prompt in prompts:
            desk.rowcrew("exec", "-m", "m", "--base-url", served.server.url, prompt)
    return [thread["thread_id"] for thread in desk.rowcrew("thread", "list", "--json").json["threads"]]


def test_without_threads_a_first_step_is_shown(desk: Desk) -> None:
    assert desk.rowcrew("thread", "list").err == (
        "There are no threads here. Try: rowcrew exec 'Say hello' -m MODEL\n"
    )
    assert desk.rowcrew("thread", "list", "--json").json == {"threads": []}


def test_threads_are_listed_the_newest_first_and_found_again(desk: Desk) -> None:
    newest, oldest = talk(desk, "one", "two")
    lines = desk.rowcrew("thread", "list").out.splitlines()
    assert re.split(r"\s{2,}", lines[0]) == ["THREAD", "STATUS", "CHANGED", "NAME"]
    assert [(line[:8], line.split()[-1]) for line in lines[1:]] == [(newest[:8], "two"), (oldest[:8], "one")]
    found = desk.rowcrew("thread", "list", "--search", "one", "--json").json["threads"]
    assert [thread["thread_id"] for thread in found] == [oldest]


def test_a_thread_shows_what_was_said(desk: Desk) -> None:
    [thread_id] = talk(desk, "hello")
    called = desk.rowcrew("thread", "show", thread_id[:6])
    assert (called.out, called.err) == (
        "[user]\n  hello\n[agent]\n  You said hello.\n",
        f"hello (m, {desk.folder})\n",
    )
    shape = desk.rowcrew("thread", "show", thread_id, "--json").json
    assert (shape["status"], shape["source"], shape["model"]) == ("completed", "exec", "m")
    assert [item["content"] for item in shape["turns"][0]["items"]] == [
        {"text": "hello"},
        {"text": "You said hello."},
    ]


def test_a_thread_is_named_put_away_brought_back_and_deleted(desk: Desk) -> None:
    [thread_id] = talk(desk, "hello")
    name = thread_id[:8]

    def said(*arguments: str) -> str:
        called = desk.rowcrew("thread", *arguments)
        assert (called.code, called.out) == (0, "")
        return called.err

    def listed(*options: str) -> list[str]:
        return [
            thread["name"] for thread in desk.rowcrew("thread", "list", "--json", *options).json["threads"]
        ]

    assert said("name", name, "My talk") == f"Thread {name} is called My talk.\n"
    assert listed() == ["My talk"]
    assert said("name", name, " ") == f"Thread {name} has no name any more.\n"
    assert listed() == [None]
    assert said("name", name, "My talk") == f"Thread {name} is called My talk.\n"
    assert (
        said("archive", name) == f"Thread {name} is archived. `rowcrew thread unarchive {name}` undoes it.\n"
    )
    assert (listed(), listed("--archived")) == ([], ["My talk"])
    assert said("unarchive", name) == f"Thread {name} is in the list again.\n"
    assert listed() == ["My talk"]
    assert said("delete", name) == f"Thread {name} is deleted.\n"
    assert listed() == []


def test_who_only_looks_does_not_wait_for_a_model_library(desk: Desk) -> None:
    [thread_id] = talk(desk, "hello")
    for words in (["thread", "list"], ["thread", "show", thread_id], ["queue", "list", thread_id]):
        code = (
            f"import sys; from rowcrew.cli.main import main; main({words!r});"
            "print(sorted({'rich', 'uvloop', 'pydantic', 'openai', 'aiohttp'} & set(sys.modules)))"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize("verb", ["show", "archive", "unarchive", "delete"])
def test_an_unknown_thread_is_named(desk: Desk, verb: str) -> None:
    called = desk.rowcrew("thread", verb, "abc")
    assert (called.code, called.err) == (
        2,
        "Error: no thread id begins with 'abc'\nHint: `rowcrew thread list` shows the threads\n",
    )
