"""AgentControl: what other parts hold to start agents, talk to them and end them. It knows no job.

Discipline: every agent's session loop is a task that this object made, keeps and awaits. A slot is committed
in the same step in which the task is made, and goes back when the task is done, however it ended.
"""

import asyncio
import logging
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from rowcrew.agent.journal import Journal, NoJournal
from rowcrew.agent.registry import AgentRegistry
from rowcrew.agent.status import StatusCell, StatusWatch
from rowcrew.agent.thread import AgentSpec, AgentThread, SentTurn
from rowcrew.agent.turn import MAX_TURN_REQUESTS
from rowcrew.bus import Bus
from rowcrew.clock import Clock, SystemClock
from rowcrew.domain.events import AgentState, AgentStatus, ThreadClosed, ThreadStarted
from rowcrew.domain.ids import new_id
from rowcrew.errors import Conflict, NotFound

log = logging.getLogger(__name__)

# A turn gives its request or tools a few seconds to end; a thread gets that and a little more.
SHUTDOWN_SECONDS = 8.0
# After a session loop was cancelled outright. It may still be writing its last facts.
FORCE_SECONDS = 2.0

NOT_FOUND = AgentStatus(AgentState.NOT_FOUND)


@dataclass(frozen=True, slots=True)
class ShutdownReport:
    """Thread ids by how their shutdown went. Only the completed ones are forgotten."""

    completed: tuple[str, ...] = ()
    submit_failed: tuple[str, ...] = ()
    timed_out: tuple[str, ...] = ()


class AgentControl:
    """Starts and ends agents within the limits of one registry. Use it in an `async with`, or `aclose` it."""

    def __init__(
        self,
        registry: AgentRegistry | None = None,
        *,
        bus: Bus | None = None,
        journal: Journal | None = None,
        clock: Clock | None = None,
        max_turn_requests: int = MAX_TURN_REQUESTS,
    ) -> None:
        self.registry = registry or AgentRegistry()
        self.bus = bus or Bus()
        self._journal = journal or NoJournal()
        self._clock = clock or SystemClock()
        self._max_turn_requests = max_turn_requests
        self._threads: dict[str, AgentThread] = {}
        self._loops: dict[str, asyncio.Task[None]] = {}
        self._closing = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def spawn(
        self,
        spec: AgentSpec,
        message: str | None = None,
        *,
        thread_id: str | None = None,
        parent_id: str | None = None,
        takes_slot: bool = True,
    ) -> AgentThread:
        """Start an agent, and its first turn when there is a message.

        LimitReached when no slot is free; InvalidRequest past the allowed depth. Cancelled, or failing, after
        the thread exists, it shuts the thread down; the slot is free when that has ended.
        """
        if self._closing:
            raise Conflict("agents are being shut down", state=AgentState.SHUTDOWN)
        with self.registry.reserve(parent_id=parent_id, takes_slot=takes_slot) as reservation:
            thread = AgentThread(
                thread_id or new_id(),
                spec,
                bus=self.bus,
                journal=self._journal,
                clock=self._clock,
                max_turn_requests=self._max_turn_requests,
            )
            reservation.commit(thread.id)
            self._threads[thread.id] = thread
            loop = self._loops[thread.id] = asyncio.create_task(thread.run(), name=f"agent {thread.id}")
            loop.add_done_callback(lambda loop: self._forget(thread.id, loop))
        try:
            started = ThreadStarted(thread_id=thread.id, at_ms=self._clock.now_ms(), parent_id=parent_id)
            self._journal.note(started)
            await self._journal.flush(thread.id)
            self.bus.publish(started)
            if message is not None:
                thread.send(message)
        except BaseException:
            thread.request_shutdown()
            raise
        return thread

    def find(self, thread_id: str) -> AgentThread | None:
        return self._threads.get(thread_id)

    def get(self, thread_id: str) -> AgentThread:
        """NotFound when no such agent is alive."""
        thread = self._threads.get(thread_id)
        if thread is None:
            raise NotFound(f"no agent {thread_id} is alive")
        return thread

    def status(self, thread_id: str) -> AgentStatus:
        thread = self._threads.get(thread_id)
        return NOT_FOUND if thread is None else thread.status

    def subscribe(self, thread_id: str) -> StatusWatch:
        """Watch a status; that of an unknown agent is `not_found`, and that is all there is to see."""
        thread = self._threads.get(thread_id)
        if thread is not None:
            return thread.watch()
        nobody = StatusCell()
        nobody.set(NOT_FOUND)
        return StatusWatch(nobody)

    async def send(self, thread_id: str, text: str, *, interrupt: bool = False) -> SentTurn:
        """Put a turn into an agent's mailbox. NotFound, Conflict, LimitReached as in AgentThread.send."""
        return self.get(thread_id).send(text, interrupt=interrupt)

    async def request_shutdown(self, thread_id: str) -> bool:
        """Deliver the wish that an agent ends. It stays counted until it has; one already dead is freed here.

        False when there is no such agent.
        """
        thread = self._threads.get(thread_id)
        if thread is None:
            return False
        loop = self._loops[thread_id]
        if loop.done():
            self._forget(thread_id, loop)
        else:
            thread.request_shutdown()
        return True

    async def wait_ended(self, thread_id: str, *, seconds: float) -> bool:
        """Wait until an agent has really ended. False when it has not by then."""
        loop = self._loops.get(thread_id)
        if loop is None:
            return True
        await asyncio.wait({loop}, timeout=seconds)
        return loop.done()

    async def force_end(self, thread_id: str) -> bool:
        """Cancel an agent's session loop outright. False when even that did not end it in time."""
        loop = self._loops.get(thread_id)
        if loop is None:
            return True
        loop.cancel()
        return await self.wait_ended(thread_id, seconds=FORCE_SECONDS)

    def abort(self) -> None:
        """Cancel all session loops outright. Their tools get their grace to end, and nothing else does."""
        for loop in tuple(self._loops.values()):
            loop.cancel()

    async def close(self, thread_id: str, *, seconds: float = SHUTDOWN_SECONDS) -> AgentStatus:
        """End an agent and its live descendants; returns the status that it had before. Bounded."""
        before = self.status(thread_id)
        # Deepest first, so that a parent does not wake up for a child that is just being ended.
        ending = [*reversed(self.registry.descendants(thread_id)), thread_id]
        await self._end_all(ending, seconds)
        return before

    async def shutdown_all(self, seconds: float) -> ShutdownReport:
        """End all agents side by side, each within `seconds`. Who has not ended then is still tracked."""
        return await self._end_all(list(self._threads), seconds)

    async def aclose(self) -> None:
        """End all agents, by force where asking does not help, and start no more."""
        self._closing = True
        report = await self.shutdown_all(SHUTDOWN_SECONDS)
        for thread_id in (*report.submit_failed, *report.timed_out):
            if not await self.force_end(thread_id):
                log.error("agent %s did not end, even when forced", thread_id)

    async def _end_all(self, thread_ids: list[str], seconds: float) -> ShutdownReport:
        asked: dict[str, asyncio.Task[None] | None] = {}
        submit_failed = []
        for thread_id in thread_ids:
            loop = self._loops.get(thread_id)
            try:
                await self.request_shutdown(thread_id)
            except Exception:
                # One agent that cannot be asked must not keep the others from being ended.
                log.exception("agent %s could not be asked to end", thread_id)
                submit_failed.append(thread_id)
            else:
                asked[thread_id] = loop
        if loops := {loop for loop in asked.values() if loop is not None}:
            await asyncio.wait(loops, timeout=seconds)
        timed_out = [thread_id for thread_id, loop in asked.items() if loop is not None and not loop.done()]
        completed = [thread_id for thread_id in asked if thread_id not in timed_out]
        for thread_id, loop in asked.items():
            if loop is not None and loop.done():
                self._forget(thread_id, loop)
        return ShutdownReport(tuple(completed), tuple(submit_failed), tuple(timed_out))

    def _forget(self, thread_id: str, loop: asyncio.Task[None]) -> None:
        """The session loop is done: free the slot. The done callback and others may both get here."""
        if self._loops.get(thread_id) is not loop:
            return
        del self._loops[thread_id]
        self._threads.pop(thread_id).abandon()
        if not loop.cancelled() and (error := loop.exception()) is not None:
            log.error("agent %s broke", thread_id, exc_info=error)
        self.registry.release(thread_id)
        self.bus.publish(ThreadClosed(thread_id=thread_id, at_ms=self._clock.now_ms()))
