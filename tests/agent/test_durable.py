"""Turns in the history file: kept as they happen, resumed with what was said, settled after a crash."""

import dataclasses
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai.messages import ModelMessage, ModelRequest, ToolReturnPart, UserPromptPart

from rowcrew.agent.control import AgentControl
from rowcrew.agent.durable import DurableJournal, dump_messages, load_messages, mend
from rowcrew.agent.settling import settle_history
from rowcrew.agent.thread import AgentSpec
from rowcrew.agent.tools import Arguments, Tool, ToolRegistry, ToolResult
from rowcrew.domain.attempt import Usage
from rowcrew.domain.events import (
    AgentState,
    AgentStatus,
    TurnEnded,
    TurnFailure,
    TurnItemKind,
    TurnItemStatus,
    TurnStarted,
)
from rowcrew.domain.history import Turn
from rowcrew.domain.lifecycle import TurnStatus
from rowcrew.errors import Conflict, DiskFull, ErrorClass
from rowcrew.processes import identify
from rowcrew.store.database import Database
from rowcrew.store.history import HistoryStore
from rowcrew.testing import FakeClock
from tests.store.job_store import side_by_side

NOTHING = {"type": "object", "properties": {}}


@pytest.fixture
async def history(tmp_path: Path) -> AsyncIterator[Database]:
    database = await Database.open(tmp_path / "history_1.sqlite", kind="history")
    yield database
    await database.close()


async def turns(history: Database, thread_id: str) -> list[Turn]:
    return await history.read(lambda connection: HistoryStore(connection).list_turns(thread_id))


async def done(_: Arguments) -> ToolResult:
    return ToolResult("done", details={"extra": 1})


async def test_a_turn_is_kept_with_its_items_and_its_usage(history: Database, model: Any, say: Any) -> None:
    tools = ToolRegistry([Tool("a", "Does.", NOTHING, done)])
    async with AgentControl(journal=DurableJournal(history)) as control:
        talking = model([say.call(("a", {}), text="wait"), say.text("fine")])
        thread = await control.spawn(AgentSpec(talking, tools), "go")
        await thread.watch().final()
        [turn] = await turns(history, thread.id)
    assert (turn.status, turn.last_message, turn.sequence) == (TurnStatus.COMPLETED, "fine", 1)
    assert turn.usage == Usage(requests=2, input_tokens=20, output_tokens=10)
    assert [(item.kind, item.status, dict(item.content)) for item in turn.items] == [
        (TurnItemKind.USER_MESSAGE, TurnItemStatus.COMPLETED, {"text": "go"}),
        (TurnItemKind.AGENT_MESSAGE, TurnItemStatus.COMPLETED, {"text": "wait"}),
        (
            TurnItemKind.TOOL_CALL,
            TurnItemStatus.COMPLETED,
            {"tool": "a", "arguments": {}, "output": "done", "extra": 1},
        ),
        (TurnItemKind.AGENT_MESSAGE, TurnItemStatus.COMPLETED, {"text": "fine"}),
    ]


async def test_a_resumed_thread_goes_on_with_what_was_said(history: Database, model: Any, say: Any) -> None:
    async with AgentControl(journal=DurableJournal(history)) as control:
        first = await control.spawn(
            AgentSpec(model([say.text("an apple \ud800")]), instructions="be kind"), "what?"
        )
        await first.watch().final()
        await control.close(first.id)
        resumed = model([say.text("a pear")])
        spec = AgentSpec(resumed, instructions="be kind", messages=await load_messages(history, first.id))
        second = await control.spawn(spec, "and now?", thread_id=first.id)
        await second.watch().final()
        contents = [[part.content for part in message.parts] for message in resumed.asked[0]]
        assert contents == [["be kind", "what?"], ["an apple \ufffd"], ["and now?"]]
        assert [turn.sequence for turn in await turns(history, first.id)] == [1, 2]


async def test_a_turn_is_already_readable_while_it_runs(
    history: Database, model: Any, say: Any, gate: Any
) -> None:
    asked = gate()
    tools = ToolRegistry([Tool("a", "Does.", NOTHING, done)])
    async with AgentControl(journal=DurableJournal(history)) as control:
        thread = await control.spawn(
            AgentSpec(model([say.call(("a", {})), asked.then(say.text("x"))]), tools), "go"
        )
        await asked.reached.wait()
        [turn] = await turns(history, thread.id)
        assert (turn.status, len(turn.items)) == (TurnStatus.IN_PROGRESS, 2)
    [turn] = await turns(history, thread.id)
    assert turn.status is TurnStatus.INTERRUPTED


async def test_a_restart_settles_what_a_dead_process_left_and_lets_the_living_be(history: Database) -> None:
    dead = dataclasses.replace(identify(), boot_id="another boot")
    for owner, thread_id in ((dead, "left"), (identify(), "alive")):
        journal = DurableJournal(history, owner=owner)
        journal.note(TurnStarted(thread_id=thread_id, turn_id="1", at_ms=5))
        await journal.flush(thread_id)
    assert await settle_history(history, FakeClock()) == [("left", "1")]
    statuses = [(await turns(history, name))[0].status for name in ("left", "alive")]
    assert statuses == [TurnStatus.INTERRUPTED, TurnStatus.IN_PROGRESS]


async def test_a_thread_with_a_turn_in_progress_elsewhere_starts_no_other(
    history: Database, model: Any, say: Any
) -> None:
    other = DurableJournal(history)
    other.note(TurnStarted(thread_id="t", turn_id="other", at_ms=5))
    await other.flush("t")
    async with AgentControl(journal=DurableJournal(history)) as control:
        thread = await control.spawn(AgentSpec(model([say.text("x")])), thread_id="t")
        ended = await thread.send("go").ended
    sentence = "the thread t has a turn in progress elsewhere"
    assert ended
    assert ended.failure == TurnFailure(sentence, ErrorClass.CRASHED)


async def test_turns_that_end_side_by_side_are_kept_each_as_it_would_be_alone(history: Database) -> None:
    journal = DurableJournal(history)
    journal.note(TurnStarted(thread_id="busy", turn_id="other", at_ms=5))
    await journal.flush("busy")

    def end(thread_id: str) -> None:
        key: dict[str, Any] = {"thread_id": thread_id, "turn_id": "1"}
        journal.note(TurnStarted(**key, at_ms=5))
        journal.remember(thread_id, "1", ModelRequest([UserPromptPart(f"for {thread_id}")]))
        journal.note(TurnEnded(**key, at_ms=9, status=TurnStatus.COMPLETED, started_at_ms=5, duration_ms=4))

    for thread_id in ("a", "b", "busy", "c"):
        end(thread_id)
    results = await side_by_side(history, *(journal.flush(name) for name in ("a", "b", "busy", "c")))
    assert [type(result) for result in results] == [type(None), type(None), Conflict, type(None)]
    for name in ("a", "b", "c"):
        [turn] = await turns(history, name)
        assert (turn.id, turn.sequence, turn.status) == ("1", 1, TurnStatus.COMPLETED)
        [message] = await load_messages(history, name)
        assert [part.content for part in message.parts] == [f"for {name}"]  # type: ignore[union-attr]
    assert [turn.id for turn in await turns(history, "busy")] == ["other"]


async def test_what_could_not_be_written_is_written_later(
    history: Database, monkeypatch: pytest.MonkeyPatch, model: Any, say: Any
) -> None:
    write, written = history.write_with_others, []

    async def full(work: Any, given: Any) -> None:
        # What the user said still finds room; what the model said does not.
        written.append(given)
        if len(written) > 1:
            raise DiskFull("no room on the disk")
        await write(work, given)

    async with AgentControl(journal=DurableJournal(history)) as control:
        thread = await control.spawn(AgentSpec(model([say.text("a"), say.text("b")])))
        with monkeypatch.context() as patch:
            patch.setattr(history, "write_with_others", full)
            await thread.send("1").ended
            assert thread.status == AgentStatus(AgentState.ERRORED, "no room on the disk")
        await thread.send("2").ended
        assert [turn.last_message for turn in await turns(history, thread.id)] == ["a", "b"]
        assert len(await load_messages(history, thread.id)) == 4


async def test_nothing_is_asked_before_what_the_user_said_is_kept(
    history: Database, monkeypatch: pytest.MonkeyPatch, model: Any, say: Any
) -> None:
    async def full(*_: Any) -> None:
        raise DiskFull("no room on the disk")

    scripted = model([say.text("a")])
    async with AgentControl(journal=DurableJournal(history)) as control:
        thread = await control.spawn(AgentSpec(scripted))
        with monkeypatch.context() as patch:
            patch.setattr(history, "write_with_others", full)
            await thread.send("1").ended
            assert thread.status == AgentStatus(AgentState.ERRORED, "no room on the disk")
        assert scripted.asked == []


def test_calls_that_a_crash_left_unanswered_are_answered(say: Any) -> None:
    asked: list[ModelMessage] = [ModelRequest([UserPromptPart("go")]), say.call(("a", {}), ("b", {}))]
    answer = ModelRequest([ToolReturnPart("a", "done", tool_call_id="call-0")])
    interrupted = "tool execution interrupted after 0.1s"

    def told(messages: list[ModelMessage]) -> list[list[Any]]:
        return [[part.content for part in message.parts] for message in messages if message.kind == "request"]

    assert told(mend(asked)) == [["go"], [interrupted, interrupted]]
    assert told(mend([*asked, answer])) == [["go"], [interrupted], ["done"]]
    assert told(mend([*asked, say.text("x")])) == [["go"], [interrupted, interrupted]]
    assert mend([*asked[:1], say.text("x")])[1:] != []
    assert dump_messages(asked).startswith("[{")
