"""A few at a time, asking before hearing, with the loop's sockets in between."""

import asyncio
from collections.abc import Coroutine

from rowcrew.agent.turnstile import Turnstile


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
