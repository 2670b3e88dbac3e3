"""preview: the prompts that the first rows would give. It stores and runs nothing."""

from dataclasses import replace

import click

from rowcrew.cli.exits import OK
from rowcrew.cli.opening import with_engine
from rowcrew.cli.request import JobOptions, build_request, job_options
from rowcrew.cli.session import Verb, json_option
from rowcrew.cli.terminal import printable, say, show, show_json
from rowcrew.domain.job import JobSettings
from rowcrew.engine import Engine


@click.command(cls=Verb)
@job_options
@click.option(
    "-n", "--count", type=click.IntRange(min=1), default=3, show_default=True, help="How many rows."
)
@json_option()
@click.pass_context
def preview(context: click.Context, *, options: JobOptions, count: int, as_json: bool) -> int:
    """Show the prompts of the first rows, and run nothing."""
    request = build_request(options)

    async def work(engine: Engine) -> int:
        # Which kind of worker matters to the prompt; that its model can be had does not.
        worker = options.worker or engine.default_worker(options.model)
        asked = replace(request, settings=JobSettings(worker=worker))
        prompts = await engine.jobs.preview(asked, count=count)
        if as_json:
            show_json(
                {"prompts": [{"item_id": item_id, "prompt": text} for item_id, text in prompts]}, indent=2
            )
            return OK
        for item_id, text in prompts:
            show(f"--- {printable(item_id)} ---\n{printable(text)}\n")
        if not prompts:
            say("The table has no rows.")
        return OK

    return with_engine(context, work)
