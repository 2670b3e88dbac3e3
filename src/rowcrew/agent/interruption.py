"""A wish that a turn ends, and waiting that heeds it. It ends nothing that was not given to it."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

# What a request or a tool gets to end itself once it has been cancelled. After that nobody waits for it.
GRACE_SECONDS = 5.0


class TurnInterrupted(Exception):
    """The turn was asked to end while it waited."""


class Interruption:
    """Requested at most once, by whoever wants the turn to end; the turn waits for everything through it.

    Work that is given to `during` runs as a task that is awaited on every path: to its end, or, after it was
    cancelled, for the grace time.
    """

    def __init__(self, *, grace: float = GRACE_SECONDS) -> None:
        self._grace = grace
        self._wish: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @property
    def requested(self) -> bool:
        return self._wish.done()

    def request(self) -> None:
        if not self._wish.done():
            self._wish.set_result(None)

    async def during(self, *works: Coroutine[Any, Any, T]) -> list[asyncio.Task[T]]:
        """Run the works side by side and return their tasks, all done.

        TurnInterrupted when the turn is asked to end before; the works have been cancelled then.
        """
        tasks = [asyncio.create_task(work) for work in works]
        waiting: set[asyncio.Future[Any]] = set(tasks)
        try:
            while waiting and not self.requested:
                done, _ = await asyncio.wait({*waiting, self._wish}, return_when=asyncio.FIRST_COMPLETED)
                waiting -= done
        except asyncio.CancelledError:
            await self._cancel(tasks)
            raise
        if waiting:
            await self._cancel(tasks)
            raise TurnInterrupted
        return tasks

    async def _cancel(self, tasks: list[asyncio.Task[T]]) -> None:
        left = {task for task in tasks if not task.done()}
        for task in left:
            task.cancel()
        if left:
            await asyncio.wait(left, timeout=self._grace)
        for task in tasks:
            # Read, so that nothing is logged as never retrieved: the turn is over, nobody can use it.
            if task.done() and not task.cancelled():
                task.exception()
