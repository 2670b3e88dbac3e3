"""exec: one agent, one turn, no questions; and going on with an earlier thread. It knows no tool.

The final message, or the event lines of --json, go to standard output; everything else to standard error.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rowcrew.cli.exec_events import EventLines
from rowcrew.cli.exec_request import ExecRequest, build, exec_options, of_openai
from rowcrew.cli.exits import ERROR, OK
from rowcrew.cli.interrupts import Interrupts
from rowcrew.cli.narration import Narration
from rowcrew.cli.opening import with_engine
from rowcrew.cli.session import Verb, session_of
from rowcrew.cli.terminal import printable, say, show
from rowcrew.domain.events import Fact, TurnEnded, TurnItemDelta
from rowcrew.domain.history import Turn
from rowcrew.domain.ids import short
from rowcrew.domain.lifecycle import TurnStatus
from rowcrew.domain.schema import InvalidResult, OutputSchema, check_result, parse_answer
from rowcrew.domain.thread import Thread
from rowcrew.engine import Engine
from rowcrew.errors import NotFound, RowcrewError
from rowcrew.scheduler.progress import Progress

if TYPE_CHECKING:
    from rowcrew.agent.service import ThreadService
    from rowcrew.agent.thread import SentTurn

SOURCE = "exec"
# What the last look into the history, and leaving the thread, may take.
READ_BACK_SECONDS = 2.0
LEAVE_SECONDS = 1.0


@click.command("exec", cls=Verb)
@exec_options
@click.pass_context
def execute(context: click.Context, /, **given: Any) -> int:
    """Give one agent one task, and wait for its answer.

    The task is PROMPT, or standard input when it is - or left out. `exec resume THREAD PROMPT` goes on with
    an earlier thread, `exec resume --last PROMPT` with the latest.
    """
    lines = EventLines() if given["as_json"] else None
    try:
        request = build(session_of(context), given)
        return with_engine(context, lambda engine: _watched(engine, request, lines), fast=True)
    except RowcrewError as error:
        if lines is not None:
            lines.error(error.message)
        raise


async def _watched(engine: Engine, request: ExecRequest, lines: EventLines | None) -> int:
    with Interrupts(say, works="the turn") as interrupts:
        try:
            return await _run(engine, request, lines, interrupts)
        except asyncio.CancelledError:
            if interrupts.exit_code is None:
                raise
            return interrupts.exit_code


async def _run(engine: Engine, request: ExecRequest, lines: EventLines | None, interrupts: Interrupts) -> int:
    threads = await engine.threads()
    thread = await _open_thread(threads, _named(request, engine))
    interrupts.can_go_on(f"rowcrew exec resume {short(thread.id)} 'go on'")
    say(f"Thread {short(thread.id)}: {thread.model} in {printable(thread.cwd)} ({thread.sandbox_mode}).")
    if lines is not None:
        lines.thread(thread.id)
    teller = _Teller(thread.id, lines, Narration())
    engine.job_listeners.append(teller.progress)
    with threads.bus.subscribe(lambda fact: _is_told(fact, thread.id)) as facts:
        sent = threads.start_turn(thread.id, request.prompt, output_schema=request.output_schema)
        interrupts.attach(_RunningTurn(engine, threads, thread.id), say)
        ended = await _follow(facts, sent, teller.take)
    engine.job_listeners.remove(teller.progress)
    if ended is None:
        raise RowcrewError("the agent ended before its turn did", hint="run it again with -v for the details")
    stored = await _read_back(threads, ended) if lines is not None else None
    await _leave(threads, thread.id)
    return _tell_end(ended, stored, request, lines, interrupts)


def _named(request: ExecRequest, engine: Engine) -> ExecRequest:
    """With the model's provider, where no server of the user's own says what a bare name means."""
    if request.setup.base_url is not None or engine.settings.base_url is not None:
        return request
    return replace(request, setup=replace(request.setup, model=of_openai(request.setup.model)))


async def _open_thread(threads: "ThreadService", request: ExecRequest) -> Thread:
    if not request.is_resumed:
        return await threads.start(request.setup, source=SOURCE)
    if request.thread is not None:
        return await threads.resume(threads.find(request.thread).id, request.setup)
    latest = threads.list(limit=1, order="changed").threads
    if not latest:
        raise NotFound("there is no thread yet", hint="`rowcrew exec PROMPT` starts one")
    return await threads.resume(latest[0].id, request.setup)


def _is_told(fact: Fact, thread_id: str) -> bool:
    """All of the thread's but pieces of text, which nobody sees here: so its model need not stream."""
    return fact.thread_id == thread_id and not isinstance(fact, TurnItemDelta)


async def _follow(facts: Any, sent: "SentTurn", take: Callable[[Fact], None]) -> TurnEnded | None:
    """Tell the facts of the turn until it has ended."""
    sent.ended.add_done_callback(lambda _: facts.close())
    async for fact in facts:
        take(fact)
    return await sent.ended


async def _read_back(threads: "ThreadService", ended: TurnEnded) -> Turn | None:
    """The turn as it is kept, should a line of it have been missed."""
    try:
        async with asyncio.timeout(READ_BACK_SECONDS):
            return await threads.find_turn(ended.thread_id, ended.turn_id)
    except (TimeoutError, RowcrewError):
        return None


async def _leave(threads: "ThreadService", thread_id: str) -> None:
    """End the thread and what it spawned. What has not ended in time is ended with the engine."""
    try:
        async with asyncio.timeout(LEAVE_SECONDS):
            await threads.unload(thread_id)
    except (TimeoutError, RowcrewError):
        return


def _tell_end(
    ended: TurnEnded,
    stored: Turn | None,
    request: ExecRequest,
    lines: EventLines | None,
    interrupts: Interrupts,
) -> int:
    if lines is not None:
        lines.end(ended, stored)
    message = ended.last_message or ""
    if request.message_path is not None:
        _write_message(request.message_path, message)
    if ended.status is TurnStatus.COMPLETED:
        if not message:
            say("The agent ended its turn without a message.")
        elif lines is None:
            show(message)
        if request.output_schema is not None:
            _say_what_it_misses(message, request.output_schema)
        return OK
    go_on = f"rowcrew exec resume {short(ended.thread_id)} 'go on'"
    if ended.failure is not None:
        say(f"Error: {printable(ended.failure.message)}")
    if interrupts.exit_code is None:
        say(f"Hint: mend what it names, then go on with: {go_on}")
    return ERROR if interrupts.exit_code is None else interrupts.exit_code


def _say_what_it_misses(message: str, schema: dict[str, Any]) -> None:
    """The schema is asked for, and not every model keeps to it: whoever reads on should know."""
    try:
        check_result(parse_answer(message), OutputSchema.parse(schema))
    except InvalidResult as error:
        say(f"Note: the last message does not fit the output schema: {printable(str(error))}.")


def _write_message(path: Path, message: str) -> None:
    try:
        path.write_text(message, "utf-8", "backslashreplace")
    except OSError as error:
        say(f"Note: the last message could not be written to {path}: {error.strerror}.")


@dataclass(slots=True)
class _Teller:
    """Hands what happens to those who tell it. Job progress goes to people in either mode."""

    thread_id: str
    lines: EventLines | None
    narration: Narration

    def take(self, fact: Fact) -> None:
        (self.lines or self.narration).take(fact)

    def progress(self, thread_id: str, job_id: str, progress: Progress) -> None:
        if thread_id != self.thread_id:
            return
        self.narration.progress(job_id, progress)
        if self.lines is not None:
            self.lines.progress(job_id, progress)


@dataclass(slots=True)
class _RunningTurn:
    """What signals end: the turn in good order, then everything at once."""

    engine: Engine
    threads: "ThreadService"
    thread_id: str

    def interrupt(self) -> None:
        if self.thread_id in self.threads.list_loaded():
            self.threads.interrupt(self.thread_id)

    def abort(self) -> None:
        self.engine.abort()
