"""Frames on their way to one client. It sends nothing itself.

Discipline: one event loop. `put` never waits, so that an answer is never lost; whoever makes many frames
waits for `room` before each, and so does the reader of requests: who does not read is not read from.
"""

import asyncio
from collections import deque

CAPACITY_BYTES = 8 * 1024 * 1024
# What goes out at once: many small frames cost one write then, and a large one is not held up by others.
BATCH_BYTES = 64 * 1024


class Outbox:
    """A bounded buffer between what is to be said and a client that may read slowly."""

    def __init__(self, capacity: int = CAPACITY_BYTES) -> None:
        self._capacity = capacity
        self._frames: deque[bytes] = deque()
        self._size = 0
        self._closed = False
        self._filled = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()

    @property
    def is_full(self) -> bool:
        return self._size >= self._capacity

    @property
    def size(self) -> int:
        """Bytes that wait."""
        return self._size

    def put(self, frame: bytes) -> None:
        if self._closed:
            return
        self._frames.append(frame)
        self._size += len(frame)
        if self._size >= self._capacity:
            self._room.clear()
        self._filled.set()

    async def room(self) -> None:
        """Return when less than the capacity waits, or nobody will read any more."""
        await self._room.wait()

    async def take(self) -> list[bytes]:
        """The next frames, as many as may go out at once; none after `close`, when all have been taken."""
        while not self._frames:
            if self._closed:
                return []
            self._filled.clear()
            await self._filled.wait()
        taken = [self._frames.popleft()]
        size = len(taken[0])
        while self._frames and size + len(self._frames[0]) <= BATCH_BYTES:
            taken.append(self._frames.popleft())
            size += len(taken[-1])
        self._size -= size
        if self._size < self._capacity:
            self._room.set()
        return taken

    def close(self, *, drop: bool = False) -> None:
        """Take nothing more in. `drop`: the client has gone, what waits is of no use."""
        self._closed = True
        if drop:
            self._frames.clear()
            self._size = 0
        self._filled.set()
        self._room.set()
