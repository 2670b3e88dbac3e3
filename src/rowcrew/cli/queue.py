"""queue …: what a thread is to do next, written down now. It runs no turn, and has no rule of its own."""

from collections.abc import Awaitable, Callable
from typing import Any

import click

from rowcrew.agent.queueing import TurnQueue
from rowcrew.cli.exits import OK
from rowcrew.cli.opening import with_engine
from rowcrew.cli.queue_run import work_off
from rowcrew.cli.render import table
from rowcrew.cli.request import text_or_stdin
from rowcrew.cli.session import Verb, json_option
from rowcrew.cli.shapes import rfc3339
from rowcrew.cli.terminal import one_line, say, show, show_json
from rowcrew.domain.ids import short
from rowcrew.domain.queued_turn import QueuedTurn
from rowcrew.domain.thread import Thread
from rowcrew.engine import Engine
from rowcrew.processes import is_alive

Work = Callable[[TurnQueue, Thread], Awaitable[int]]

_THREAD = click.argument("thread_id", metavar="THREAD")
_ENTRY = click.argument("entry_id", metavar="ENTRY")


@click.group()
def queue() -> None:
    """Write down turns for a thread, to be run one after the other."""


@queue.command("add", cls=Verb)
@_THREAD
@click.argument("text")
@click.option("--client-id", metavar="ID", help="Your name for it: added twice, it is there once.")
@json_option()
@click.pass_context
def add(context: click.Context, *, thread_id: str, text: str, client_id: str | None, as_json: bool) -> int:
    """Add a turn at the end. A TEXT of - is read from standard input."""
    text = text_or_stdin(text)

    async def work(turns: TurnQueue, found: Thread) -> int:
        added = await turns.add(found.id, text, client_id=client_id)
        said = {
            "added": f"Queued as {short(added.id)}.",
            "already_queued": f"It is in the queue already, as {short(added.id)}.",
            "already_left": "It was queued before, and has been run or deleted since.",
        }
        say(said[added.outcome])
        if as_json:
            entry = None if added.entry is None else entry_shape(added.entry)
            show_json({"outcome": added.outcome, "entry": entry}, indent=2)
        elif not _is_alive(found):
            say(f"The thread is not loaded anywhere. `rowcrew queue start {short(found.id)}` runs its queue.")
        return OK

    return _on_queue(context, thread_id, work)


@queue.command("list", cls=Verb)
@_THREAD
@click.option("--offset", type=click.IntRange(min=0), default=0)
@click.option("-n", "--limit", type=click.IntRange(min=1), default=100, show_default=True)
@json_option()
@click.pass_context
def list_entries(context: click.Context, *, thread_id: str, offset: int, limit: int, as_json: bool) -> int:
    """List what waits, in order."""

    async def work(turns: TurnQueue, found: Thread) -> int:
        entries = turns.list(found.id, offset=offset, limit=limit)
        held = turns.is_held(found.id)
        if as_json:
            show_json({"held": held, "entries": [entry_shape(entry) for entry in entries]}, indent=2)
            return OK
        if entries:
            lines = [
                [short(one.id), str(one.status), one_line(one.failure or one.text, 70)] for one in entries
            ]
            show(table(("ID", "STATUS", "TEXT"), lines))
        else:
            say("Nothing waits.")
        if held:
            say(f"Held since an interrupt: `rowcrew queue start {short(found.id)}` goes on.")
        return OK

    return _on_queue(context, thread_id, work)


@queue.command("update", cls=Verb)
@_THREAD
@_ENTRY
@click.argument("text")
@click.pass_context
def update(context: click.Context, *, thread_id: str, entry_id: str, text: str) -> int:
    """Write a queued turn anew; its place stays. A TEXT of - is read from standard input."""
    text = text_or_stdin(text)

    async def work(turns: TurnQueue, found: Thread) -> int:
        entry = await turns.update(found.id, turns.find(found.id, entry_id).id, text)
        say(f"{short(entry.id)} is changed.")
        return OK

    return _on_queue(context, thread_id, work)


@queue.command("delete", cls=Verb)
@_THREAD
@_ENTRY
@click.pass_context
def delete(context: click.Context, *, thread_id: str, entry_id: str) -> int:
    """Take a queued turn out."""

    async def work(turns: TurnQueue, found: Thread) -> int:
        entry = turns.find(found.id, entry_id)
        deleted = await turns.delete(found.id, entry.id)
        say(f"{short(entry.id)} is deleted." if deleted else f"{short(entry.id)} is gone already.")
        return OK

    return _on_queue(context, thread_id, work)


@queue.command("reorder", cls=Verb)
@_THREAD
@click.argument("entry_ids", metavar="ENTRY...", nargs=-1, required=True)
@click.pass_context
def reorder(context: click.Context, *, thread_id: str, entry_ids: tuple[str, ...]) -> int:
    """Put what waits in another order; name every entry once."""

    async def work(turns: TurnQueue, found: Thread) -> int:
        await turns.reorder(found.id, [turns.find(found.id, prefix).id for prefix in entry_ids])
        say("The queue is in that order now.")
        return OK

    return _on_queue(context, thread_id, work)


@queue.command("retry", cls=Verb)
@_THREAD
@_ENTRY
@click.pass_context
def retry(context: click.Context, *, thread_id: str, entry_id: str) -> int:
    """Let a queued turn that could not be run wait for its turn again."""

    async def work(turns: TurnQueue, found: Thread) -> int:
        entry = await turns.retry(found.id, turns.find(found.id, entry_id).id)
        say(f"{short(entry.id)} waits again.")
        return OK

    return _on_queue(context, thread_id, work)


@queue.command("start", cls=Verb)
@_THREAD
@json_option("Print a JSON line for each turn that has ended.")
@click.pass_context
def start(context: click.Context, *, thread_id: str, as_json: bool) -> int:
    """Run what waits, here unless the thread is loaded elsewhere; or let a held queue go on."""

    async def work(engine: Engine) -> int:
        turns, found = await _open(engine, thread_id)
        if _is_alive(found):
            await turns.go_on(found.id)
            say(
                f"The thread is loaded in process {found.owner and found.owner.pid}: its queue goes on there."
            )
            return OK
        return await work_off(engine, found, turns, as_json=as_json)

    return with_engine(context, work, fast=True)


def _on_queue(context: click.Context, prefix: str, work: Work) -> int:
    async def opened(engine: Engine) -> int:
        return await work(*await _open(engine, prefix))

    return with_engine(context, opened)


async def _open(engine: Engine, prefix: str) -> tuple[TurnQueue, Thread]:
    threads = await engine.thread_catalog()
    found = threads.find(prefix)
    return TurnQueue(await engine.database("queue"), threads), found


def _is_alive(found: Thread) -> bool:
    return found.owner is not None and is_alive(found.owner)


def entry_shape(entry: QueuedTurn) -> dict[str, Any]:
    """A queued turn as JSON."""
    return {
        "id": entry.id,
        "thread_id": entry.thread_id,
        "client_id": entry.client_id,
        "status": str(entry.status),
        "text": entry.text,
        "failure": entry.failure,
        "created_at": rfc3339(entry.created_at_ms),
        "updated_at": rfc3339(entry.updated_at_ms),
    }
