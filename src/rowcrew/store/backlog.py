"""How many writes of one file wait for the disk, for who could make fewer of them. It writes nothing.

A writer thread needs Python's lock between its statements, and an event loop that goes on producing keeps it
waiting for longest when most waits. Who produces can hold back while the backlog is long.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable

# Enough for a commit to be worth its sync; more would only wait longer.
LONG = 16


class Backlog:
    """The backlog of one writer thread. `count` says how many writes are not answered yet.

    `when_shorter` belongs to event loops, `shortened` to the writer thread.
    """

    def __init__(self, count: Callable[[], int], *, long: int = LONG) -> None:
        self._count = count
        self._long = long
        self._waiting: deque[tuple[asyncio.AbstractEventLoop, Callable[[], object]]] = deque()

    @property
    def is_long(self) -> bool:
        return self._count() >= self._long

    def when_shorter(self, tell: Callable[[], object]) -> None:
        """Have `tell` called once, on this event loop, when some of the writes have been answered."""
        self._waiting.append((asyncio.get_running_loop(), tell))
        if not self.is_long:
            # Answered in between, by a thread that knew nobody to tell.
            self.shortened()

    def shortened(self) -> None:
        """Some of the writes have been answered."""
        # Taken one by one: both threads may be here.
        with contextlib.suppress(IndexError):
            while True:
                loop, tell = self._waiting.popleft()
                # A loop that was closed meanwhile has nobody left who waits.
                with contextlib.suppress(RuntimeError):
                    loop.call_soon_threadsafe(tell)
