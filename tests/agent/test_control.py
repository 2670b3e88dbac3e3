"""AgentControl: agents start, talk and end; every slot comes back, but only when its thread has ended."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from rowcrew.agent.control import AgentControl, ShutdownReport
from rowcrew.agent.journal import NoJournal
from rowcrew.agent.registry import AgentRegistry
from rowcrew.agent.thread import MAILBOX_CAPACITY, AgentSpec, AgentThread
from rowcrew.agent.tools import Arguments, Tool, ToolRegistry, ToolResult
from rowcrew.domain.events import AgentState, AgentStatus, ThreadClosed, ThreadStarted, TurnEnded
from rowcrew.domain.lifecycle import TurnStatus
from rowcrew.errors import Conflict, ErrorClass, InvalidRequest, LimitReached, ModelError, NotFound
from rowcrew.testing import EventLog

NOTHING = {"type": "object", "properties": {}}


@pytest.fixture
async def control() -> AsyncIterator[AgentControl]:
    async with AgentControl(AgentRegistry(max_threads=4, max_depth=2)) as control:
        yield control
    assert control.registry.slots_used == 0


async def ended(control: AgentControl, thread: AgentThread) -> None:
    assert await control.wait_ended(thread.id, seconds=30)


async def test_an_agent_answers_and_its_status_can_be_watched(
    control: AgentControl, model: Any, say: Any
) -> None:
    thread = await control.spawn(AgentSpec(model([say.text("hello"), say.text("again")])))
    assert control.status(thread.id) == AgentStatus(AgentState.PENDING_INIT)
    watch = control.subscribe(thread.id)
    seen = [await anext(watch)]
    for text in ("hi", "and?"):
        sent = await control.send(thread.id, text)
        assert (await sent.ended) is not None
        seen.append(await watch.final())
    await control.request_shutdown(thread.id)
    await ended(control, thread)
    seen += [status async for status in watch]
    assert seen == [
        AgentStatus(AgentState.PENDING_INIT),
        AgentStatus(AgentState.COMPLETED, "hello"),
        AgentStatus(AgentState.COMPLETED, "again"),
        AgentStatus(AgentState.SHUTDOWN),
    ]
    assert control.status(thread.id) == AgentStatus(AgentState.NOT_FOUND)


async def test_only_pending_and_running_are_not_final() -> None:
    final = [state for state in AgentState if AgentStatus(state).is_final]
    assert final == [
        AgentState.COMPLETED,
        AgentState.ERRORED,
        AgentState.INTERRUPTED,
        AgentState.SHUTDOWN,
        AgentState.NOT_FOUND,
    ]


async def test_an_unknown_agent_is_not_found_everywhere(control: AgentControl) -> None:
    nobody = AgentStatus(AgentState.NOT_FOUND)
    assert control.status("x") == nobody
    assert [status async for status in control.subscribe("x")] == [nobody]
    assert await control.request_shutdown("x") is False
    assert await control.close("x") == nobody
    assert await control.force_end("x") is True
    with pytest.raises(NotFound, match="no agent x is alive"):
        await control.send("x", "hello")


async def test_a_failed_turn_shows_as_errored_and_the_agent_can_go_on(
    control: AgentControl, model: Any, say: Any
) -> None:
    error = ModelError("no credit", error_class=ErrorClass.ACCOUNT)
    thread = await control.spawn(AgentSpec(model([error, say.text("fine")])), "go")
    assert await thread.watch().final() == AgentStatus(AgentState.ERRORED, "no credit")
    await thread.send("again").ended
    assert thread.status == AgentStatus(AgentState.COMPLETED, "fine")


async def test_shutdown_of_a_live_agent_frees_its_slot_only_after_it_has_ended(
    model: Any, say: Any, gate: Any
) -> None:
    held, cleaning = gate(), gate()

    async def slow_to_end(_: Arguments) -> ToolResult:
        held.reached.set()
        try:
            await held.opened.wait()
        finally:
            cleaning.reached.set()
            await cleaning.opened.wait()
        raise AssertionError

    tools = ToolRegistry([Tool("slow", "Slow.", NOTHING, slow_to_end)])
    async with AgentControl(AgentRegistry(max_threads=1)) as control:
        first = await control.spawn(AgentSpec(model([say.call(("slow", {}))]), tools), "go")
        await held.reached.wait()
        assert await control.request_shutdown(first.id) is True
        await cleaning.reached.wait()
        # Asked, but not ended: still counted, still found.
        assert control.find(first.id) is first
        with pytest.raises(LimitReached):
            await control.spawn(AgentSpec(model([say.text("second")])))
        cleaning.opened.set()
        await ended(control, first)
        second = await control.spawn(AgentSpec(model([say.text("second")])), "go")
        assert await second.watch().final() == AgentStatus(AgentState.COMPLETED, "second")


async def test_a_spawn_cancelled_after_its_thread_exists_shuts_that_thread_down(
    model: Any, say: Any, gate: Any
) -> None:
    opening = gate()

    class SlowJournal(NoJournal):
        async def flush(self, thread_id: str) -> None:
            opening.reached.set()
            await opening.opened.wait()

    control = AgentControl(AgentRegistry(max_threads=1), journal=SlowJournal())
    spawning = asyncio.create_task(control.spawn(AgentSpec(model([say.text("x")])), "go", thread_id="t"))
    await opening.reached.wait()
    assert control.registry.slots_free == 0
    spawning.cancel()
    with pytest.raises(asyncio.CancelledError):
        await spawning
    assert await control.wait_ended("t", seconds=30)
    assert (control.find("t"), control.registry.slots_free) == (None, 1)
    await control.aclose()


async def test_an_agent_already_dead_is_forgotten_at_once(
    control: AgentControl, model: Any, say: Any
) -> None:
    thread = await control.spawn(AgentSpec(model([say.text("x")])))
    sent = thread.send("never started")
    loop = control._loops[thread.id]
    loop.cancel()
    await asyncio.wait({loop})
    # Its done callback may not have run yet; the request finds it dead and frees the slot itself.
    await control.request_shutdown(thread.id)
    assert control.registry.slots_used == 0
    assert await sent.ended is None
    assert thread.status == AgentStatus(AgentState.SHUTDOWN)


async def test_close_ends_an_agent_with_its_live_descendants(
    control: AgentControl, model: Any, say: Any
) -> None:
    with EventLog(control.bus) as log:
        root = await control.spawn(AgentSpec(model([say.text("root")])), "go")
        child = await control.spawn(AgentSpec(model([say.text("child")])), parent_id=root.id)
        grandchild = await control.spawn(AgentSpec(model([say.text("x")])), parent_id=child.id)
        other = await control.spawn(AgentSpec(model([say.text("other")])))
        await root.watch().final()
        assert await control.close(root.id) == AgentStatus(AgentState.COMPLETED, "root")
        assert [live.thread_id for live in control.registry] == [other.id]
        assert {fact.thread_id for fact in log.of(ThreadClosed)} == {root.id, child.id, grandchild.id}
        parents = [(fact.thread_id, fact.parent_id) for fact in log.of(ThreadStarted)]
        assert parents[:3] == [(root.id, None), (child.id, root.id), (grandchild.id, child.id)]


async def test_a_spawn_below_the_deepest_level_is_refused_and_costs_no_slot(
    control: AgentControl, model: Any, say: Any
) -> None:
    spec = AgentSpec(model([say.text("x")]))
    thread = await control.spawn(spec)
    for _ in range(2):
        thread = await control.spawn(spec, parent_id=thread.id)
    with pytest.raises(InvalidRequest, match="nested 2 deep"):
        await control.spawn(spec, parent_id=thread.id)
    assert control.registry.slots_free == 1


async def test_shutdown_all_ends_all_and_names_who_could_not_be_asked_or_did_not_end(
    model: Any, say: Any, gate: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    stuck = gate()

    async def heed_nothing(_: Arguments) -> ToolResult:
        stuck.reached.set()
        while not stuck.opened.is_set():
            try:
                await stuck.opened.wait()
            except asyncio.CancelledError:
                continue
        return ToolResult("late")

    def refuse() -> None:
        raise RuntimeError("cannot be asked")

    control = AgentControl()
    idle = await control.spawn(AgentSpec(model([say.text("x")])))
    busy = await control.spawn(AgentSpec(model([gate().then(say.text("x"))])), "go")
    deaf = await control.spawn(AgentSpec(model([say.text("x")])))
    tools = ToolRegistry([Tool("stuck", "Stuck.", NOTHING, heed_nothing)])
    hung = await control.spawn(AgentSpec(model([say.call(("stuck", {}))]), tools), "go")
    await stuck.reached.wait()
    with monkeypatch.context() as patch:
        patch.setattr(deaf, "request_shutdown", refuse)
        report = await control.shutdown_all(0.2)
    assert report == ShutdownReport((idle.id, busy.id), (deaf.id,), (hung.id,))
    assert {live.thread_id for live in control.registry} == {deaf.id, hung.id}
    stuck.opened.set()
    assert await control.shutdown_all(30) == ShutdownReport((deaf.id, hung.id))
    assert control.registry.slots_used == 0
    await control.aclose()


async def test_turns_run_one_at_a_time_in_the_order_they_were_sent(
    control: AgentControl, model: Any, say: Any, gate: Any
) -> None:
    asked = gate()
    talking = model([asked.then(say.text("1")), say.text("2"), say.text("3")])
    thread = await control.spawn(AgentSpec(talking), "a")
    await asked.reached.wait()
    sent = [thread.send("b"), thread.send("c")]
    asked.opened.set()
    assert [turn.last_message for one in sent if (turn := await one.ended)] == ["2", "3"]
    assert len(talking.asked) == 3


async def test_a_turn_interrupted_before_it_started_starts_and_ends_at_once(
    control: AgentControl, model: Any, say: Any
) -> None:
    talking = model([say.text("x")])
    thread = await control.spawn(AgentSpec(talking))
    sent = thread.send("go")
    assert thread.interrupt() is True
    turn = await sent.ended
    assert (turn and turn.status, talking.asked) == (TurnStatus.INTERRUPTED, [])
    turn = await thread.send("again").ended
    assert turn
    assert turn.status is TurnStatus.COMPLETED


async def test_a_message_with_interrupt_goes_before_what_waits(
    control: AgentControl, model: Any, say: Any, gate: Any
) -> None:
    asked = gate()
    thread = await control.spawn(
        AgentSpec(model([asked.then(say.text("never")), say.text("urgent"), say.text("waited")]))
    )
    sent = [thread.send("a"), thread.send("b")]
    await asked.reached.wait()
    sent.append(thread.send("now", interrupt=True))
    turns = [turn for one in sent if (turn := await one.ended)]
    assert [(turn.status, turn.last_message) for turn in turns] == [
        (TurnStatus.INTERRUPTED, None),
        (TurnStatus.COMPLETED, "waited"),
        (TurnStatus.COMPLETED, "urgent"),
    ]


async def test_steering_needs_the_turn_that_runs(
    control: AgentControl, model: Any, say: Any, gate: Any
) -> None:
    asked = gate()
    talking = model([asked.then(say.text("1")), say.text("2")])
    thread = await control.spawn(AgentSpec(talking))
    with pytest.raises(Conflict, match="no such turn is in progress"):
        thread.steer("too early")
    assert thread.interrupt() is False
    sent = thread.send("go")
    await asked.reached.wait()
    with pytest.raises(Conflict):
        thread.steer("to another", turn_id="other")
    assert thread.steer("more", turn_id=sent.turn_id) == sent.turn_id
    asked.opened.set()
    turn = await sent.ended
    assert (talking.told(), turn and turn.last_message) == (["more"], "2")


async def test_a_full_mailbox_and_an_ending_thread_take_no_more(
    control: AgentControl, model: Any, say: Any
) -> None:
    thread = await control.spawn(AgentSpec(model([say.text("x")])))
    waiting = [thread.send("x") for _ in range(MAILBOX_CAPACITY)]
    with pytest.raises(LimitReached, match="has 64 turns waiting already"):
        thread.send("one too many")
    thread.request_shutdown()
    with pytest.raises(Conflict, match="is shutting down"):
        thread.send("too late")
    assert [await one.ended for one in waiting] == [None] * MAILBOX_CAPACITY


async def test_after_aclose_nothing_starts(model: Any, say: Any) -> None:
    async with AgentControl() as control:
        await control.spawn(AgentSpec(model([say.text("x")])))
    with pytest.raises(Conflict, match="being shut down"):
        await control.spawn(AgentSpec(model([say.text("x")])))
    assert control.registry.slots_used == 0


async def test_aclose_ends_by_force_who_does_not_end_when_asked(
    model: Any, say: Any, gate: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = gate()
    control = AgentControl()
    thread = await control.spawn(AgentSpec(model([asked.then(say.text("x"))])), "go")
    await asked.reached.wait()
    monkeypatch.setattr(thread, "request_shutdown", lambda: None)
    monkeypatch.setattr("rowcrew.agent.control.SHUTDOWN_SECONDS", 0.0)
    with EventLog(control.bus) as log:
        await control.aclose()
        assert [fact.status for fact in log.of(TurnEnded)] == [TurnStatus.INTERRUPTED]
    assert control.registry.slots_used == 0
