"""A few at a time, asking before hearing before finishing, with the loop's sockets in between."""

import asyncio
from collections.abc import Coroutine

from rowcrew.agent.turnstile import MOST_FINISHING, Turnstile
from rowcrew.store.backlog import Backlog


async def order_of(passing: dict[str, Coroutine[None, None, None]]) -> list[list[str]]:
    """Who passed in which turn of the loop, for all that were begun at once."""
    steps: list[list[str]] = []

    async def one(name: str, turn: Coroutine[None, None, None]) -> None:
        await turn
        steps[-1].append(name)

    tasks = [asyncio.create_task(one(name, turn)) for name, turn in passing.items()]
    while not all(task.done() for task in tasks):
        steps.append([])
        await asyncio.sleep(0)
    return [step for step in steps if step]


async def test_no_more_than_a_few_go_on_in_one_turn_of_the_loop() -> None:
    turnstile = Turnstile(2)
    steps = await order_of({name: turnstile.hear() for name in "abcde"})
    assert steps == [["a", "b"], ["c", "d"], ["e"]]


async def test_who_asks_goes_before_who_has_heard() -> None:
    turnstile = Turnstile(1)
    heard = {f"heard {number}": turnstile.hear() for number in range(3)}
    asked = {f"asked {number}": turnstile.ask() for number in range(2)}
    steps = await order_of({**heard, **asked})
    assert [name for step in steps for name in step] == [
        "heard 0",
        "asked 0",
        "asked 1",
        "heard 1",
        "heard 2",
    ]


async def test_who_comes_alone_does_not_wait() -> None:
    turnstile = Turnstile(1)
    for _ in range(3):
        assert await order_of({"alone": turnstile.ask()}) == [["alone"]]
        await asyncio.sleep(0)


async def test_who_gives_up_takes_nobodys_turn() -> None:
    turnstile = Turnstile(1)
    passed = []

    async def one(name: str) -> None:
        await turnstile.ask()
        passed.append(name)

    tasks = {name: asyncio.create_task(one(name)) for name in "abc"}
    await asyncio.sleep(0)
    tasks["b"].cancel()
    await asyncio.wait(tasks.values())
    assert passed == ["a", "c"]
    assert tasks["b"].cancelled()


async def test_it_works_again_after_it_was_idle() -> None:
    turnstile = Turnstile(2)
    await order_of({name: turnstile.hear() for name in "abc"})
    for _ in range(3):
        await asyncio.sleep(0)
    steps = await order_of({name: turnstile.hear() for name in "abcd"})
    assert steps == [["a", "b"], ["c", "d"]]


async def test_who_finishes_comes_last() -> None:
    turnstile = Turnstile(1)
    passing = {
        "finishes 0": turnstile.finish(),
        "finishes 1": turnstile.finish(),
        "heard": turnstile.hear(),
        "asked": turnstile.ask(),
    }
    steps = await order_of(passing)
    assert steps == [["finishes 0"], ["asked"], ["heard"], ["finishes 1"]]


async def test_too_many_who_finish_are_not_left_waiting() -> None:
    turnstile = Turnstile(1)
    finishing = {f"finishes {number}": turnstile.finish() for number in range(MOST_FINISHING + 3)}
    heard = {f"heard {number}": turnstile.hear() for number in range(3)}
    steps = await order_of({**finishing, **heard})
    # The first finds nobody before it. Then two are too many; from then on those who have heard go first.
    assert [name for [name] in steps[:7]] == [
        "finishes 0",
        "finishes 1",
        "finishes 2",
        "heard 0",
        "heard 1",
        "heard 2",
        "finishes 3",
    ]


class Writes:
    """A backlog of so many writes as a test says."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.backlog = Backlog(lambda: self.count, long=10)

    def answer(self, count: int) -> None:
        self.count -= count
        self.backlog.shortened()


async def begin(passed: list[str], **turns: Coroutine[None, None, None]) -> list[asyncio.Task[None]]:
    """Begin to pass, and give the loop as many turns as it takes for who is let through."""

    async def one(name: str, turn: Coroutine[None, None, None]) -> None:
        await turn
        passed.append(name)

    tasks = [asyncio.create_task(one(name, turn)) for name, turn in turns.items()]
    for _ in range(20):
        await asyncio.sleep(0)
    return tasks


async def test_while_much_waits_to_be_stored_only_who_asks_goes_on() -> None:
    writes, passed = Writes(10), list[str]()
    turnstile = Turnstile()
    turnstile.backlog = writes.backlog
    tasks = await begin(passed, finishes=turnstile.finish(), heard=turnstile.hear(), asked=turnstile.ask())
    assert passed == ["asked"]
    # Some were answered, and as many have come.
    writes.answer(0)
    await asyncio.sleep(0)
    assert passed == ["asked"]
    writes.answer(1)
    await asyncio.gather(*tasks)
    assert passed == ["asked", "heard", "finishes"]


async def test_a_disk_that_hangs_holds_nobody_for_ever() -> None:
    writes, passed = Writes(1000), list[str]()
    turnstile = Turnstile(1)
    turnstile.backlog = writes.backlog
    tasks = await begin(passed, first=turnstile.hear(), second=turnstile.hear())
    assert passed == []
    async with asyncio.timeout(30):
        await asyncio.gather(*tasks)
    assert passed == ["first", "second"]


async def test_who_gives_up_while_held_back_takes_nobodys_turn() -> None:
    writes, passed = Writes(10), list[str]()
    turnstile = Turnstile(1)
    turnstile.backlog = writes.backlog
    gives_up, waits = await begin(passed, gives_up=turnstile.hear(), waits=turnstile.hear())
    gives_up.cancel()
    writes.answer(10)
    await asyncio.wait([gives_up, waits])
    assert passed == ["waits"]
