"""thread …: look at conversations and put them away. It runs none: `exec` and the app-server do."""

from collections.abc import Awaitable, Callable
from typing import Any

import click

from rowcrew.agent.catalog import ThreadCatalog
from rowcrew.cli.exits import OK
from rowcrew.cli.opening import with_engine
from rowcrew.cli.render import moment, table
from rowcrew.cli.session import Verb, json_option
from rowcrew.cli.shapes import rfc3339
from rowcrew.cli.terminal import one_line, printable, say, show, show_json
from rowcrew.cli.transcript import transcript_text, turn_shape
from rowcrew.domain.ids import short
from rowcrew.domain.thread import Thread
from rowcrew.engine import Engine

Work = Callable[[ThreadCatalog, Thread], Awaitable[int]]


@click.group()
def thread() -> None:
    """Look at conversations with agents, name them, put them away."""


@thread.command("list", cls=Verb)
@click.option("--archived", is_flag=True, help="Those that were archived.")
@click.option("--all", "everything", is_flag=True, help="Also those of jobs and of other agents.")
@click.option("--search", metavar="TEXT", help="Only those whose name or first message holds it.")
@click.option("-n", "--limit", type=click.IntRange(1, 1000), default=25, show_default=True)
@json_option()
@click.pass_context
def list_threads(
    context: click.Context, *, archived: bool, everything: bool, search: str | None, limit: int, as_json: bool
) -> int:
    """List the threads, the newest first."""

    async def work(engine: Engine) -> int:
        threads = await engine.thread_catalog()
        sources: dict[str, Any] = {"sources": None} if everything else {}
        page = threads.list(limit=limit, archived=archived, search=search, **sources)
        if as_json:
            show_json({"threads": [thread_shape(found) for found in page.threads]}, indent=2)
        elif page.threads:
            show(table(("THREAD", "STATUS", "CHANGED", "NAME"), [_line(found) for found in page.threads]))
        else:
            say("There are no threads here. Try: rowcrew exec 'Say hello' -m MODEL")
        return OK

    return with_engine(context, work)


def _line(found: Thread) -> list[str]:
    return [
        short(found.id),
        str(found.status.state),
        moment(found.updated_at_ms)[:16],
        one_line(found.name or found.preview, 60),
    ]


@thread.command("show", cls=Verb)
@click.argument("thread_id", metavar="THREAD")
@json_option()
@click.pass_context
def show_thread(context: click.Context, *, thread_id: str, as_json: bool) -> int:
    """Show a thread with what was said in it."""

    async def work(threads: ThreadCatalog, found: Thread) -> int:
        view = await threads.read(found.id)
        if as_json:
            turns = [turn_shape(turn) for turn in view.turns]
            show_json({**thread_shape(view.thread), "turns": turns}, indent=2)
            return OK
        say(f"{one_line(found.name or found.preview or 'A thread')} ({found.model}, {printable(found.cwd)})")
        show(transcript_text(view.turns) or "Nothing has been said in it.")
        return OK

    return _on_thread(context, thread_id, work)


@thread.command("name", cls=Verb)
@click.argument("thread_id", metavar="THREAD")
@click.argument("name")
@click.pass_context
def name_thread(context: click.Context, *, thread_id: str, name: str) -> int:
    """Give a thread a name; an empty one takes it away."""

    async def work(threads: ThreadCatalog, found: Thread) -> int:
        named = await threads.set_name(found.id, name.strip() or None)
        said = f"is called {one_line(named.name)}" if named.name else "has no name any more"
        say(f"Thread {short(found.id)} {said}.")
        return OK

    return _on_thread(context, thread_id, work)


@thread.command("archive", cls=Verb)
@click.argument("thread_id", metavar="THREAD")
@click.pass_context
def archive(context: click.Context, *, thread_id: str) -> int:
    """Take a thread out of the list; it can be brought back."""

    async def work(threads: ThreadCatalog, found: Thread) -> int:
        await threads.archive(found.id)
        say(f"Thread {short(found.id)} is archived. `rowcrew thread unarchive {short(found.id)}` undoes it.")
        return OK

    return _on_thread(context, thread_id, work)


@thread.command("unarchive", cls=Verb)
@click.argument("thread_id", metavar="THREAD")
@click.pass_context
def unarchive(context: click.Context, *, thread_id: str) -> int:
    """Bring an archived thread back."""

    async def work(threads: ThreadCatalog, found: Thread) -> int:
        await threads.unarchive(found.id)
        say(f"Thread {short(found.id)} is in the list again.")
        return OK

    return _on_thread(context, thread_id, work)


@thread.command("delete", cls=Verb)
@click.argument("thread_id", metavar="THREAD")
@click.pass_context
def delete(context: click.Context, *, thread_id: str) -> int:
    """Delete a thread with all that was said in it and its queued turns."""

    async def work(engine: Engine) -> int:
        # It may have to be ended first, which is more than the catalog can.
        found = (await engine.thread_catalog()).find(thread_id)
        await (await engine.threads()).delete(found.id)
        say(f"Thread {short(found.id)} is deleted.")
        return OK

    return with_engine(context, work)


def _on_thread(context: click.Context, prefix: str, work: Work) -> int:
    async def opened(engine: Engine) -> int:
        threads = await engine.thread_catalog()
        return await work(threads, threads.find(prefix))

    return with_engine(context, opened)


def thread_shape(found: Thread) -> dict[str, Any]:
    """A thread as JSON."""
    return {
        "thread_id": found.id,
        "name": found.name,
        "preview": found.preview,
        "status": str(found.status.state),
        "source": found.source,
        "model": found.model,
        "cwd": found.cwd,
        "sandbox_mode": found.sandbox_mode,
        "parent_id": found.parent_id,
        "forked_from_id": found.forked_from_id,
        "owner_pid": None if found.owner is None else found.owner.pid,
        "archived": found.is_archived,
        "created_at": rfc3339(found.created_at_ms),
        "updated_at": rfc3339(found.updated_at_ms),
    }
