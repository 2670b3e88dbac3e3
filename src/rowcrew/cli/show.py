"""show: a job with its failed rows, or one row with its attempts and what was said. It changes nothing."""

import click

from rowcrew.cli.exits import OK
from rowcrew.cli.opening import with_engine
from rowcrew.cli.render import item_table, item_text, job_text, next_steps
from rowcrew.cli.session import Verb, json_option
from rowcrew.cli.shapes import attempt_shape, item_shape, job_shape
from rowcrew.cli.terminal import say, show_json
from rowcrew.cli.terminal import show as show_text
from rowcrew.cli.transcript import transcript_text, turn_shape
from rowcrew.domain.ids import short
from rowcrew.domain.item import JobItemStatus
from rowcrew.engine import Engine


@click.command(cls=Verb)
@click.argument("job", required=False)
@click.argument("item", required=False)
@click.option(
    "--status", "wanted", type=click.Choice([*JobItemStatus, "all"]), help="Which rows (default: failed)."
)
@click.option("--offset", type=click.IntRange(min=0), default=0, help="Leave out the first so many rows.")
@click.option(
    "--limit", type=click.IntRange(min=1), default=20, help="At most so many rows.", show_default=True
)
@json_option()
@click.pass_context
def show(
    context: click.Context,
    *,
    job: str | None,
    item: str | None,
    wanted: str | None,
    offset: int,
    limit: int,
    as_json: bool,
) -> int:
    """Show a job with its failed rows, or one row with its attempts."""

    async def work(engine: Engine) -> int:
        found = await engine.job_catalog.find(job)
        if item is not None:
            return await _show_item(engine, found.id, item, as_json=as_json)
        status = None if wanted == "all" else JobItemStatus(wanted or "failed")
        view = await engine.job_catalog.view(found.id)
        items = await engine.job_catalog.items(found.id, status=status, offset=offset, limit=limit)
        if as_json:
            show_json({"job": job_shape(view), "items": [item_shape(row) for row in items]}, indent=2)
            return OK
        show_text(job_text(view))
        if items:
            show_text(f"\n{item_table(items)}")
        for step in next_steps(view):
            say(step)
        return OK

    return with_engine(context, work)


async def _show_item(engine: Engine, job_id: str, item_id: str, *, as_json: bool) -> int:
    item, attempts = await engine.job_catalog.item(job_id, item_id)
    turns = {tried.thread_id: await engine.list_turns(tried.thread_id) for tried in attempts}
    if as_json:
        tries = [
            {**attempt_shape(tried), "turns": [turn_shape(turn) for turn in turns[tried.thread_id]]}
            for tried in attempts
        ]
        show_json({"job_id": job_id, **item_shape(item), "attempts": tries}, indent=2)
        return OK
    show_text(item_text(item, attempts))
    for tried in attempts:
        if said := transcript_text(turns[tried.thread_id]):
            show_text(f"\nAttempt {tried.number}, thread {short(tried.thread_id)}\n{said}")
    return OK
