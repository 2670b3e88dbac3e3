"""list, status, pause, cancel, export, rm: look at jobs and steer them from outside. It runs none."""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Literal

import click

from rowcrew.cli.exits import ERROR, OK
from rowcrew.cli.interrupts import interruptible
from rowcrew.cli.opening import with_engine
from rowcrew.cli.render import job_table, job_text, next_steps, rows, tally
from rowcrew.cli.running import Progress, audience_of, progress_option
from rowcrew.cli.session import Verb, json_option
from rowcrew.cli.shapes import job_shape
from rowcrew.cli.terminal import printable, say, show, show_json
from rowcrew.cli.watch import follow
from rowcrew.domain.ids import short
from rowcrew.engine import Engine
from rowcrew.errors import InvalidRequest
from rowcrew.scheduler.views import JobView


@click.command("list", cls=Verb)
@json_option()
@click.pass_context
def list_jobs(context: click.Context, *, as_json: bool) -> int:
    """List the jobs, the newest first."""

    async def work(engine: Engine) -> int:
        views = await engine.job_catalog.list()
        if as_json:
            show_json({"jobs": [job_shape(view) for view in views]}, indent=2)
        elif views:
            show(job_table(views))
        else:
            say("There are no jobs yet. Try: rowcrew demo, or: rowcrew run TABLE.csv -i TEXT -m MODEL")
        return OK

    return with_engine(context, work)


@click.command(cls=Verb)
@click.argument("job", required=False)
@click.option("--follow", "follows", is_flag=True, help="Watch it until it has ended or is paused.")
@json_option()
@progress_option
@click.pass_context
def status(
    context: click.Context, *, job: str | None, follows: bool, as_json: bool, progress: Progress
) -> int:
    """Show where a job stands (the latest, if none is named)."""
    audience = audience_of(context, progress, as_json=as_json)

    async def work(engine: Engine) -> int:
        found = await engine.job_catalog.find(job)
        if follows:
            return await follow(engine, found, audience)
        _show_job(await engine.job_catalog.view(found.id), as_json=as_json)
        return OK

    return with_engine(context, work)


def _show_job(view: JobView, *, as_json: bool) -> None:
    if as_json:
        show_json(job_shape(view), indent=2)
        return
    show(job_text(view))
    for step in next_steps(view):
        say(step)


@click.command(cls=Verb)
@click.argument("job")
@json_option()
@click.pass_context
def pause(context: click.Context, *, job: str, as_json: bool) -> int:
    """Stop a running job so that it can be resumed."""
    return _steer(context, job, lambda engine, job_id: engine.jobs.pause(job_id), as_json=as_json)


@click.command(cls=Verb)
@click.argument("job")
@json_option()
@click.pass_context
def cancel(context: click.Context, *, job: str, as_json: bool) -> int:
    """End a job; the rows that are done stay done."""
    return _steer(context, job, lambda engine, job_id: engine.jobs.cancel(job_id), as_json=as_json)


def _steer(
    context: click.Context, job: str, move: Callable[[Engine, str], Awaitable[JobView]], *, as_json: bool
) -> int:
    async def work(engine: Engine) -> int:
        found = await engine.job_catalog.find(job)
        view = await move(engine, found.id)
        counts = view.job.counts
        say(f"Job {short(found.id)} is {view.job.status}: {tally(counts)}.")
        if view.runner_active:
            say("Its process has not let go yet.")
        for step in next_steps(view):
            say(step)
        if as_json:
            show_json(job_shape(view), indent=2)
        return OK

    return with_engine(context, work)


@click.command(cls=Verb)
@click.argument("job", required=False)
@click.option(
    "-o", "--output", "path", type=click.Path(path_type=Path), help="Where to (default: as the job has it)."
)
@click.option("--force", is_flag=True, help="Replace a file that is there.")
@click.option("--format", "output_format", type=click.Choice(["csv", "jsonl"]), help="Of the file.")
@click.option("--raw/--no-raw", default=None, help="Do not disarm cells that a spreadsheet would compute.")
@click.option("--bom/--no-bom", default=None, help="Begin with a byte-order mark, for Excel.")
@click.option("--expand/--no-expand", default=None, help="With result.<property> columns.")
@json_option()
@click.pass_context
def export(
    context: click.Context,
    *,
    job: str | None,
    path: Path | None,
    force: bool,
    output_format: Literal["csv", "jsonl"] | None,
    raw: bool | None,
    bom: bool | None,
    expand: bool | None,
    as_json: bool,
) -> int:
    """Write the table of a job as it stands."""
    if path is not None and str(path) == "-":
        raise InvalidRequest("the table cannot go to standard output", hint="name a file: -o FILE")

    async def work(engine: Engine) -> int:
        found = await engine.job_catalog.find(job)
        written = await engine.jobs.export(
            found.id, path=path, force=force, output_format=output_format, raw=raw, bom=bom, expand=expand
        )
        if as_json:
            answer = {
                "job_id": found.id,
                "output_csv_path": str(written.path),
                "row_count": written.row_count,
            }
            show_json(answer)
        else:
            say(f"Wrote {rows(written.row_count)} to {printable(str(written.path))}")
        return OK

    async def watched(engine: Engine) -> int:
        return await interruptible(lambda _: work(engine), say)

    return with_engine(context, watched)


async def _confirmed(question: str) -> bool:
    """Ask on the terminal. The event loop waits for the answer, so that Ctrl-C is heard."""
    click.echo(f"{question} [y/N]: ", err=True, nl=False)
    loop, answered = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(sys.stdin, answered.set)
    try:
        await answered.wait()
    finally:
        loop.remove_reader(sys.stdin)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


@click.command("rm", cls=Verb)
@click.argument("job")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@json_option()
@click.pass_context
def remove(context: click.Context, *, job: str, yes: bool, as_json: bool) -> int:
    """Delete a job with its rows and results."""

    async def work(engine: Engine) -> int:
        found = await engine.job_catalog.find(job)
        name = f"job {short(found.id)} ({printable(found.name)}) with {rows(found.counts.total)}"
        asks = not yes and sys.stdin is not None and sys.stdin.isatty() and not as_json
        if asks and not await _confirmed(f"Delete {name}, {found.counts.completed:,} of them completed?"):
            say("Nothing was deleted. Without being asked: rowcrew rm --yes JOB")
            return ERROR
        await engine.remove_job(found.id)
        say(f"Deleted {name}. Its output file, if it has one, stays.")
        if as_json:
            show_json({"job_id": found.id, "removed": True})
        return OK

    return with_engine(context, work)
