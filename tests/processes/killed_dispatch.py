"""Works off a thread's queue as `rowcrew queue start` does, and dies at one exact moment of the first turn.

`python killed_dispatch.py MOMENT THREAD`: `claimed` (in the file, not started), `started` (the turn begun,
the model not asked), `ended` (the turn is in the history, its entry still in the queue).
"""

import asyncio
import os
import signal
import sys
from typing import Any

from rowcrew.agent.dispatcher import Dispatcher
from rowcrew.config import Settings
from rowcrew.domain.events import Fact, TurnStarted
from rowcrew.engine import Engine


def die(*_: Any) -> Any:
    os.kill(os.getpid(), signal.SIGKILL)


class DyingDispatcher(Dispatcher):
    def die_at(self, moment: str) -> None:
        if moment == "claimed":
            self._start = die  # type: ignore[method-assign]
        if moment == "ended":
            self._take_out = die  # type: ignore[method-assign]


def die_when_started(fact: Fact) -> bool:
    if isinstance(fact, TurnStarted):
        die()
    return False


async def main(moment: str, thread_id: str) -> None:
    async with Engine.open(Settings.load()) as engine:
        threads = await engine.threads()
        dispatcher = DyingDispatcher(await engine.database("queue"), threads, by_itself=False)
        dispatcher.die_at(moment)
        async with dispatcher:
            await threads.resume(threads.find(thread_id).id)
            if moment == "started":
                threads.bus.subscribe(die_when_started)
            async for sent in dispatcher.work_off(thread_id):
                await sent.ended


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
