"""A job that is run or watched from here: how it goes, how it ended, the exit code. No rule of its own."""

import os
import sys
from dataclasses import dataclass
from typing import Any, Literal

import click

from rowcrew.cli.exits import ERROR, OK, SOME_FAILED, code_of_job
from rowcrew.cli.interrupts import Interrupts
from rowcrew.cli.progress import Display, Style, painter_for
from rowcrew.cli.render import cost_text, failure_lines, next_steps, tally
from rowcrew.cli.session import session_of
from rowcrew.cli.shapes import finished_event, started_event
from rowcrew.cli.terminal import one_line, printable, say, show_json
from rowcrew.domain.ids import short
from rowcrew.domain.job import Job, JobStatus
from rowcrew.engine import Engine
from rowcrew.scheduler.views import JobView

Progress = Literal["auto", "rich", "plain", "none"]

progress_option = click.option(
    "--progress",
    type=click.Choice(["auto", "rich", "plain", "none"]),
    default="auto",
    help="How to show it: a panel on a terminal, lines elsewhere.",
)


@dataclass(frozen=True, slots=True)
class Audience:
    """Who looks at a run: a program (`as_json`), or people in one of the ways of --progress."""

    as_json: bool
    progress: Progress
    verbose: bool = False

    def style(self) -> Style:
        """auto is a panel on a terminal where nothing else writes, and lines elsewhere."""
        if self.as_json:
            return "none" if self.progress == "none" else "json"
        if self.progress != "auto":
            return self.progress
        on_terminal = sys.stderr is not None and sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
        return "rich" if on_terminal and not self.verbose else "plain"

    def display(self, job: Job) -> Display:
        """The display of a job's progress, to be entered."""
        title = f"{short(job.id)} {one_line(job.name, 60)}"
        return Display(painter_for(self.style(), job.id, title))


def audience_of(context: click.Context, progress: Progress, *, as_json: bool) -> Audience:
    """Who looks at this call."""
    return Audience(as_json, progress, verbose=session_of(context).verbosity > 0)


async def work_on(
    engine: Engine,
    job: Job,
    audience: Audience,
    interrupts: Interrupts,
    **options: Any,
) -> int:
    """Run the job in this process until it is final or paused. The exit code. Raises what `start` raises."""
    interrupts.created(job.id)
    with audience.display(job) as display:
        run = await engine.jobs.start(job.id, on_progress=display.show, **options)
        interrupts.attach(run, display.say)
        if audience.as_json:
            display.tell(started_event(await engine.job_catalog.view(job.id)))
        await run.done()
    code = await tell_end(engine, job.id, audience)
    is_saved = not (await engine.job_catalog.view(job.id)).job.status.is_final
    return interrupts.exit_code if is_saved and interrupts.exit_code is not None else code


async def tell_end(engine: Engine, job_id: str, audience: Audience) -> int:
    """Say how the job ended and what to type next. The exit code."""
    view, result = await engine.job_catalog.view(job_id), await engine.job_catalog.result(job_id)
    say(_end_line(view))
    if view.job.auto_export and view.job.status is not JobStatus.FAILED:
        say(f"Output: {printable(view.job.output_path)}")
    if cost := cost_text(view.job.usage):
        say(f"Cost: {cost}")
    for line in [*failure_lines(result), *next_steps(view)]:
        say(line)
    if audience.as_json:
        show_json(finished_event(result))
    return code_of_job(result.status, result.failed_items)


async def tell_nothing_to_do(engine: Engine, job_id: str, audience: Audience, why: str) -> int:
    """A job that is asked to run where there is nothing to run: how it stands is told again.

    Not an error, so that scripts may ask twice.
    """
    say(f"Job {short(job_id)} has no {why}.")
    code = await tell_end(engine, job_id, audience)
    counts = (await engine.job_catalog.view(job_id)).job.counts
    if code == ERROR or counts.pending or counts.running:
        return code
    return SOME_FAILED if counts.failed else OK


def _end_line(view: JobView) -> str:
    job = view.job
    status = str(job.status)
    if job.paused_reason is not None:
        status += f" ({job.paused_reason})"
    said = (
        f" {printable(job.last_error)[:1].upper()}{printable(job.last_error)[1:]}." if job.last_error else ""
    )
    return f"Job {short(job.id)} {status}: {tally(job.counts)}.{said}"
