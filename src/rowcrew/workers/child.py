"""One child process behind a gate: started, let go, fed, drained, ended. It knows nothing of orders.

The gate is a shell that waits for one line on its standard input before it becomes the program. So the
process has its pid and start time, which can be stored, before a word of the program has run; and when the
engine dies in between, the line never comes, the input ends, and the program never runs.

Discipline: everything runs on the event loop's thread but `processes.end_sessions`, which looks at the whole
process table. The child is reaped only after its group was killed: until then its pid cannot be another's.
"""

import asyncio
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from rowcrew.processes import ProcessIdentity, end_sessions, identify

# A shell reads a pipe byte by byte up to the line's end, so the rest of the input is still the program's.
_GATE = ("/bin/sh", "-c", 'IFS= read -r _ && exec "$@"', "rowcrew-gate")
_CHUNK = 65_536
# What a program has written when it ends fits into the pipe; a daemon that goes on is not read for ever.
_LEFT_IN_PIPE = 1 << 20
# How long output may still come from children after the program itself has ended.
OUTPUT_GRACE = 0.5
# A killed process that is not gone by then sits in the kernel; waiting longer would hold the engine.
_KILL_SECONDS = 5.0
# Looking at the process table may cost at most this part of one core.
_SWEEP_SHARE = 0.1


class Output:
    """What came out of one pipe: the head up to a limit, or the tail. The rest is read and dropped."""

    def __init__(self, limit: int, *, keep_tail: bool = False) -> None:
        self.content = bytearray()
        self.size = 0
        self._limit = limit
        self._keep_tail = keep_tail

    @property
    def is_cut(self) -> bool:
        return self.size > self._limit

    def add(self, data: bytes) -> None:
        self.size += len(data)
        if self._keep_tail:
            self.content += data
            # Cut now and then, not at each piece: a flood would move the tail with every read.
            if len(self.content) > self._limit + 4 * _CHUNK:
                del self.content[: -self._limit]
        elif (room := self._limit - len(self.content)) > 0:
            self.content += data[:room]

    def tail(self) -> bytes:
        return bytes(self.content[-self._limit :])


class Sweeper:
    """Ends what is left of sessions, many with one look at the process table.

    Who comes first looks for all that have come meanwhile; the others wait on the lock and find it done.
    """

    def __init__(self) -> None:
        self._lock = asyncio.Lock()
        self._waiting: dict[int, tuple[ProcessIdentity, str]] = {}
        self._tickets = 0
        self._not_before = 0.0

    async def sweep(self, identity: ProcessIdentity, marker: str) -> None:
        self._tickets += 1
        ticket = self._tickets
        self._waiting[ticket] = (identity, marker)
        try:
            async with self._lock:
                if ticket not in self._waiting:
                    return
                await asyncio.sleep(self._not_before - time.monotonic())
                batch = dict(self._waiting)
                started = time.monotonic()
                await asyncio.to_thread(end_sessions, list(batch.values()))
                ended = time.monotonic()
                self._not_before = ended + (ended - started) / _SWEEP_SHARE
                for done in batch:
                    self._waiting.pop(done, None)
        finally:
            self._waiting.pop(ticket, None)


class Child:
    """A started process. `exited` is set when it has ended; `finish` must follow, and `sweep` after that.

    `stirred` is for who uses it: set at the exit, and by whoever has news for the one that waits on it.
    """

    def __init__(
        self,
        words: Sequence[str],
        *,
        folder: Path,
        environment: Mapping[str, str],
        marker: str,
        stdout: Output,
        stderr: Output,
        sweeper: Sweeper,
    ) -> None:
        """Starts the gate. Raises OSError. Must be called on the event loop's thread."""
        self.exited = asyncio.Event()
        self.stirred = asyncio.Event()
        self.drained = asyncio.Event()
        self.on_output: Callable[[], None] | None = None
        self.exit_status: int | None = None
        self._loop = asyncio.get_running_loop()
        self._marker = marker
        self._sweeper = sweeper
        self._let_go = False
        self._finishing = asyncio.Lock()
        self._output_until = 0.0
        self._unsent = memoryview(b"")
        # vfork makes this well below a millisecond, so a thread for it would only cost more.
        self._process = subprocess.Popen(
            (*_GATE, *words),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            cwd=folder,
            env=environment,
            start_new_session=True,
        )
        self._input, *outputs = self._pipes()
        self._outputs = dict(zip(outputs, (stdout, stderr), strict=True))
        self._open = {self._input, *outputs}
        for descriptor in self._open:
            os.set_blocking(descriptor, False)
        # Not reaped yet, so the pid is still this process's, even when it has been killed already.
        self.identity = identify(self._process.pid)
        self._watch()

    def let_go(self, data: bytes) -> None:
        """Open the gate, hand the program its input, and start to read what it writes."""
        if self._let_go or self.exit_status is not None:
            return
        self._let_go = True
        for descriptor, output in self._outputs.items():
            self._loop.add_reader(descriptor, self._read, descriptor, output)
        self._unsent = memoryview(b"\n" + data)
        self._loop.add_writer(self._input, self._write)

    async def finish(self) -> None:
        """After `exited`: take what is left of the output, kill the group, reap. May be called by several."""
        async with self._finishing:
            if self.exit_status is not None:
                return
            if self._let_go:
                patience = max(OUTPUT_GRACE, self._output_until - self._loop.time())
                with suppress(TimeoutError):
                    await asyncio.wait_for(self.drained.wait(), patience)
            self._signal(signal.SIGKILL)
            self._read_the_rest()
            self._close_pipes()
            self.exit_status = self._process.wait()

    async def sweep(self) -> None:
        """End what has left the group: daemons, other sessions."""
        if self._let_go:
            await self._sweeper.sweep(self.identity, self._marker)

    async def end(self, grace: float) -> None:
        """SIGTERM to the group, `grace` seconds, then SIGKILL to everything. A second call may be shorter."""
        if self._let_go and grace > 0:
            self._output_until = self._loop.time() + grace
            if not self.exited.is_set():
                self._signal(signal.SIGTERM)
                self._signal(signal.SIGCONT)  # a stopped process would sleep through the grace time
            with suppress(TimeoutError):
                await asyncio.wait_for(self._exited_and_drained(), grace)
        elif self.exit_status is None:
            self._output_until = 0.0
        if self.exit_status is None:
            try:
                # First of all with the table: a nested engine's workers are found only while it lives.
                await self.sweep()
            finally:
                self._signal(signal.SIGKILL)
        with suppress(TimeoutError):
            await asyncio.wait_for(self.exited.wait(), _KILL_SECONDS)
            await self.finish()
        self._close_pipes()
        await self.sweep()

    async def _exited_and_drained(self) -> None:
        await self.exited.wait()
        await self.drained.wait()

    def _pipes(self) -> list[int]:
        process = self._process
        return [pipe.fileno() for pipe in (process.stdin, process.stdout, process.stderr) if pipe]

    def _signal(self, number: signal.Signals) -> None:
        # Reaped means that the number may be another's by now. PermissionError: macOS, a group of zombies.
        if self._process.returncode is None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, number)

    def _watch(self) -> None:
        try:
            handle = os.pidfd_open(self._process.pid)
        except (AttributeError, OSError):
            threading.Thread(target=self._wait_in_thread, daemon=True).start()
            return
        self._loop.add_reader(handle, self._on_exit, handle)

    def _on_exit(self, handle: int) -> None:
        self._loop.remove_reader(handle)
        os.close(handle)
        self._note_exit()

    def _note_exit(self) -> None:
        self.exited.set()
        self.stirred.set()

    def _wait_in_thread(self) -> None:
        self._process.wait()
        with suppress(RuntimeError):  # the loop has been closed
            self._loop.call_soon_threadsafe(self._note_exit)

    def _write(self) -> None:
        try:
            sent = os.write(self._input, self._unsent[:_CHUNK])
        except BlockingIOError:
            return
        except OSError:  # EPIPE: it has closed its input, or ended; what it did not want to read is no error
            sent = len(self._unsent)
        self._unsent = self._unsent[sent:]
        if not self._unsent:
            self._close(self._input)

    def _read(self, descriptor: int, output: Output) -> int:
        """One piece, so that a flood from one child leaves the loop to the others."""
        try:
            data = os.read(descriptor, _CHUNK)
        except BlockingIOError:
            return 0
        except OSError:
            data = b""
        if not data:
            self._close(descriptor)
            return 0
        output.add(data)
        if self.on_output is not None and self.exit_status is None:
            self.on_output()
        return len(data)

    def _read_the_rest(self) -> None:
        if not self._let_go:
            return
        for descriptor, output in self._outputs.items():
            size = 0
            while descriptor in self._open and size < _LEFT_IN_PIPE:
                read = self._read(descriptor, output)
                if not read:
                    break
                size += read

    def _close_pipes(self) -> None:
        for descriptor in tuple(self._open):
            self._close(descriptor)

    def _close(self, descriptor: int) -> None:
        if descriptor not in self._open:
            return
        self._open.discard(descriptor)
        if self._open <= {self._input}:
            self.drained.set()
        if descriptor == self._input:
            self._loop.remove_writer(descriptor)
        else:
            self._loop.remove_reader(descriptor)
        # Through the file object: it would close the number again, which may be another file's by then.
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            if pipe is not None and not pipe.closed and pipe.fileno() == descriptor:
                pipe.close()
