"""Signals while a job runs here: the first ends it in good order, the second at once. It ends no worker."""

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from types import FrameType, TracebackType
from typing import Protocol

from rowcrew.cli.exits import SIGNALLED
from rowcrew.domain.ids import short

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


async def interruptible(work: Callable[["Interrupts"], Awaitable[int]], tell: Callable[[str], None]) -> int:
    """Do work that a signal ends in good order. Its exit code, or that of the signal."""
    with Interrupts(tell) as interrupts:
        try:
            return await work(interrupts)
        except asyncio.CancelledError:
            if interrupts.exit_code is None:
                raise
            return interrupts.exit_code


class Stoppable(Protocol):
    """What a signal needs of a run."""

    def interrupt(self) -> None: ...

    def abort(self) -> None: ...


class Interrupts:
    """Watches for signals in the running event loop, from `__enter__` to `__exit__`.

    Before a run is attached, the first signal cancels the task that entered: nothing is to be put away.
    """

    def __init__(self, tell: Callable[[str], None], *, works: str = "the workers") -> None:
        self._tell = tell
        self._works = works
        self._run: Stoppable | None = None
        self._go_on_with: str | None = None
        self._task: asyncio.Task[object] | None = None
        self._watched: list[signal.Signals] = []
        self._arrived = 0  # at the process
        self._count = 0  # taken by the event loop
        self.exit_code: int | None = None

    def __enter__(self) -> "Interrupts":
        loop = asyncio.get_running_loop()
        self._task = asyncio.current_task()
        for number in SIGNALS:
            # What was told to be ignored (nohup, a shell's background) stays ignored.
            if signal.getsignal(number) is not signal.SIG_IGN:
                loop.add_signal_handler(number, self._take, number)
                # Python's own handler as well, which is called though the loop may be held up.
                signal.signal(number, self._arrive)
                self._watched.append(number)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        loop = asyncio.get_running_loop()
        for number in self._watched:
            loop.remove_signal_handler(number)

    def created(self, job_id: str) -> None:
        """From now on there is a job to be resumed."""
        self.can_go_on(f"rowcrew resume {short(job_id)}")

    def can_go_on(self, command: str) -> None:
        """From now on this command goes on with what is interrupted."""
        self._go_on_with = command

    def attach(self, run: Stoppable, tell: Callable[[str], None]) -> None:
        """From now on signals end this run, and sentences go where its progress is shown."""
        self._run, self._tell = run, tell

    def _arrive(self, number: int, _frame: FrameType | None) -> None:
        """A row's async function that blocks also holds up `_take`: then the third signal ends everything."""
        self._arrived += 1
        if self._arrived > 2 and self._arrived - self._count > 1:
            os._exit(SIGNALLED + (signal.SIGTERM if number == signal.SIGHUP else number))

    def _take(self, number: signal.Signals) -> None:
        self._count += 1
        self.exit_code = SIGNALLED + (signal.SIGTERM if number == signal.SIGHUP else number)
        if self._count > 2 or (self._count == 2 and self._run is None):
            os._exit(self.exit_code)
        if self._count == 2 and self._run is not None:
            self._run.abort()
            self._tell("Ending at once. Nothing that was reported is lost.")
        elif self._run is not None:
            self._run.interrupt()
            self._tell(f"Interrupted: ending {self._works} (again: at once). {self._go_on()}")
        elif self._task is not None:
            self._task.cancel()
            self._tell(f"Interrupted. {self._go_on()}")

    def _go_on(self) -> str:
        if self._go_on_with is None:
            return "Nothing has been made; run the same command again."
        return f"Go on later with: {self._go_on_with}"
