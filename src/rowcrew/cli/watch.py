"""status --follow, wait: watch a job that another process runs. It changes nothing."""

import click

from rowcrew.cli.exits import STOPPED, code_of_job
from rowcrew.cli.opening import with_engine
from rowcrew.cli.quantities import Seconds
from rowcrew.cli.render import job_text, next_steps
from rowcrew.cli.running import Audience, tell_end
from rowcrew.cli.session import Verb, json_option
from rowcrew.cli.shapes import job_shape, started_event
from rowcrew.cli.terminal import say, show_json
from rowcrew.domain.ids import short
from rowcrew.domain.job import Job
from rowcrew.engine import Engine
from rowcrew.scheduler.views import JobView, progress_of

LOOK_EVERY = 0.5
# Between its creation and its start, and between two runners, a job has no owner for a moment.
ORPHAN_SECONDS = 3.0


class Watch:
    """Looks at one job until it rests. A job that nobody runs any more is not awaited for ever."""

    def __init__(self, engine: Engine, job_id: str) -> None:
        self._engine = engine
        self._job_id = job_id
        self._orphan_since: float | None = None

    async def next_view(self, seconds: float) -> tuple[JobView, bool]:
        """The job after `seconds`, or as soon as it rests; and whether there is nothing to wait for."""
        view, moving = await self._engine.job_catalog.wait(self._job_id, timeout=seconds)
        now = self._engine.clock.monotonic()
        if view.runner_active or not moving:
            self._orphan_since = None
        elif self._orphan_since is None:
            self._orphan_since = now
        is_orphan = self._orphan_since is not None and now - self._orphan_since >= ORPHAN_SECONDS
        return view, not moving or is_orphan


async def follow(engine: Engine, job: Job, audience: Audience) -> int:
    """Show the progress of a job until it rests. The exit code."""
    began, watch = engine.clock.monotonic(), Watch(engine, job.id)
    with audience.display(job) as display:
        if audience.as_json:
            display.tell(started_event(await engine.job_catalog.view(job.id)))
        over = False
        shown = None
        while not over:
            view, over = await watch.next_view(LOOK_EVERY if shown else 0.0)
            elapsed = engine.clock.monotonic() - began
            if view.job.counts != shown or view.runner_active:
                display.show(progress_of(view, elapsed=elapsed))
            shown = view.job.counts
    return await tell_end(engine, job.id, audience)


@click.command(cls=Verb)
@click.argument("job", required=False)
@click.option("--timeout", type=Seconds(), help="Wait no longer than so many seconds.")
@json_option()
@click.pass_context
def wait(context: click.Context, *, job: str | None, timeout: float | None, as_json: bool) -> int:
    """Wait until a job has ended or is paused."""

    async def work(engine: Engine) -> int:
        found = await engine.job_catalog.find(job)
        return await _await_end(engine, found.id, timeout, as_json=as_json)

    return with_engine(context, work)


async def _await_end(engine: Engine, job_id: str, seconds: float | None, *, as_json: bool) -> int:
    clock, watch = engine.clock, Watch(engine, job_id)
    deadline = None if seconds is None else clock.monotonic() + seconds
    over, timed_out = False, False
    while not over and not timed_out:
        left = LOOK_EVERY if deadline is None else min(LOOK_EVERY, max(0.0, deadline - clock.monotonic()))
        view, over = await watch.next_view(left)
        timed_out = not over and deadline is not None and clock.monotonic() >= deadline
    if as_json:
        show_json({"status": job_shape(view), "timed_out": timed_out}, indent=2)
    if timed_out:
        say(f"Job {short(job_id)} is still {view.job.status}. Wait on with: rowcrew wait {short(job_id)}")
        return STOPPED
    say(job_text(view))
    for step in next_steps(view):
        say(step)
    return code_of_job(str(view.job.status), view.job.counts.failed)
