"""One agent thread: its mailbox, its session loop, its status. It counts no slots; control.py does.

Discipline: one event loop. The session loop alone runs turns, one at a time, in the order of the mailbox;
everyone else only puts turns in, steers, or asks for an interrupt or the end, and none of that waits.
"""

import asyncio
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rowcrew.agent.conversation import Conversation, Model
from rowcrew.agent.journal import Journal
from rowcrew.agent.record import TurnRecord
from rowcrew.agent.status import StatusCell, StatusWatch
from rowcrew.agent.tools import ToolRegistry
from rowcrew.agent.turn import MAX_TURN_REQUESTS, Turn
from rowcrew.bus import Bus
from rowcrew.clock import Clock
from rowcrew.domain.attempt import Usage
from rowcrew.domain.events import AgentState, AgentStatus, ThreadStatusChanged, TurnEnded
from rowcrew.domain.ids import new_id
from rowcrew.domain.lifecycle import TurnStatus
from rowcrew.errors import Conflict, LimitReached

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage

MAILBOX_CAPACITY = 64


@dataclass(frozen=True, slots=True)
class AgentSpec:
    """What an agent is made of. The model is open already, and is closed by whoever opened it.

    `messages` is what was said before, when the thread is resumed; `request_timeout` is in seconds.
    `saves_early` keeps each step before it is carried out, and not only after; short-lived workers, whose
    attempt is tried again as a whole, go without. `streams` tells what the model says while it says it, where
    anyone follows; a plain request is cheaper.
    """

    model: Model
    tools: ToolRegistry = field(default_factory=ToolRegistry)
    instructions: str = ""
    messages: "Iterable[ModelMessage]" = ()
    request_timeout: float | None = None
    saves_early: bool = True
    streams: bool = True


@dataclass(frozen=True, slots=True)
class SentTurn:
    """A turn that was put into the mailbox. `ended` comes to None when the thread ended before it started."""

    turn_id: str
    text: str
    output_schema: dict[str, Any] | None
    ended: "asyncio.Future[TurnEnded | None]"


class AgentThread:
    """A conversation with an agent that is alive as long as `run` has not returned."""

    def __init__(
        self,
        thread_id: str,
        spec: AgentSpec,
        *,
        bus: Bus,
        journal: Journal,
        clock: Clock,
        max_turn_requests: int = MAX_TURN_REQUESTS,
    ) -> None:
        self.id = thread_id
        self._max_turn_requests = max_turn_requests
        self._spec = spec
        self._bus = bus
        self._journal = journal
        self._clock = clock
        self._conversation = Conversation(spec.instructions, spec.messages)
        self._status = StatusCell()
        self._mailbox: deque[SentTurn] = deque()
        self._wanted = asyncio.Event()
        self._shutting_down = False
        self._turn: Turn | None = None
        # Turns that were interrupted before the session loop came to start them.
        self._unwanted: set[str] = set()

    @property
    def status(self) -> AgentStatus:
        return self._status.value

    @property
    def usage(self) -> Usage:
        """What the model requests have cost since this thread was started or resumed."""
        return self._conversation.usage

    @property
    def turn_id(self) -> str | None:
        """The turn that runs now."""
        return None if self._turn is None else self._turn.id

    @property
    def is_idle(self) -> bool:
        """Whether a turn that is sent now would start at once."""
        return self._turn is None and not self._mailbox

    def watch(self) -> StatusWatch:
        return StatusWatch(self._status)

    def send(
        self,
        text: str,
        *,
        output_schema: dict[str, Any] | None = None,
        interrupt: bool = False,
        turn_id: str | None = None,
    ) -> SentTurn:
        """Put a turn into the mailbox: at its end, or, with `interrupt`, in place of the turn that runs now.

        `turn_id` is for who must know it before the turn starts. Conflict when the thread is ending;
        LimitReached when the mailbox is full.
        """
        if self._shutting_down:
            raise Conflict(f"the thread {self.id} is shutting down", state=AgentState.SHUTDOWN)
        if len(self._mailbox) >= MAILBOX_CAPACITY:
            raise LimitReached(f"the thread {self.id} has {MAILBOX_CAPACITY} turns waiting already")
        sent = SentTurn(turn_id or new_id(), text, output_schema, asyncio.get_running_loop().create_future())
        if interrupt:
            self.interrupt()
            self._mailbox.appendleft(sent)
        else:
            self._mailbox.append(sent)
        self._wanted.set()
        return sent

    def steer(self, text: str, *, turn_id: str | None = None) -> str:
        """Add to the turn that runs now; returns its id. Conflict when none, or not that one, runs."""
        if self._turn is None or (turn_id is not None and turn_id != self._turn.id):
            raise Conflict("no such turn is in progress", state=self.turn_id)
        self._turn.steer(text)
        return self._turn.id

    def interrupt(self) -> bool:
        """Ask the turn that runs now, or is about to start, to end. False when there is none."""
        if self._turn is not None:
            self._turn.interrupt()
        elif self._mailbox:
            self._unwanted.add(self._mailbox[0].turn_id)
        return self._turn is not None or bool(self._mailbox)

    def request_shutdown(self) -> None:
        """Ask the session loop to end. It interrupts its turn and returns; turns not started never start."""
        self._shutting_down = True
        self.interrupt()
        self._wanted.set()

    async def run(self) -> None:
        """The session loop. Returns after `request_shutdown`; a cancellation ends it at once."""
        try:
            while (sent := await self._next()) is not None:
                await self._run_turn(sent)
        finally:
            self.abandon()

    def abandon(self) -> None:
        """The session loop has ended, or never ran a step: no turn that waits will start. May be repeated."""
        self._shutting_down = True
        while self._mailbox:
            _settle(self._mailbox.popleft(), None)
        self._set_status(AgentStatus(AgentState.SHUTDOWN))

    async def _next(self) -> SentTurn | None:
        while not self._shutting_down:
            if self._mailbox:
                return self._mailbox.popleft()
            self._wanted.clear()
            await self._wanted.wait()
        return None

    async def _run_turn(self, sent: SentTurn) -> None:
        record = TurnRecord(self.id, sent.turn_id, bus=self._bus, journal=self._journal, clock=self._clock)
        self._turn = Turn(
            record,
            conversation=self._conversation,
            model=self._spec.model,
            tools=self._spec.tools,
            output_schema=sent.output_schema,
            request_timeout=self._spec.request_timeout,
            saves_early=self._spec.saves_early,
            max_requests=self._max_turn_requests,
            streams=self._spec.streams,
        )
        if sent.turn_id in self._unwanted:
            self._unwanted.discard(sent.turn_id)
            self._turn.interrupt()
        self._set_status(AgentStatus(AgentState.RUNNING))
        ended = None
        try:
            ended = await self._turn.run(sent.text)
        finally:
            self._turn = None
            _settle(sent, ended)
            self._set_status(_status_after(ended))

    def _set_status(self, status: AgentStatus) -> None:
        if self._status.set(status):
            self._bus.publish(
                ThreadStatusChanged(thread_id=self.id, at_ms=self._clock.now_ms(), status=status)
            )


def _settle(sent: SentTurn, ended: TurnEnded | None) -> None:
    if not sent.ended.done():
        sent.ended.set_result(ended)


def _status_after(ended: TurnEnded | None) -> AgentStatus:
    match ended:
        case TurnEnded(status=TurnStatus.COMPLETED, last_message=text):
            return AgentStatus(AgentState.COMPLETED, text)
        case TurnEnded(status=TurnStatus.FAILED, failure=failure) if failure is not None:
            return AgentStatus(AgentState.ERRORED, failure.message)
        case _:
            return AgentStatus(AgentState.INTERRUPTED)
