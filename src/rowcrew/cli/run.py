"""run, resume, retry: work on a job in this process. No rule about jobs is here."""

from collections.abc import Awaitable, Callable
from dataclasses import replace

import click

from rowcrew.cli.exits import OK
from rowcrew.cli.interrupts import Interrupts, interruptible
from rowcrew.cli.opening import with_engine
from rowcrew.cli.render import rows
from rowcrew.cli.request import JobOptions, build_request, job_options, job_settings
from rowcrew.cli.running import (
    Audience,
    Progress,
    audience_of,
    progress_option,
    tell_nothing_to_do,
    work_on,
)
from rowcrew.cli.session import Verb, json_option
from rowcrew.cli.terminal import claimed_output, say
from rowcrew.domain.ids import short
from rowcrew.domain.job import Job
from rowcrew.engine import Engine
from rowcrew.errors import Conflict, NotFound
from rowcrew.scheduler.creation import find_input

JSON_LINES = "Print JSON lines: job.started, job.progress, job.finished."
Work = Callable[[Engine, Interrupts], Awaitable[int]]


def run_here(context: click.Context, work: Work) -> int:
    """Do work that runs a job, with an engine, and with signals that end it in good order.

    What the rows' own code prints goes to standard error meanwhile.
    """

    async def watched(engine: Engine) -> int:
        return await interruptible(lambda interrupts: work(engine, interrupts), say)

    with claimed_output():
        return with_engine(context, watched, fast=True)


@click.command(cls=Verb)
@job_options
@json_option(JSON_LINES)
@progress_option
@click.pass_context
def run(context: click.Context, *, options: JobOptions, as_json: bool, progress: Progress) -> int:
    """Run one instruction over every row of a table."""
    audience = audience_of(context, progress, as_json=as_json)

    async def work(engine: Engine, interrupts: Interrupts) -> int:
        return await create_and_run(engine, options, audience, interrupts)

    return run_here(context, work)


async def create_and_run(
    engine: Engine, options: JobOptions, audience: Audience, interrupts: Interrupts
) -> int:
    """The whole of `rowcrew run`, once the engine is open."""
    request = build_request(options)
    # Before a model is asked for: who mistypes the file's name should not hear of keys first.
    find_input(request.input_path)
    request = replace(request, settings=job_settings(options, engine))
    created = await engine.jobs.create_from_table(request)
    interrupts.created(created.job.id)
    for notice in created.notices:
        say(f"Note: {notice}")
    name = short(created.job.id)
    say(f"Job {name}: {rows(created.job.counts.total)}. If it stops: rowcrew resume {name}")
    return await work_on(engine, created.job, audience, interrupts)


@click.command(cls=Verb)
@click.argument("job", required=False)
@click.option("--retry-failed", is_flag=True, help="Run the failed rows again too.")
@click.option("-j", "--max-concurrency", type=click.IntRange(min=1), help="Rows at a time.")
@json_option(JSON_LINES)
@progress_option
@click.pass_context
def resume(
    context: click.Context,
    *,
    job: str | None,
    retry_failed: bool,
    max_concurrency: int | None,
    as_json: bool,
    progress: Progress,
) -> int:
    """Go on with a job that stopped."""
    audience = audience_of(context, progress, as_json=as_json)

    async def work(engine: Engine, interrupts: Interrupts) -> int:
        found = await _find_to_resume(engine, job, retry_failed=retry_failed)
        interrupts.created(found.id)
        if retry_failed:
            moved = await engine.jobs.retry_failed(found.id)
            say(f"Job {short(found.id)}: {rows(moved)} that had failed will run again.")
        await _note_changed_input(engine, found)
        try:
            return await work_on(engine, found, audience, interrupts, max_concurrency=max_concurrency)
        except Conflict as conflict:
            if conflict.state != "nothing_left":
                raise
            return await tell_nothing_to_do(engine, found.id, audience, "row left to run")

    return run_here(context, work)


async def _find_to_resume(engine: Engine, prefix: str | None, *, retry_failed: bool) -> Job:
    try:
        return await engine.jobs.find(prefix, unfinished=prefix is None)
    except NotFound:
        if prefix is not None or not retry_failed:
            raise
        # A job whose rows have all ended, some badly, is what one wants to go on with here.
        return await engine.jobs.find(None)


async def _note_changed_input(engine: Engine, job: Job) -> None:
    if await engine.jobs.input_changed(job.id):
        say(
            f"Note: {job.input_path} is gone or has changed since the job was made."
            " The job goes on with the rows as they were."
        )


@click.command(cls=Verb)
@click.argument("job", required=False)
@click.option("--item", "items", multiple=True, metavar="ID", help="Only this row. Repeatable.")
@click.option("-j", "--max-concurrency", type=click.IntRange(min=1), help="Rows at a time.")
@json_option(JSON_LINES)
@progress_option
@click.pass_context
def retry(
    context: click.Context,
    *,
    job: str | None,
    items: tuple[str, ...],
    max_concurrency: int | None,
    as_json: bool,
    progress: Progress,
) -> int:
    """Run the failed rows of a job again."""
    audience = audience_of(context, progress, as_json=as_json)

    async def work(engine: Engine, interrupts: Interrupts) -> int:
        found = await engine.jobs.find(job)
        interrupts.created(found.id)
        moved = await engine.jobs.retry_failed(found.id, items)
        if not moved:
            return await tell_nothing_to_do(engine, found.id, audience, "such failed row to run again")
        say(f"Job {short(found.id)}: {rows(moved)} will run again.")
        try:
            return await work_on(engine, found, audience, interrupts, max_concurrency=max_concurrency)
        except Conflict as conflict:
            if conflict.state != "running_elsewhere":
                raise
            say(f"{conflict.message}; it takes the rows up.")
            return OK

    return run_here(context, work)
