"""Agent slots: taken, kept, given back exactly once; depth and descendants."""

import asyncio

import pytest

from rowcrew.agent.registry import AgentRegistry
from rowcrew.errors import InvalidRequest, LimitReached, NotFound


def start(registry: AgentRegistry, thread_id: str, parent_id: str | None = None) -> None:
    with registry.reserve(parent_id=parent_id) as reservation:
        reservation.commit(thread_id)


def test_a_reservation_counts_until_it_is_given_back_or_its_agent_has_ended() -> None:
    registry = AgentRegistry(max_threads=2)
    with registry.reserve():
        start(registry, "a")
        assert registry.slots_free == 0
        with pytest.raises(LimitReached, match="all 2 agent slots are taken"):
            registry.reserve()
    assert registry.slots_free == 1
    assert [registry.release("a"), registry.release("a")] == [True, False]
    assert (registry.slots_free, registry.slots_used) == (2, 0)


def test_a_start_that_fails_gives_its_slot_back() -> None:
    registry = AgentRegistry(max_threads=1)
    with pytest.raises(ValueError, match="boom"), registry.reserve():
        raise ValueError("boom")
    assert registry.slots_free == 1


def test_an_id_that_is_alive_cannot_be_started_again_and_costs_no_slot() -> None:
    registry = AgentRegistry(max_threads=2)
    start(registry, "a")
    with pytest.raises(InvalidRequest, match="the thread a is already alive"):
        start(registry, "a")
    assert registry.slots_free == 1


def test_a_reservation_is_used_once() -> None:
    registry = AgentRegistry(max_threads=1)
    with registry.reserve() as reservation:
        reservation.give_back()
        reservation.give_back()
        with pytest.raises(RuntimeError, match="already used"):
            reservation.commit("a")
    assert registry.slots_free == 1


def test_a_conversation_that_a_person_leads_takes_no_slot() -> None:
    registry = AgentRegistry(max_threads=1)
    with registry.reserve(takes_slot=False) as reservation:
        reservation.commit("root")
    assert registry.slots_free == 1
    start(registry, "worker")
    assert registry.slots_free == 0


def test_agents_are_nested_no_deeper_than_allowed() -> None:
    registry = AgentRegistry(max_depth=1)
    start(registry, "root")
    start(registry, "child", "root")
    assert [registry.may_spawn(name) for name in ("root", "child", "nobody")] == [True, False, False]
    with pytest.raises(InvalidRequest, match="nested 1 deep and this one would be at depth 2"):
        registry.reserve(parent_id="child")
    with pytest.raises(NotFound, match="the agent nobody is not alive"):
        registry.reserve(parent_id="nobody")
    assert registry.slots_used == 2


def test_descendants_are_found_also_below_an_agent_that_has_ended() -> None:
    registry = AgentRegistry(max_depth=3)
    start(registry, "root")
    start(registry, "a", "root")
    start(registry, "b", "a")
    start(registry, "c", "b")
    start(registry, "other")
    registry.release("b")
    assert registry.descendants("root") == ["a", "c"]
    assert registry.descendants("a") == ["c"]
    assert registry.descendants("other") == []


async def test_a_waiter_is_woken_by_each_change() -> None:
    registry = AgentRegistry(max_threads=1)
    start(registry, "a")
    waiter = asyncio.create_task(registry.wait_for_change())
    await asyncio.wait({waiter}, timeout=0)
    assert not waiter.done()
    registry.release("a")
    await waiter
