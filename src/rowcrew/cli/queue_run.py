"""Working off a thread's queue in this process, turn after turn. It knows no verb and no rule of a queue."""

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from rowcrew.cli.exits import ERROR, OK, SOME_FAILED, STOPPED
from rowcrew.cli.interrupts import Interrupts
from rowcrew.cli.terminal import one_line, printable, say, show, show_json
from rowcrew.domain.events import TurnEnded
from rowcrew.domain.ids import short
from rowcrew.domain.lifecycle import QueuedTurnStatus, TurnStatus
from rowcrew.domain.thread import Thread
from rowcrew.engine import Engine

if TYPE_CHECKING:
    from rowcrew.agent.dispatcher import Dispatcher
    from rowcrew.agent.queueing import TurnQueue
    from rowcrew.agent.service import ThreadService

# What a turn gets to end when the command is interrupted.
SHUTDOWN_SECONDS = 8.0


async def work_off(engine: Engine, found: Thread, turns: "TurnQueue", *, as_json: bool) -> int:
    """Run what waits until the queue is empty, held, or its head has failed. The exit code."""
    threads: ThreadService = await engine.threads()
    dispatcher: Dispatcher = import_module("rowcrew.agent.dispatcher").Dispatcher(
        await engine.database("queue"), threads, by_itself=False
    )
    with Interrupts(say, works="the turn") as interrupts:
        interrupts.can_go_on(f"rowcrew queue start {short(found.id)}")
        interrupts.attach(_Working(engine, threads, dispatcher, found.id), say)
        async with dispatcher:
            await threads.resume(found.id)
            await turns.go_on(found.id)
            all_went_well = True
            try:
                async for sent in dispatcher.work_off(found.id):
                    say(f"> {one_line(sent.text)}")
                    if (ended := await sent.ended) is not None:
                        _show_end(ended, as_json=as_json)
                        all_went_well &= ended.status is TurnStatus.COMPLETED
            finally:
                await dispatcher.close()
                await threads.control.shutdown_all(SHUTDOWN_SECONDS)
                await dispatcher.settle(SHUTDOWN_SECONDS)
    code = _tell_what_is_left(turns, found.id)
    if interrupts.exit_code is not None:
        return interrupts.exit_code
    return SOME_FAILED if code == OK and not all_went_well else code


@dataclass(slots=True)
class _Working:
    """What signals end: the turn in good order, so that the queue is held; then everything at once."""

    engine: Engine
    threads: "ThreadService"
    dispatcher: "Dispatcher"
    thread_id: str

    def interrupt(self) -> None:
        self.dispatcher.stop()
        if self.thread_id in self.threads.list_loaded():
            self.threads.interrupt(self.thread_id)

    def abort(self) -> None:
        self.engine.abort()


def _show_end(ended: TurnEnded, *, as_json: bool) -> None:
    error = None if ended.failure is None else ended.failure.message
    if as_json:
        shape: dict[str, Any] = {"turn_id": ended.turn_id, "status": str(ended.status)}
        show_json({**shape, "message": ended.last_message, "error": error})
    elif ended.last_message is not None:
        show(printable(ended.last_message))
    if error is not None:
        say(f"The turn failed: {printable(error)}")
    elif ended.status is not TurnStatus.COMPLETED:
        say(f"The turn was {ended.status}.")


def _tell_what_is_left(turns: "TurnQueue", thread_id: str) -> int:
    left = turns.list(thread_id, limit=1)
    if not left:
        say("Nothing waits any more.")
        return OK
    head, name = left[0], short(thread_id)
    if head.status is QueuedTurnStatus.FAILED:
        say(f"The head of the queue has failed: {head.failure}.")
        say(f"Hint: `rowcrew queue retry {name} {short(head.id)}` lets it wait again, `delete` drops it")
        return ERROR
    say(f"Hint: `rowcrew queue start {name}` goes on with what waits")
    return STOPPED
