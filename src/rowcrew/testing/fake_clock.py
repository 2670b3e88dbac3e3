"""A clock that only moves when a test says so. It reads no real time."""

import asyncio
import heapq
import itertools
from contextlib import suppress

DEFAULT_START_MS = 1_700_000_000_000
_SETTLE_ROUNDS = 10
_PATIENCE = 30.0


class FakeClock:
    """Implements `rowcrew.clock.Clock`. Lives on one event loop.

    `await clock.advance(5)` wakes sleepers one by one in the order of their time, first come first;
    after each, the loop runs a few rounds, so that who was woken may sleep again within the five seconds.
    `await clock.until_sleeping(2)` waits until two sleep: threads and sockets have done their part by then.
    """

    def __init__(self, now_ms: int = DEFAULT_START_MS) -> None:
        self._start_ms = now_ms
        self._elapsed = 0.0
        self._skew_ms = 0
        self._order = itertools.count()
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._changed: asyncio.Event | None = None

    def now_ms(self) -> int:
        return self._start_ms + self._skew_ms + round(self._elapsed * 1000)

    def monotonic(self) -> float:
        return self._elapsed

    async def sleep(self, seconds: float) -> None:
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._elapsed + seconds, next(self._order), woken))
        if self._changed is not None:
            self._changed.set()
        await woken

    @property
    def sleeping(self) -> int:
        """How many wait now."""
        return sum(not woken.done() for _, _, woken in self._sleepers)

    def next_wake(self) -> float | None:
        """Seconds until the first sleeper is due; None when nobody sleeps."""
        due = [time for time, _, woken in self._sleepers if not woken.done()]
        return min(due) - self._elapsed if due else None

    async def advance(self, seconds: float) -> None:
        """Let that much time pass."""
        end = self._elapsed + seconds
        await _settle()
        while self._sleepers and self._sleepers[0][0] <= end:
            due, _, woken = heapq.heappop(self._sleepers)
            self._elapsed = max(self._elapsed, due)
            if not woken.done():
                woken.set_result(None)
                await _settle()
        self._elapsed = end
        await _settle()

    def set_wall(self, now_ms: int) -> None:
        """Make the wall clock jump, as a machine's may; the monotonic one does not notice."""
        self._skew_ms += now_ms - self.now_ms()

    async def until_sleeping(self, count: int = 1) -> None:
        """Wait until at least that many sleep. Bounded in real time."""
        self._changed = asyncio.Event()
        try:
            async with asyncio.timeout(_PATIENCE):
                while self.sleeping < count:
                    self._changed.clear()
                    # Sleepers that were cancelled do not tell; looking again now and then costs nothing.
                    with suppress(TimeoutError):
                        await asyncio.wait_for(self._changed.wait(), 0.05)
        finally:
            self._changed = None


async def _settle() -> None:
    for _ in range(_SETTLE_ROUNDS):
        await asyncio.sleep(0)
