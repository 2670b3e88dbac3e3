"""demo: the embedded model over a packaged example table. A job like any other; it knows nothing special."""

import csv
import os
import tempfile
from importlib.resources import as_file, files
from itertools import islice
from pathlib import Path

import click

from rowcrew.cli.interrupts import Interrupts
from rowcrew.cli.models import fetch_weights
from rowcrew.cli.opening import load_settings
from rowcrew.cli.render import table
from rowcrew.cli.run import JSON_LINES, run_here
from rowcrew.cli.running import Audience, Progress, audience_of, progress_option, work_on
from rowcrew.cli.session import Verb, json_option, session_of
from rowcrew.cli.terminal import one_line, say
from rowcrew.domain.ids import short
from rowcrew.domain.intake import TableOptions
from rowcrew.engine import Engine
from rowcrew.scheduler.creation import JobRequest

OUTPUT_NAME = "rowcrew-demo.csv"
FIRST_LINES = 6
INSTRUCTION = "Did the customer like the {product}? Say positive or negative."
SCHEMA = {
    "type": "object",
    "properties": {"sentiment": {"enum": ["positive", "negative"]}},
    "required": ["sentiment"],
    "additionalProperties": False,
}


@click.command(cls=Verb)
@json_option(JSON_LINES)
@progress_option
@click.pass_context
def demo(context: click.Context, *, as_json: bool, progress: Progress) -> int:
    """Run the embedded model over an example table."""
    audience = audience_of(context, progress, as_json=as_json)
    fetch_weights(load_settings(session_of(context)).home)

    async def work(engine: Engine, interrupts: Interrupts) -> int:
        with as_file(files("rowcrew.cli").joinpath("data", "reviews.csv")) as example:
            return await _run(engine, example, audience, interrupts)

    return run_here(context, work)


async def _run(engine: Engine, example: Path, audience: Audience, interrupts: Interrupts) -> int:
    output = output_path(Path.cwd())
    request = JobRequest(
        input_path=example,
        instruction=INSTRUCTION,
        table=TableOptions(id_column="id"),
        output_path=output,
        force=True,
        output_schema=SCHEMA,
        name="demo",
        settings=engine.job_settings(worker="oneshot", model="local"),
        new=True,
    )
    created = await engine.jobs.create_from_table(request)
    interrupts.created(created.job.id)
    say(f"Job {short(created.job.id)}: {created.job.counts.total} reviews. The instruction: {INSTRUCTION}")
    code = await work_on(engine, created.job, audience, interrupts)
    say(f"\n{first_lines(output)}\n…")
    say("This is a very small model. Now with a table of yours: rowcrew run TABLE.csv -i TEXT -m MODEL")
    return code


def output_path(folder: Path) -> Path:
    """In the folder, or where files may be written if it is not one."""
    return (folder if os.access(folder, os.W_OK) else Path(tempfile.gettempdir())) / OUTPUT_NAME


def first_lines(output: Path) -> str:
    """The columns of the output that tell the most, of the first rows."""
    shown = ("id", "product", "review", "status", "result.sentiment")
    with output.open(encoding="utf-8", newline="") as file:
        rows = [
            [one_line(row[name], 48) for name in shown] for row in islice(csv.DictReader(file), FIRST_LINES)
        ]
    return table(shown, rows)
