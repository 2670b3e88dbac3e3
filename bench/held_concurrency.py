"""How well a concurrency is held: rows per second over what that many workers of that latency do at best."""

import uvloop

from _figures import HELD, done, figure, folder, request, run_job, table
from rowcrew.config import Settings
from rowcrew.engine import Engine


async def main() -> None:
    for concurrency, latency, rounds, bound in HELD:
        rows = concurrency * rounds
        with folder() as path:
            source = table(path / "in.csv", rows)
            async with Engine.open(Settings.load()) as engine:
                run = await run_job(engine, request(source, f"wait_{latency}", concurrency=concurrency))
        held = rows / run.seconds / (concurrency / latency)
        figure(f"held at {concurrency} x {latency} s", held, "of 1", at_least=bound)
    done()


if __name__ == "__main__":
    uvloop.run(main())
