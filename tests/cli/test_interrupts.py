"""Signals while a job runs: in good order first, at once then."""

import asyncio
import os
import signal
from collections.abc import Iterator

import pytest

from rowcrew.cli.interrupts import Interrupts, interruptible

JOB_ID = "1a2b3c4d-0000-4000-8000-000000000000"


class Run:
    """Notes what is asked of it, and says when."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.changed = asyncio.Event()

    def interrupt(self) -> None:
        self.asked.append("interrupt")
        self.changed.set()

    def abort(self) -> None:
        self.asked.append("abort")
        self.changed.set()


@pytest.fixture(autouse=True)
def default_handlers() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


async def send(number: signal.Signals, run: Run) -> None:
    run.changed.clear()
    os.kill(os.getpid(), number)
    await asyncio.wait_for(run.changed.wait(), 60)


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 143)]
)
async def test_the_first_signal_interrupts_and_the_second_aborts(number: signal.Signals, code: int) -> None:
    said: list[str] = []
    run = Run()
    with Interrupts(said.append) as interrupts:
        interrupts.created(JOB_ID)
        interrupts.attach(run, said.append)
        await send(number, run)
        assert (run.asked, interrupts.exit_code) == (["interrupt"], code)
        await send(number, run)
    assert run.asked == ["interrupt", "abort"]
    assert said == [
        "Interrupted: ending the workers (again: at once). Go on later with: rowcrew resume 1a2b3c4d",
        "Ending at once. Nothing that was reported is lost.",
    ]


async def test_before_there_is_a_run_the_work_is_cancelled() -> None:
    said: list[str] = []

    async def work() -> int | None:
        with Interrupts(said.append) as interrupts:
            try:
                os.kill(os.getpid(), signal.SIGINT)
                await asyncio.wait_for(asyncio.Event().wait(), 60)
            except asyncio.CancelledError:
                return interrupts.exit_code
        return None

    assert await asyncio.create_task(work()) == 130
    assert said == ["Interrupted. Nothing has been made; run the same command again."]


async def test_a_signal_that_was_to_be_ignored_stays_ignored() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with Interrupts(lambda text: None) as interrupts:
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
        os.kill(os.getpid(), signal.SIGHUP)
    assert interrupts.exit_code is None


async def test_work_that_a_signal_cancels_ends_with_the_code_of_the_signal() -> None:
    said: list[str] = []

    async def work(_: Interrupts) -> int:
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.Event().wait()
        return 0

    assert await interruptible(work, said.append) == 143
    assert said == ["Interrupted. Nothing has been made; run the same command again."]


async def test_work_that_is_cancelled_without_a_signal_is_cancelled() -> None:
    async def work(_: Interrupts) -> int:
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        await interruptible(work, lambda _: None)
