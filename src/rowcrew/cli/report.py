"""report: how a command worker hands in its result while it runs. The checks are the engine's."""

import sys

import click

from rowcrew.cli.exits import ERROR, OK
from rowcrew.cli.opening import with_engine
from rowcrew.cli.session import Verb
from rowcrew.cli.terminal import say, show_json
from rowcrew.domain.schema import InvalidResult, parse_answer
from rowcrew.engine import Engine
from rowcrew.errors import InvalidRequest


@click.command(cls=Verb)
@click.argument("result", required=False)
@click.option("--job", envvar="ROWCREW_JOB_ID", help="Default: ROWCREW_JOB_ID, as a worker has it.")
@click.option("--item", envvar="ROWCREW_ITEM_ID", help="Default: ROWCREW_ITEM_ID.")
@click.option("--thread", envvar="ROWCREW_THREAD_ID", help="Default: ROWCREW_THREAD_ID.")
@click.option("--stop", is_flag=True, help="End the whole job with this report.")
@click.option("--json", "as_json", is_flag=True, help="Accepted; the answer is JSON anyway.")
@click.pass_context
def report(
    context: click.Context,
    *,
    result: str | None,
    job: str | None,
    item: str | None,
    thread: str | None,
    stop: bool,
    as_json: bool,
) -> int:
    """Report a result from inside a command worker.

    RESULT is one JSON object; without it, or where it is -, standard input is read.
    """
    _ = as_json
    if not job or not item or not thread:
        missing = [name for name, value in (("job", job), ("item", item), ("thread", thread)) if not value]
        raise InvalidRequest(
            f"there is no {missing[0]} to report for",
            hint="a command worker has ROWCREW_JOB_ID, ROWCREW_ITEM_ID and ROWCREW_THREAD_ID set;"
            " elsewhere give --job, --item and --thread",
        )
    try:
        from_input = result is None or result == "-"
        answer = parse_answer(sys.stdin.buffer.read().decode("utf-8-sig") if from_input else result or "")
    except UnicodeDecodeError as error:
        return _refused(f"the result is not UTF-8 text (byte {error.start})")
    except InvalidResult as error:
        return _refused(str(error))
    job_id, item_id, thread_id = job, item, thread

    async def work(engine: Engine) -> int:
        found = await engine.jobs.find(job_id)
        verdict = await engine.jobs.report(found.id, item_id, thread_id=thread_id, result=answer, stop=stop)
        if not verdict.accepted:
            return _refused(verdict.reason or "refused", mendable=verdict.mendable)
        show_json({"accepted": True})
        return OK

    return with_engine(context, work)


def _refused(reason: str, *, mendable: bool = True) -> int:
    show_json({"accepted": False, "reason": reason})
    what_next = "Mend it and report again." if mendable else "Reporting it again will not help: end here."
    say(f"The report was not accepted. {what_next}")
    return ERROR
