"""Two hundred short agents with every kind of end, at a limit of four: no slot leaks, none is overdrawn."""

import asyncio
from collections import Counter
from typing import Any

from rowcrew.agent.control import AgentControl
from rowcrew.agent.journal import NoJournal
from rowcrew.agent.registry import AgentRegistry
from rowcrew.agent.thread import AgentSpec, AgentThread
from rowcrew.agent.tools import Arguments, Tool, ToolRegistry, ToolResult
from rowcrew.errors import ErrorClass, LimitReached, ModelError

LIMIT = 4
AGENTS = 200
NOTHING = {"type": "object", "properties": {}}
ENDS = (
    "completed",
    "model error",
    "broken tool",
    "bug",
    "interrupted",
    "shut down",
    "forced",
    "cancelled start",
)


class SlowJournal(NoJournal):
    """Gives others a turn at every write, as a real one does."""

    async def flush(self, thread_id: str) -> None:
        await asyncio.to_thread(int)


class Crew:
    """Starts the agents and counts how many work at once."""

    def __init__(self, model: Any, say: Any, gate: Any) -> None:
        self.registry = AgentRegistry(max_threads=LIMIT)
        self.control = AgentControl(self.registry, journal=SlowJournal())
        self.peak = 0
        self.refused = 0
        self._working = 0
        self._full = asyncio.Event()
        self._model, self._say, self._gate = model, say, gate
        self._tools = ToolRegistry(
            [Tool("work", "Works.", NOTHING, self._work), Tool("break", "Breaks.", NOTHING, self._break)]
        )

    async def _work(self, _: Arguments) -> ToolResult:
        self._working += 1
        self.peak = max(self.peak, self._working)
        try:
            # The first ones wait for each other, so that the limit is seen to be reached.
            if self.peak == LIMIT:
                self._full.set()
            async with asyncio.timeout(30):
                await self._full.wait()
        finally:
            self._working -= 1
        return ToolResult("ok")

    async def _break(self, _: Arguments) -> ToolResult:
        raise ZeroDivisionError

    def spec(self, kind: str, held: Any) -> AgentSpec:
        ends = {
            "completed": self._say.text("completed"),
            "model error": ModelError("refused", error_class=ErrorClass.REFUSED),
            "broken tool": self._say.call(("break", {})),
            "bug": RuntimeError("a bug in the client"),
        }
        last = ends.get(kind) or held.then(self._say.text("never said"))
        return AgentSpec(self._model([self._say.call(("work", {})), last]), self._tools)

    async def run(self, number: int) -> str:
        """One agent from start to end. Returns how it ended."""
        kind, held = ENDS[number % len(ENDS)], self._gate()
        while True:
            async with asyncio.TaskGroup() as group:
                changed = group.create_task(self.registry.wait_for_change())
                try:
                    thread = await self._start(kind, held)
                except LimitReached:
                    self.refused += 1
                    await changed
                    continue
                changed.cancel()
            break
        assert self.registry.slots_used <= LIMIT
        return kind if thread is None else await self._end(thread, kind, held)

    async def _start(self, kind: str, held: Any) -> AgentThread | None:
        spawning = asyncio.ensure_future(self.control.spawn(self.spec(kind, held), "go"))
        if kind == "cancelled start":
            await asyncio.wait({spawning}, timeout=0)
            # Its thread exists by now, and it waits for the journal; or there was no slot.
            if spawning.cancel():
                await asyncio.wait({spawning})
                return None
        return await spawning

    async def _end(self, thread: AgentThread, kind: str, held: Any) -> str:
        if kind in ("interrupted", "shut down", "forced"):
            await held.reached.wait()
        match kind:
            case "interrupted":
                thread.interrupt()
            case "shut down":
                await self.control.request_shutdown(thread.id)
            case "forced":
                await self.control.force_end(thread.id)
        status = await thread.watch().final()
        await self.control.close(thread.id)
        if kind == "shut down":
            # Its turn's interruption may be seen before; this is what remains.
            status = thread.status
        return f"{kind}: {status.state}"


async def test_two_hundred_agents_never_leak_and_never_overdraw_a_slot(
    model: Any, say: Any, gate: Any
) -> None:
    crew = Crew(model, say, gate)
    async with crew.control:
        ends = await asyncio.gather(*(crew.run(number) for number in range(AGENTS)))
        await crew.control.shutdown_all(30)
        assert (crew.peak, crew.registry.slots_free) == (LIMIT, LIMIT)
    assert crew.refused > 0
    assert Counter(ends) == {
        "completed: completed": 25,
        "model error: errored": 25,
        "broken tool: errored": 25,
        "bug: errored": 25,
        "interrupted: interrupted": 25,
        "shut down: shutdown": 25,
        "forced: shutdown": 25,
        "cancelled start": 25,
    }
