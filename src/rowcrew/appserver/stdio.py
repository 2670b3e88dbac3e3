"""Standard input and output as a transport. It takes both for itself: nobody else writes a byte of a frame.

Reading and writing are the work of one thread each, because the two may be pipes, files or terminals, and an
end that does not read must not hold up the event loop. They are daemons: a read that never returns ends with
the process.
"""

import asyncio
import os
import threading
from collections import deque
from collections.abc import Sequence
from queue import SimpleQueue

from rowcrew.appserver.framing import LineSplitter, TooLong

CHUNK_BYTES = 64 * 1024


class StdioTransport:
    """Lines on two file descriptors of its own. Made by `claim`, used on the event loop that made it."""

    def __init__(self, reading_fd: int, writing_fd: int) -> None:
        self._reading_fd = reading_fd
        self._writing_fd = writing_fd
        self._loop = asyncio.get_running_loop()
        self._splitter = LineSplitter()
        self._lines: deque[bytes | TooLong] = deque()
        self._chunks: asyncio.Queue[bytes] = asyncio.Queue(maxsize=1)
        self._over = False
        self._reads = False
        self._outgoing: SimpleQueue[tuple[bytes, asyncio.Future[None]]] = SimpleQueue()
        self._writes = False

    async def receive(self) -> bytes | TooLong | None:
        if not self._reads:
            self._reads = True
            threading.Thread(target=self._read, name="standard input", daemon=True).start()
        while not self._lines and not self._over:
            chunk = await self._chunks.get()
            self._over = not chunk
            self._lines += self._splitter.feed(chunk) if chunk else self._splitter.finish()
        return self._lines.popleft() if self._lines else None

    async def send(self, frames: Sequence[bytes]) -> None:
        if not self._writes:
            self._writes = True
            threading.Thread(target=self._write, name="standard output", daemon=True).start()
        done: asyncio.Future[None] = self._loop.create_future()
        self._outgoing.put((b"\n".join([*frames, b""]), done))
        await done

    def _read(self) -> None:
        chunk = b"-"
        while chunk:
            try:
                chunk = os.read(self._reading_fd, CHUNK_BYTES)
            except OSError:
                chunk = b""
            try:
                asyncio.run_coroutine_threadsafe(self._chunks.put(chunk), self._loop).result()
            except (RuntimeError, asyncio.CancelledError):
                return  # the loop has ended

    def _write(self) -> None:
        while True:
            data, done = self._outgoing.get()
            error: OSError | None = None
            view = memoryview(data)
            try:
                while view:
                    view = view[os.write(self._writing_fd, view) :]
            except OSError as broken:
                error = broken
            try:
                self._loop.call_soon_threadsafe(_settle, done, error)
            except RuntimeError:
                return  # the loop has ended


def _settle(done: asyncio.Future[None], error: OSError | None) -> None:
    if done.done():
        return
    if error is None:
        done.set_result(None)
    else:
        done.set_exception(error)


def claim() -> tuple[int, int]:
    """Take standard input and output away from everyone else. Call it first of all.

    Whoever prints from now on, in this process or a child, writes to standard error, and whoever reads finds
    nothing.
    """
    reading_fd, writing_fd = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return reading_fd, writing_fd
