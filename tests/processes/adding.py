"""Adds turns to a thread's queue, as fast as it can, from the moment when the file GO is there.

`python adding.py THREAD NAME COUNT GO`: the texts are NAME0, NAME1, …
"""

import asyncio
import os
import sys

from rowcrew.agent.queueing import TurnQueue
from rowcrew.config import Settings
from rowcrew.engine import Engine


async def main(thread_id: str, name: str, count: str, go: str) -> None:
    async with Engine.open(Settings.load()) as engine:
        turns = TurnQueue(await engine.database("queue"), await engine.thread_catalog())
        print("ready", flush=True)
        # Looked for without a pause: several of these are to begin in the same millisecond.
        while not os.path.exists(go):  # noqa: ASYNC240, PTH110
            continue
        for number in range(int(count)):
            await turns.add(thread_id, f"{name}{number}")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
