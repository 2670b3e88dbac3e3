"""The queue of turns between real processes: killed at exact moments, fed and drained by several at once."""

import asyncio
import signal
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest

from rowcrew.agent.queueing import TurnQueue
from rowcrew.agent.setup import ThreadSetup
from rowcrew.config import Settings
from rowcrew.engine import Engine
from rowcrew.testing import ModelServer, Received, Reply
from tests.processes.program import Outcome, Program, Running, until
from tests.served import ServerThread

HERE = Path(__file__).parent
INTERRUPTED = "dispatch interrupted"
T = TypeVar("T")


class Talk:
    """A thread with a queue, and a model that says what it heard. Texts with `wait` are answered late.

    What is at work are processes; this one only writes the thread and its queue, and looks.
    """

    def __init__(self, program: Program, server: ModelServer) -> None:
        self.program = program
        self.server = server
        program.extra |= {"ROWCREW_BASE_URL": server.url, "OPENAI_API_KEY": "k"}

        async def make(engine: Engine) -> str:
            threads = await engine.threads()
            return (await threads.start(ThreadSetup(model="m", base_url=server.url), source="exec")).id

        self.thread_id = self._with_engine(make)

    def _with_engine(self, work: Callable[[Engine], Awaitable[T]]) -> T:
        async def main() -> T:
            async with Engine.open(Settings(home=self.program.home)) as engine:
                return await work(engine)

        return asyncio.run(main())

    def _with_queue(self, work: Callable[[TurnQueue], Awaitable[T]]) -> T:
        async def main(engine: Engine) -> T:
            return await work(TurnQueue(await engine.database("queue"), await engine.thread_catalog()))

        return self._with_engine(main)

    def add(self, *texts: str) -> None:
        async def work(queue: TurnQueue) -> None:
            for text in texts:
                await queue.add(self.thread_id, text)

        self._with_queue(work)

    def entries(self) -> list[tuple[str, str, str | None]]:
        """What waits, as (text, status, failure)."""

        async def work(queue: TurnQueue) -> list[tuple[str, str, str | None]]:
            return [(one.text, str(one.status), one.failure) for one in queue.list(self.thread_id)]

        return self._with_queue(work)

    def head(self) -> str:
        """The id of the first entry."""

        async def work(queue: TurnQueue) -> str:
            return queue.list(self.thread_id)[0].id

        return self._with_queue(work)

    def is_held(self) -> bool:
        async def work(queue: TurnQueue) -> bool:
            return queue.is_held(self.thread_id)

        return self._with_queue(work)

    def turns(self) -> list[tuple[str, str]]:
        """(what the user said, how the turn ended)."""

        async def work(engine: Engine) -> list[tuple[str, str]]:
            view = await (await engine.thread_catalog()).read(self.thread_id)
            return [(str(turn.items[0].content["text"]), str(turn.status)) for turn in view.turns]

        return self._with_engine(work)

    def asked(self) -> list[str]:
        """What the model was asked, in order."""
        return [received.last_user_text for received in self.server.requests]

    def queue(self, verb: str, *words: str) -> Outcome:
        return self.program.call("queue", verb, self.thread_id, *words)

    def start(self) -> Running:
        return self.program.start("queue", "start", self.thread_id)

    def script(self, name: str, *words: str) -> Running:
        return self.program.start_python(HERE / name, *words)


def answer(received: Received) -> Reply:
    text = received.last_user_text
    return Reply(f"You said {text}.", delay=3600 if "wait" in text else 0)


@pytest.fixture
def talk(program: Program) -> Iterator[Talk]:
    with ServerThread(answer) as served:
        yield Talk(program, served.server)


@pytest.mark.parametrize(
    ("moment", "asked", "turns"),
    [("claimed", [], []), ("started", [], [("one", "interrupted")])],
)
def test_killed_before_the_model_was_asked_a_turn_is_kept_and_waits_for_a_word(
    talk: Talk, moment: str, asked: list[str], turns: list[tuple[str, str]]
) -> None:
    talk.add("one", "two")
    assert talk.script("killed_dispatch.py", moment, talk.thread_id).end().code == -signal.SIGKILL
    blocked = talk.queue("start")
    assert (blocked.code, blocked.out) == (1, "")
    assert f"The head of the queue has failed: {INTERRUPTED}." in blocked.err
    assert talk.entries() == [("one", "failed", INTERRUPTED), ("two", "pending", None)]
    assert talk.asked() == asked
    assert talk.queue("retry", talk.head()).code == 0
    assert talk.queue("start").out == "You said one.\nYou said two.\n"
    assert (talk.entries(), talk.asked()) == ([], ["one", "two"])
    assert talk.turns()[-2:] == [("one", "completed"), ("two", "completed")]


def test_killed_in_the_middle_of_a_turn_it_is_not_run_again_by_itself(talk: Talk) -> None:
    talk.add("wait here", "two")
    running = talk.start()
    until(lambda: talk.asked() == ["wait here"], "the model to be asked")
    running.kill()
    assert talk.queue("start").code == 1
    assert talk.entries() == [("wait here", "failed", INTERRUPTED), ("two", "pending", None)]
    assert talk.turns() == [("wait here", "interrupted")]
    assert talk.queue("delete", talk.head()).code == 0
    assert talk.queue("start").out == "You said two.\n"
    assert talk.asked() == ["wait here", "two"]


def test_killed_after_a_turn_has_ended_its_entry_goes_and_the_next_one_runs(talk: Talk) -> None:
    talk.add("one", "two")
    assert talk.script("killed_dispatch.py", "ended", talk.thread_id).end().code == -signal.SIGKILL
    done = talk.queue("start")
    assert (done.code, done.out) == (0, "You said two.\n")
    assert (talk.entries(), talk.asked()) == ([], ["one", "two"])
    assert talk.turns() == [("one", "completed"), ("two", "completed")]


def test_five_that_drain_at_once_run_each_turn_once(talk: Talk) -> None:
    texts = [f"text {number}" for number in range(6)]
    talk.add(*texts)
    drains = [talk.start() for _ in range(5)]
    outcomes = [drain.end() for drain in drains]
    # Who came first runs them. The others find the thread in use, or nothing left.
    assert {outcome.code for outcome in outcomes} <= {0, 75}
    assert all("Traceback" not in outcome.err for outcome in outcomes)
    assert (talk.entries(), talk.asked()) == ([], texts)


def test_what_two_processes_add_at_once_is_run_in_one_order_each_once(talk: Talk) -> None:
    go = talk.program.folder / "go"
    adding = [talk.script("adding.py", talk.thread_id, name, "20", str(go)) for name in ("a", "b")]
    until(lambda: all(one.out == "ready\n" for one in adding), "both to be ready")
    go.touch()
    assert [one.end().code for one in adding] == [0, 0]
    order = [text for text, _, _ in talk.entries()]
    assert sorted(order) == sorted(f"{name}{number}" for name in "ab" for number in range(20))
    for name in "ab":
        assert [text for text in order if text[0] == name] == [f"{name}{number}" for number in range(20)]
    assert talk.queue("start").code == 0
    assert talk.asked() == order


def test_a_second_terminal_sees_what_has_been_started_and_adds_behind_it(talk: Talk) -> None:
    talk.add("wait here")
    started = talk.head()
    running = talk.start()
    until(lambda: talk.asked() == ["wait here"], "the model to be asked")
    refused = talk.queue("delete", started[:8])
    assert (refused.code, refused.err.splitlines()[0]) == (
        75,
        f"Error: the queued turn {started[:8]} has been started already",
    )
    assert talk.queue("add", "two").code == 0
    again = talk.queue("start")
    assert (again.code, again.err) == (
        0,
        f"The thread is loaded in process {running.process.pid}: its queue goes on there.\n",
    )
    deleted = talk.program.call("thread", "delete", talk.thread_id)
    assert (deleted.code, f"in use by process {running.process.pid}" in deleted.err) == (75, True)
    assert talk.entries() == [("two", "pending", None)]
    running.signal(signal.SIGINT)
    assert running.end().code == 130


def test_an_interrupt_with_two_waiting_holds_them_until_the_user_goes_on(talk: Talk) -> None:
    talk.add("wait here", "two", "three")
    running = talk.start()
    until(lambda: talk.asked() == ["wait here"], "the model to be asked")
    running.signal(signal.SIGINT)
    outcome = running.end()
    assert outcome.code == 130
    assert f"rowcrew queue start {talk.thread_id[:8]}" in outcome.err.splitlines()[-1]
    assert talk.entries() == [("two", "pending", None), ("three", "pending", None)]
    assert talk.is_held()
    assert talk.turns() == [("wait here", "interrupted")]
    assert talk.queue("start").out == "You said two.\nYou said three.\n"
    assert talk.asked() == ["wait here", "two", "three"]


def test_a_damaged_queue_file_is_named_and_left_as_it_is(talk: Talk) -> None:
    talk.add("one")
    path = talk.program.home / "queue_1.sqlite"
    for beside in talk.program.home.glob("queue_1.sqlite-*"):
        beside.unlink()
    damage = b"no database" * 1000
    path.write_bytes(damage)
    for verb, words in (("list", ()), ("add", ("two",)), ("start", ())):
        outcome = talk.queue(verb, *words)
        assert (outcome.code, outcome.out) == (1, "")
        assert str(path) in outcome.err.splitlines()[0]
        assert "Traceback" not in outcome.err
    assert path.read_bytes() == damage
    # What is in the other files goes on.
    assert talk.program.call("exec", "resume", talk.thread_id, "hello").out == "You said hello.\n"
    assert talk.program.call("list").code == 0
