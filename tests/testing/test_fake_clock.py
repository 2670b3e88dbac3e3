"""The clock that tests move by hand."""

import asyncio

from rowcrew.testing import FakeClock


async def test_sleepers_wake_in_the_order_of_their_time() -> None:
    clock = FakeClock(now_ms=1_000)
    woken: list[tuple[str, float]] = []

    async def sleep(name: str, *waits: float) -> None:
        for wait in waits:
            await clock.sleep(wait)
            woken.append((name, clock.monotonic()))

    async with asyncio.TaskGroup() as group:
        group.create_task(sleep("slow", 3))
        group.create_task(sleep("quick", 1, 1, 1))
        await clock.until_sleeping(2)
        assert clock.next_wake() == 1
        await clock.advance(2.5)
        assert woken == [("quick", 1.0), ("quick", 2.0)]
        assert (clock.monotonic(), clock.now_ms()) == (2.5, 3_500)
        await clock.advance(0.5)
    assert woken == [("quick", 1.0), ("quick", 2.0), ("slow", 3.0), ("quick", 3.0)]
    assert (clock.sleeping, clock.next_wake()) == (0, None)


async def test_a_cancelled_sleeper_is_forgotten() -> None:
    clock = FakeClock()
    sleeper = asyncio.ensure_future(clock.sleep(5))
    await clock.until_sleeping()
    sleeper.cancel()
    await asyncio.wait([sleeper])
    assert clock.sleeping == 0
    await clock.advance(10)
    assert clock.monotonic() == 10


async def test_the_wall_clock_may_jump_without_the_other() -> None:
    clock = FakeClock(now_ms=1_000)
    await clock.advance(1)
    clock.set_wall(500)
    assert (clock.now_ms(), clock.monotonic()) == (500, 1.0)
    await clock.advance(1)
    assert (clock.now_ms(), clock.monotonic()) == (1_500, 2.0)


async def test_no_wait_at_all_only_lets_others_run() -> None:
    clock = FakeClock()
    await clock.sleep(0)
    assert (clock.monotonic(), clock.sleeping) == (0.0, 0)
