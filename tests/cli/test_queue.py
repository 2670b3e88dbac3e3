"""queue: turns are written down, changed, and run one after the other; and how that ends."""

import io
import sys
from typing import Any

import pytest

from rowcrew.testing import ModelServer, Received
from rowcrew.testing.answers import Answer, Failure, Reply
from tests.cli.conftest import Called, Desk
from tests.served import ServerThread


def echo(received: Received) -> Answer:
    text = received.last_user_text
    return Failure(400, "invalid_request", "it is too rude") if "rude" in text else Reply(f"You said {text}.")


class Talk:
    """A thread, its queue, and the model that it needs."""

    def __init__(self, desk: Desk, monkeypatch: pytest.MonkeyPatch, server: ModelServer) -> None:
        self.desk = desk
        self.server = server
        monkeypatch.setenv("ROWCREW_BASE_URL", server.url)
        desk.rowcrew("exec", "-m", "m", "begin")
        [thread] = desk.rowcrew("thread", "list", "--json").json["threads"]
        self.thread_id: str = thread["thread_id"]
        self.name = self.thread_id[:8]

    def __call__(self, verb: str, *arguments: str) -> Called:
        return self.desk.rowcrew("queue", verb, self.thread_id, *arguments)

    def waits(self) -> list[tuple[str, str]]:
        return [(entry["text"], entry["status"]) for entry in self("list", "--json").json["entries"]]

    def ids(self) -> list[str]:
        return [entry["id"][:8] for entry in self("list", "--json").json["entries"]]

    def said(self) -> list[str]:
        return [received.last_user_text for received in self.server.requests][1:]


@pytest.fixture
def talk(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> Any:
    with ServerThread(echo) as served:
        yield Talk(desk, monkeypatch, served.server)


def test_what_is_queued_is_run_in_order_each_once(talk: Talk) -> None:
    for text in ("one", "two", "three"):
        assert talk("add", text).code == 0
    called = talk("start")
    assert (called.code, called.out) == (0, "You said one.\nYou said two.\nYou said three.\n")
    assert called.err == "> one\n> two\n> three\nNothing waits any more.\n"
    assert talk.said() == ["one", "two", "three"]
    assert talk.waits() == []
    again = talk("start")
    assert (again.code, again.out, again.err) == (0, "", "Nothing waits any more.\n")


def test_adding_says_what_became_of_it(talk: Talk) -> None:
    first = talk("add", "one", "--client-id", "mine", "--json")
    entry = first.json["entry"]
    assert (first.json["outcome"], entry["text"], entry["status"], entry["client_id"]) == (
        "added",
        "one",
        "pending",
        "mine",
    )
    hint = f"The thread is not loaded anywhere. `rowcrew queue start {talk.name}` runs its queue.\n"
    assert talk("add", "one", "--client-id", "mine").err == (
        f"It is in the queue already, as {entry['id'][:8]}.\n{hint}"
    )
    other = talk("add", "two", "--client-id", "mine")
    assert (other.code, other.err.splitlines()[0]) == (
        75,
        "Error: the client id 'mine' already stands for another queued turn of this thread",
    )
    assert talk.waits() == [("one", "pending")]


def test_a_text_may_come_on_standard_input_or_begin_with_a_dash(
    talk: Talk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO("grüß\nGott\n".encode())))
    talk("add", "-")
    talk("add", "--", "--help me")
    refused = talk("add", "-x")
    assert (refused.code, refused.err) == (
        2,
        (
            "Error: no such option '-x'.\n"
            "Hint: `rowcrew queue add --help` shows what can be given; "
            "what is no option and begins with a dash goes after --\n"
        ),
    )
    assert talk.waits() == [("grüß\nGott", "pending"), ("--help me", "pending")]


def test_entries_are_changed_reordered_and_deleted(talk: Talk) -> None:
    for text in ("one", "two", "three"):
        talk("add", text)
    one, two, three = talk.ids()
    assert talk("update", two, "zwei").err == f"{two} is changed.\n"
    assert talk("reorder", three, one, two).err == "The queue is in that order now.\n"
    assert talk("delete", one).err == f"{one} is deleted.\n"
    lines = talk("list").out.splitlines()
    assert [line.split() for line in lines] == [
        ["ID", "STATUS", "TEXT"],
        [three, "pending", "three"],
        [two, "pending", "zwei"],
    ]
    incomplete = talk("reorder", three)
    assert (incomplete.code, incomplete.err.splitlines()[0]) == (
        2,
        "Error: queue reorder must include every visible queued turn exactly once",
    )


def test_a_turn_that_fails_by_itself_does_not_stop_those_behind_it(talk: Talk) -> None:
    talk("add", "be rude")
    talk("add", "two")
    called = talk("start", "--json")
    assert called.code == 100
    assert [(line["status"], line["message"]) for line in called.lines] == [
        ("failed", None),
        ("completed", "You said two."),
    ]
    assert "it is too rude" in called.lines[0]["error"]
    assert talk.waits() == []


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("add", " "), 2, "Error: a queued turn needs a text"),
        (("update", "abc", "x"), 2, "Error: the thread {name} has no queued turn 'abc'"),
        (("delete", "abc"), 2, "Error: the thread {name} has no queued turn 'abc'"),
        (("retry", "abc"), 2, "Error: the thread {name} has no queued turn 'abc'"),
    ],
)
def test_what_cannot_be_done_is_said(talk: Talk, arguments: tuple[str, ...], code: int, said: str) -> None:
    called = talk(*arguments)
    assert (called.code, called.err.splitlines()[0]) == (code, said.format(name=talk.name))


def test_what_waits_needs_no_retry(talk: Talk) -> None:
    talk("add", "one")
    [one] = talk.ids()
    called = talk("retry", one)
    assert (called.code, called.err.splitlines()[0]) == (75, f"Error: the queued turn {one} has not failed")


def test_a_queue_of_no_thread_is_refused(desk: Desk) -> None:
    called = desk.rowcrew("queue", "add", "abc", "hello")
    assert (called.code, called.err) == (
        2,
        "Error: no thread id begins with 'abc'\nHint: `rowcrew thread list` shows the threads\n",
    )
