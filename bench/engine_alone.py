"""Rows per second of the engine when the worker does nothing. Every claim and every report is on the disk."""

import time

import uvloop

from _figures import done, figure, folder, request, run_job, table
from rowcrew.config import Settings
from rowcrew.engine import Engine

ROWS = 20_000


async def main() -> None:
    with folder() as path:
        source = table(path / "in.csv", ROWS)
        async with Engine.open(Settings.load()) as engine:
            before = time.process_time()
            run = await run_job(engine, request(source, "nothing", concurrency=256))
            spent = time.process_time() - before
    figure("rows completed", run.result.completed_items, "rows", at_least=ROWS)
    figure("engine alone", ROWS / run.seconds, "rows/s", at_least=3000)
    # Reading the table in is a hundredth of it.
    figure("processor time of a row", 1000 * spent / ROWS, "ms")
    done()


if __name__ == "__main__":
    uvloop.run(main())
