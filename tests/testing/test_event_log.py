"""The log of a bus's facts."""

import asyncio

from rowcrew.bus import Bus
from rowcrew.domain.events import ThreadClosed, ThreadStarted, TurnItemDelta
from rowcrew.testing import EventLog


async def test_facts_are_kept_in_order_and_found_by_kind() -> None:
    bus = Bus()
    started = ThreadStarted(thread_id="t", at_ms=1)
    closed = ThreadClosed(thread_id="t", at_ms=2)
    with EventLog(bus) as log:
        bus.publish(started)
        bus.publish(closed)
        assert log.facts == [started, closed]
        assert log.of(ThreadClosed) == [closed]


async def test_a_fact_can_be_waited_for() -> None:
    bus = Bus()
    with EventLog(bus) as log:
        waiting = asyncio.ensure_future(log.until(ThreadClosed, lambda fact: fact.thread_id == "b", count=2))
        for at_ms, name in enumerate(["b", "a", "b"]):
            bus.publish(ThreadClosed(thread_id=name, at_ms=at_ms))
        assert await waiting == ThreadClosed(thread_id="b", at_ms=2)
        assert len(log.facts) == 3


async def test_no_fact_is_lost_however_many() -> None:
    bus = Bus()
    with EventLog(bus) as log:
        for at_ms in range(5_000):
            bus.publish(TurnItemDelta(thread_id="t", at_ms=at_ms, turn_id="u", item_id="i", text="x"))
        assert len(log.facts) == 5_000
