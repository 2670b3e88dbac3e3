"""One of several processes that do what they can to one home: `python hammer.py SECONDS SEED FOLDER`.

It prints one JSON object: how often it did what, and every error that is no answer to what was asked.
"""

import asyncio
import json
import random
import sys
import time
from collections import Counter
from pathlib import Path

from rowcrew.agent.queueing import TurnQueue
from rowcrew.config import Settings
from rowcrew.domain.ids import new_id
from rowcrew.domain.job import JobSettings
from rowcrew.domain.thread import NewThread
from rowcrew.engine import Engine
from rowcrew.errors import Conflict, InvalidRequest, NotFound
from rowcrew.processes import identify
from rowcrew.scheduler.creation import JobRequest
from rowcrew.store.database import Connection
from rowcrew.store.threads import ThreadStore
from rowcrew.store.turn_queue import TurnQueueStore

VERBS = ("create", "status", "list_jobs", "run", "run", "cancel", "pause", "export", "queue_add")
THREAD = "11111111-0000-4000-8000-00000000000f"


class Hammer:
    """What it may do, one after the other, on jobs of its own and of others."""

    def __init__(self, engine: Engine, chance: random.Random, folder: Path) -> None:
        self.engine = engine
        self.chance = chance
        self.folder = folder

    async def create(self) -> None:
        settings = JobSettings(
            worker="python:hammered:nothing", max_concurrency=4, working_folder=str(self.folder)
        )
        request = JobRequest(self.folder / "in.csv", "{id}", settings=settings, new=True)
        await self.engine.jobs.create_from_table(request)

    async def status(self) -> None:
        await self.engine.jobs.view((await self.engine.jobs.find(None)).id)

    async def list_jobs(self) -> None:
        await self.engine.jobs.list()

    async def run(self) -> None:
        await (await self.engine.jobs.start(await self._some())).done()

    async def cancel(self) -> None:
        await self.engine.jobs.cancel(await self._some())

    async def pause(self) -> None:
        await self.engine.jobs.pause(await self._some())

    async def export(self) -> None:
        await self.engine.jobs.export(await self._some(), force=True)

    async def queue_add(self) -> None:
        turns = TurnQueue(await self.engine.database("queue"), await self.engine.thread_catalog())
        await turns.add(THREAD, f"text {self.chance.random()}")

    async def queue_claim(self) -> None:
        """As a dispatcher does: take the head, give it a turn, and remove it when that has ended."""
        queue, owner, turn_id = await self.engine.database("queue"), identify(), new_id()
        claimed = await queue.write(
            lambda connection: TurnQueueStore(connection).claim_head(THREAD, owner=owner, now=1)
        )
        if claimed is None:
            raise NotFound("nothing to claim now")
        await queue.write(
            lambda connection: TurnQueueStore(connection).set_turn_id(claimed.id, turn_id=turn_id, now=2)
        )
        assert await queue.write(
            lambda connection: TurnQueueStore(connection).remove(THREAD, turn_id=turn_id)
        )

    async def _some(self) -> str:
        return self.chance.choice(await self.engine.jobs.list()).job.id


async def make_thread(engine: Engine) -> None:
    row = NewThread(id=THREAD, source="cli", cwd="/", sandbox_mode="read-only", model=None, preview="")

    def create(connection: Connection) -> None:
        if ThreadStore(connection).find(THREAD) is None:
            ThreadStore(connection).create(row, now=1)

    await engine.state.write(create)


async def main(seconds: float, seed: str, folder: Path) -> None:
    chance, done, errors = random.Random(seed), Counter[str](), list[str]()
    ends_at = time.monotonic() + seconds
    while time.monotonic() < ends_at:
        # Opened anew each time, as the commands of a user are.
        try:
            async with Engine.open(Settings.load()) as engine:
                await make_thread(engine)
                hammer = Hammer(engine, chance, folder)
                await hammer.create()
                for _ in range(10):
                    verb: str = chance.choice(VERBS)
                    try:
                        async with asyncio.timeout(60):
                            await getattr(hammer, verb)()
                        done[verb] += 1
                    except (Conflict, NotFound, InvalidRequest):
                        done[f"{verb} refused"] += 1
        except Exception as error:
            errors.append(f"{type(error).__name__}: {error}")
    print(json.dumps({"done": done, "errors": errors}))


if __name__ == "__main__":
    asyncio.run(main(float(sys.argv[1]), sys.argv[2], Path(sys.argv[3])))
