"""One turn: every way it can end, what it tells and in which order, what the model is told of its calls."""

import asyncio
from typing import Any

import pytest

from rowcrew.agent.conversation import Conversation
from rowcrew.agent.journal import NoJournal
from rowcrew.agent.record import TurnRecord
from rowcrew.agent.tools import Arguments, Tool, ToolError, ToolRegistry, ToolResult
from rowcrew.agent.turn import Turn, interrupted_text
from rowcrew.bus import Bus
from rowcrew.domain.attempt import Usage
from rowcrew.domain.events import (
    TurnEnded,
    TurnFailure,
    TurnItemCompleted,
    TurnItemKind,
    TurnItemStarted,
    TurnItemStatus,
    TurnStarted,
)
from rowcrew.domain.lifecycle import TurnStatus
from rowcrew.errors import DiskFull, ErrorClass, ModelError
from rowcrew.testing import EventLog, FakeClock

NOTHING = {"type": "object", "properties": {}}


class Stage:
    """A turn with everything around it."""

    def __init__(self, model: Any, *tools: Tool, journal: Any = None, **more: Any) -> None:
        bus = Bus()
        self.log = EventLog(bus)
        self.clock = FakeClock()
        self.conversation = Conversation(more.pop("instructions", ""))
        record = TurnRecord("thread", "turn", bus=bus, journal=journal or NoJournal(), clock=self.clock)
        self.turn = Turn(
            record, conversation=self.conversation, model=model, tools=ToolRegistry(tools), **more
        )

    def items(self) -> list[tuple[TurnItemKind, TurnItemStatus, str]]:
        """The completed items, after checking that the order of all facts is what readers rely on."""
        kinds = [type(fact) for fact in self.log.facts]
        assert (kinds[0], kinds[-1]) == (TurnStarted, TurnEnded)
        assert kinds.count(TurnEnded) == 1
        started = [fact.item.id for fact in self.log.of(TurnItemStarted)]
        completed = [fact.item for fact in self.log.of(TurnItemCompleted)]
        assert sorted(started) == sorted(item.id for item in completed)
        return [
            (item.kind, item.status, item.content.get("text", item.content.get("output")))
            for item in completed
        ]


def tool(name: str, run: Any, **more: Any) -> Tool:
    return Tool(name, "Does it.", NOTHING, run, **more)


async def done(_: Arguments) -> ToolResult:
    return ToolResult("done")


async def forever(_: Arguments) -> ToolResult:
    await asyncio.Event().wait()
    raise AssertionError


USER, AGENT = TurnItemKind.USER_MESSAGE, TurnItemKind.AGENT_MESSAGE
CALL, THOUGHT = TurnItemKind.TOOL_CALL, TurnItemKind.REASONING
COMPLETED, FAILED, INTERRUPTED = TurnItemStatus.COMPLETED, TurnItemStatus.FAILED, TurnItemStatus.INTERRUPTED


async def test_a_turn_asks_acts_and_asks_again_until_there_is_nothing_to_do(model: Any, say: Any) -> None:
    talking = model([say.call(("a", {}), text="let me see"), say.text("it is an apple", thinking="hm")])
    stage = Stage(talking, tool("a", done))
    ended = await stage.turn.run("what is it?")
    assert (ended.status, ended.last_message, ended.failure) == (TurnStatus.COMPLETED, "it is an apple", None)
    assert ended.usage == Usage(requests=2, input_tokens=20, output_tokens=10)
    assert stage.items() == [
        (USER, COMPLETED, "what is it?"),
        (AGENT, COMPLETED, "let me see"),
        (CALL, COMPLETED, "done"),
        (THOUGHT, COMPLETED, "hm"),
        (AGENT, COMPLETED, "it is an apple"),
    ]
    assert talking.told() == ["done"]


async def test_instructions_are_said_once_before_everything(model: Any, say: Any) -> None:
    talking = model([say.text("a")])
    stage = Stage(talking, instructions="be kind")
    await stage.turn.run("hello")
    stage.conversation.add_user_text("again")
    kinds = [[part.part_kind for part in message.parts] for message in stage.conversation.messages]
    assert kinds == [["system-prompt", "user-prompt"], ["text"], ["user-prompt"]]


async def test_tools_that_only_read_run_side_by_side_and_are_answered_in_order(
    model: Any, say: Any, gate: Any
) -> None:
    first, second = gate(), gate()

    async def wait_for_second(_: Arguments) -> ToolResult:
        first.reached.set()
        await second.reached.wait()
        return ToolResult("first")

    async def reach_second(_: Arguments) -> ToolResult:
        await first.reached.wait()
        second.reached.set()
        return ToolResult("second")

    talking = model([say.call(("a", {}), ("b", {})), say.text("ok")])
    stage = Stage(
        talking, tool("a", wait_for_second, read_only=True), tool("b", reach_second, read_only=True)
    )
    assert (await stage.turn.run("go")).status is TurnStatus.COMPLETED
    assert talking.told() == ["first", "second"]


async def test_other_tools_run_one_after_the_other(model: Any, say: Any) -> None:
    running: list[str] = []

    def alone(name: str) -> Any:
        async def run(_: Arguments) -> ToolResult:
            running.append(f"{name} starts")
            await asyncio.wait({asyncio.ensure_future(asyncio.to_thread(int))})
            running.append(f"{name} ends")
            return ToolResult(name)

        return run

    stage = Stage(
        model([say.call(("a", {}), ("b", {})), say.text("ok")]), tool("a", alone("a")), tool("b", alone("b"))
    )
    await stage.turn.run("go")
    assert running == ["a starts", "a ends", "b starts", "b ends"]


async def test_a_tool_that_fails_in_good_order_is_answered_and_the_turn_goes_on(model: Any, say: Any) -> None:
    async def refuse(_: Arguments) -> ToolResult:
        raise ToolError("no such file")

    talking = model([say.call(("a", {}), ("none", {})), say.text("ok")])
    stage = Stage(talking, tool("a", refuse))
    assert (await stage.turn.run("go")).status is TurnStatus.COMPLETED
    assert talking.told() == ["no such file", "there is no tool `none`; the tools are `a`"]


async def test_a_broken_tool_ends_the_turn_as_failed_and_leaves_no_call_unanswered(
    model: Any, say: Any
) -> None:
    async def broken(_: Arguments) -> ToolResult:
        raise ZeroDivisionError("by zero")

    stage = Stage(
        model([say.call(("a", {}), ("b", {}), ("c", {}))]),
        tool("a", done),
        tool("b", broken),
        tool("c", done),
    )
    ended = await stage.turn.run("go")
    sentence = "the tool `b` broke: ZeroDivisionError: by zero"
    assert (ended.status, ended.failure) == (TurnStatus.FAILED, TurnFailure(sentence, ErrorClass.CRASHED))
    assert stage.items()[1:] == [(CALL, COMPLETED, "done"), (CALL, FAILED, sentence)]
    answers = [part.content for part in stage.conversation.messages[-1].parts]  # type: ignore[union-attr]
    assert answers == ["done", sentence, "not run: the turn ended before"]


async def test_a_call_that_something_else_cancels_is_answered_and_the_turn_goes_on(
    model: Any, say: Any
) -> None:
    async def give_up(_: Arguments) -> ToolResult:
        raise asyncio.CancelledError

    talking = model([say.call(("a", {})), say.text("ok")])
    stage = Stage(talking, tool("a", give_up))
    assert (await stage.turn.run("go")).status is TurnStatus.COMPLETED
    assert talking.told() == ["tool execution interrupted after 0.1s"]


async def test_a_model_error_ends_the_turn_as_failed_with_its_class(model: Any) -> None:
    error = ModelError("slow down", error_class=ErrorClass.RATE_LIMITED, retry_after=7)
    stage = Stage(model([error]))
    ended = await stage.turn.run("go")
    assert (ended.status, ended.failure) == (
        TurnStatus.FAILED,
        TurnFailure("slow down", ErrorClass.RATE_LIMITED, 7),
    )
    assert stage.items() == [(USER, COMPLETED, "go")]


async def test_an_interrupt_while_the_model_is_asked_ends_the_turn(model: Any, say: Any, gate: Any) -> None:
    asked = gate()
    stage = Stage(model([asked.then(say.text("too late"))]))
    async with asyncio.TaskGroup() as group:
        running = group.create_task(stage.turn.run("go"))
        await asked.reached.wait()
        stage.turn.interrupt()
    assert running.result().status is TurnStatus.INTERRUPTED
    assert stage.items() == [(USER, COMPLETED, "go")]


async def test_an_interrupted_call_is_answered_with_how_long_it_ran(model: Any, say: Any, gate: Any) -> None:
    started = gate()

    async def hang(_: Arguments) -> ToolResult:
        started.reached.set()
        return await forever(_)

    stage = Stage(model([say.call(("a", {}), ("b", {}))]), tool("a", hang), tool("b", done))
    async with asyncio.TaskGroup() as group:
        running = group.create_task(stage.turn.run("go"))
        await started.reached.wait()
        await stage.clock.advance(0.2)
        stage.turn.interrupt()
    assert running.result().status is TurnStatus.INTERRUPTED
    sentence = "tool execution interrupted after 0.2s"
    assert stage.items()[1:] == [(CALL, INTERRUPTED, sentence)]
    answers = [part.content for part in stage.conversation.messages[-1].parts]  # type: ignore[union-attr]
    assert answers == [sentence, "not run: the turn ended before"]


def test_an_interrupted_call_is_never_said_to_have_taken_less_than_a_tenth() -> None:
    assert [interrupted_text(seconds) for seconds in (0.0, 0.04, 0.2, 61.25)] == [
        f"tool execution interrupted after {text}s" for text in ("0.1", "0.1", "0.2", "61.2")
    ]


async def test_a_turn_cancelled_from_outside_still_tells_its_one_end(model: Any, say: Any, gate: Any) -> None:
    asked = gate()
    stage = Stage(model([asked.then(say.text("too late"))]))
    running = asyncio.create_task(stage.turn.run("go"))
    await asked.reached.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert stage.items() == [(USER, COMPLETED, "go")]
    assert stage.log.of(TurnEnded)[0].status is TurnStatus.INTERRUPTED


async def test_a_tool_can_end_the_turn_and_the_model_is_not_asked_again(model: Any, say: Any) -> None:
    async def report(_: Arguments) -> ToolResult:
        return ToolResult("accepted", ends_turn=True)

    talking = model([say.call(("report", {}), ("a", {}))])
    stage = Stage(talking, tool("report", report), tool("a", done))
    assert (await stage.turn.run("go")).status is TurnStatus.COMPLETED
    assert len(talking.asked) == 1
    assert stage.items()[1:] == [(CALL, COMPLETED, "accepted")]


async def test_a_model_that_never_comes_to_an_end_is_asked_only_so_often(model: Any, say: Any) -> None:
    talking = model([say.call(("nope", {}))] * 4)
    stage = Stage(talking, max_requests=3)
    ended = await stage.turn.run("go")
    said = "the model was asked 3 times in one turn and came to no end (agents.max_turn_requests)"
    assert (ended.status, ended.failure) == (TurnStatus.FAILED, TurnFailure(said, ErrorClass.NO_REPORT))
    assert (len(talking.asked), len(stage.items())) == (3, 4)


@pytest.mark.parametrize(
    ("reason", "failure"),
    [
        ("length", TurnFailure("the model's answer was cut off at its token limit", ErrorClass.NO_REPORT)),
        (
            "content_filter",
            TurnFailure("the provider withheld the model's answer (content filter)", ErrorClass.REFUSED),
        ),
    ],
)
async def test_half_an_answer_is_none_but_its_calls_are_answered(
    model: Any, say: Any, reason: Any, failure: TurnFailure
) -> None:
    half, cut = say.call(("a", {})), say.text("I am about to")
    half.finish_reason = cut.finish_reason = reason
    stage = Stage(model([half, cut]), tool("a", done))
    ended = await stage.turn.run("go")
    assert (ended.status, ended.failure) == (TurnStatus.FAILED, failure)
    assert stage.items()[1:] == [(CALL, COMPLETED, "done"), (AGENT, COMPLETED, "I am about to")]


async def test_what_is_said_during_a_turn_is_heard_before_the_model_is_asked_next(
    model: Any, say: Any, gate: Any
) -> None:
    asked = gate()
    talking = model([asked.then(say.text("first")), say.text("second")])
    stage = Stage(talking)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(stage.turn.run("go"))
        await asked.reached.wait()
        stage.turn.steer("and a pear?")
        asked.opened.set()
    assert running.result().last_message == "second"
    assert talking.told() == ["and a pear?"]


async def test_what_is_said_too_late_stands_in_the_conversation_for_the_next_turn(
    model: Any, say: Any
) -> None:
    stage = Stage(model([say.call(("report", {}))]))

    async def report(_: Arguments) -> ToolResult:
        stage.turn.steer("wait!")
        return ToolResult("accepted", ends_turn=True)

    stage.turn._tools = ToolRegistry([tool("report", report)])
    await stage.turn.run("go")
    assert stage.items()[-1] == (USER, COMPLETED, "wait!")


class FullDisk(NoJournal):
    """A journal that fails from the given flush on."""

    def __init__(self, *, good: int) -> None:
        self.good = good

    async def flush(self, thread_id: str) -> None:
        self.good -= 1
        if self.good < 0:
            raise DiskFull("no room on the disk")


@pytest.mark.parametrize("good", [0, 1])
async def test_a_history_that_cannot_be_written_fails_the_turn(model: Any, say: Any, good: int) -> None:
    stage = Stage(model([say.call(("a", {})), say.text("ok")]), tool("a", done), journal=FullDisk(good=good))
    ended = await stage.turn.run("go")
    assert (ended.status, ended.failure) == (
        TurnStatus.FAILED,
        TurnFailure("no room on the disk", ErrorClass.CRASHED),
    )
    assert stage.log.of(TurnEnded) == [ended]


async def test_a_request_that_heeds_no_cancellation_does_not_hold_the_turn(
    model: Any, say: Any, gate: Any
) -> None:
    asked, stubborn = gate(), gate()

    async def hang(_: Arguments) -> ToolResult:
        asked.reached.set()
        try:
            await stubborn.opened.wait()
        except asyncio.CancelledError:
            await stubborn.opened.wait()
        return ToolResult("late")

    stage = Stage(model([say.call(("a", {}))]), tool("a", hang))
    stage.turn._interruption._grace = 0
    running = asyncio.create_task(stage.turn.run("go"))
    await asked.reached.wait()
    stage.turn.interrupt()
    ended = await running
    before = list(stage.log.facts)
    stubborn.opened.set()
    await asyncio.wait({task for task in asyncio.all_tasks() if task is not asyncio.current_task()})
    assert ended.status is TurnStatus.INTERRUPTED
    # What ends after the turn tells nothing any more.
    assert stage.log.facts == before
    assert stage.items()[1:] == [(CALL, INTERRUPTED, "tool execution interrupted after 0.1s")]
