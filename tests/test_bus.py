"""The bus: who gets which facts, and what a slow reader may lose."""

import asyncio

import pytest

from rowcrew.bus import Bus
from rowcrew.domain.attempt import Usage
from rowcrew.domain.events import Fact, ThreadClosed, TokenUsageUpdated, TurnEnded, TurnItemDelta
from rowcrew.domain.lifecycle import TurnStatus


def delta(text: str, thread_id: str = "t") -> TurnItemDelta:
    return TurnItemDelta(thread_id=thread_id, turn_id="u", at_ms=0, item_id="i", text=text)


def ended(turn_id: str) -> TurnEnded:
    return TurnEnded(
        thread_id="t", turn_id=turn_id, at_ms=0, status=TurnStatus.COMPLETED, started_at_ms=0, duration_ms=0
    )


async def read_all(bus: Bus, subscription: object) -> list[Fact]:
    bus.close()
    return [fact async for fact in subscription]  # type: ignore[attr-defined]


async def test_every_reader_gets_every_fact_it_accepts_in_order() -> None:
    bus = Bus()
    everything = bus.subscribe()
    only_other = bus.subscribe(lambda fact: fact.thread_id == "other")
    facts = [delta("a"), delta("b", "other"), ended("1")]
    for fact in facts:
        bus.publish(fact)
    assert await read_all(bus, everything) == facts
    assert await read_all(bus, only_other) == [facts[1]]


async def test_a_full_reader_loses_the_newest_delta() -> None:
    bus = Bus()
    reader = bus.subscribe(capacity=2)
    for text in "abc":
        bus.publish(delta(text))
    assert reader.dropped == 1
    assert await read_all(bus, reader) == [delta("a"), delta("b")]


async def test_a_final_fact_pushes_the_oldest_delta_out_of_a_full_reader() -> None:
    bus = Bus()
    reader = bus.subscribe(capacity=2)
    for fact in (delta("a"), delta("b"), ended("1")):
        bus.publish(fact)
    assert reader.dropped == 1
    assert await read_all(bus, reader) == [delta("b"), ended("1")]


async def test_final_facts_are_never_lost_however_slow_the_reader() -> None:
    bus = Bus()
    reader = bus.subscribe(capacity=2)
    finals = [ended(str(number)) for number in range(50)]
    for fact in finals:
        bus.publish(fact)
        bus.publish(delta("x"))
    assert [fact for fact in await read_all(bus, reader) if isinstance(fact, TurnEnded)] == finals


async def test_deltas_make_way_one_for_each_final_fact_until_there_are_none_left() -> None:
    bus = Bus()
    reader = bus.subscribe(capacity=3)
    for fact in (delta("a"), ended("1"), delta("b")):
        bus.publish(fact)
    assert reader.take() == delta("a")
    for number in range(2, 6):
        bus.publish(ended(str(number)))
    assert reader.dropped == 1
    assert await read_all(bus, reader) == [ended(str(number)) for number in range(1, 6)]


async def test_a_reader_that_waits_is_woken_and_a_closed_one_ends() -> None:
    bus = Bus()
    with bus.subscribe() as reader:
        async with asyncio.TaskGroup() as group:
            first = group.create_task(anext(reader))
            await asyncio.wait({first}, timeout=0)
            bus.publish(delta("late"))
        assert first.result() == delta("late")
    bus.publish(delta("after"))
    with pytest.raises(StopAsyncIteration):
        await anext(reader)


async def test_a_subscription_to_a_closed_bus_ends_at_once() -> None:
    bus = Bus()
    bus.close()
    assert [fact async for fact in bus.subscribe()] == []


def test_only_deltas_and_usage_may_be_dropped() -> None:
    usage = TokenUsageUpdated(thread_id="t", turn_id="u", at_ms=0, last=Usage(), total=Usage())
    closed = ThreadClosed(thread_id="t", at_ms=0)
    assert [fact.droppable for fact in (delta("a"), usage, ended("1"), closed)] == [True, True, False, False]
