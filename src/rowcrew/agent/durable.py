"""The journal that is kept in the history file, and what a thread needs from there to go on after a restart.

Discipline: `note` and `remember` are called on the event loop and only fill a thread's buffer; `flush` hands
the buffer to the writer as one write. Turns of one thread never overlap, so that its writes come in order.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from pydantic_ai.messages import (
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelRequestPart,
    ModelResponse,
    RetryPromptPart,
    ToolCallPart,
    ToolReturnPart,
)

from rowcrew.agent.turn import interrupted_text
from rowcrew.domain.events import (
    Fact,
    TurnEnded,
    TurnFact,
    TurnItemCompleted,
    TurnItemStarted,
    TurnStarted,
)
from rowcrew.errors import Conflict
from rowcrew.processes import ProcessIdentity, identify
from rowcrew.store.cells import plain_json
from rowcrew.store.database import Connection, Database, NotTogether
from rowcrew.store.history import HistoryStore, WholeTurn


@dataclass(slots=True)
class _Buffer:
    """What of one thread has not been written yet: facts in order, and messages by their turn."""

    facts: list[Fact] = field(default_factory=list)
    messages: dict[str, list[ModelMessage]] = field(default_factory=dict)

    def note(self, fact: Fact) -> None:
        """An item that ends before its start was written is written once."""
        if isinstance(fact, TurnItemCompleted):
            for place in range(len(self.facts) - 1, -1, -1):
                noted = self.facts[place]
                if isinstance(noted, TurnItemStarted) and noted.item.id == fact.item.id:
                    self.facts[place] = fact
                    return
        self.facts.append(fact)

    def remember(self, turn_id: str, message: ModelMessage) -> None:
        self.messages.setdefault(turn_id, []).append(message)

    def whole_turn(self) -> WholeTurn | None:
        """The turn, where it is one from its start to its end with nothing open, and all there is."""
        match self.facts:
            case [TurnStarted() as started, *between, TurnEnded() as ended]:
                items = [fact.item for fact in between if isinstance(fact, TurnItemCompleted)]
                if len(items) == len(between) and self.messages.keys() <= {started.turn_id}:
                    messages = self.messages.get(started.turn_id)
                    return WholeTurn(started, items, ended, dump_messages(messages) if messages else None)
        return None

    def before(self, later: "_Buffer | None") -> "_Buffer":
        """This one, which could not be written, and what came since."""
        if later is not None:
            for fact in later.facts:
                self.note(fact)
            for turn_id, messages in later.messages.items():
                self.messages.setdefault(turn_id, []).extend(messages)
        return self


class DurableJournal:
    """Implements Journal on the history file."""

    def __init__(self, history: Database, *, owner: ProcessIdentity | None = None) -> None:
        self._history = history
        self._owner = owner or identify()
        self._buffers: dict[str, _Buffer] = {}

    def note(self, fact: Fact) -> None:
        # The history keeps turns; what is true of a thread is the state file's.
        if isinstance(fact, TurnFact):
            self._buffer(fact.thread_id).note(fact)

    def remember(self, thread_id: str, turn_id: str, message: ModelMessage) -> None:
        self._buffer(thread_id).remember(turn_id, message)

    def _buffer(self, thread_id: str) -> _Buffer:
        return self._buffers.setdefault(thread_id, _Buffer())

    async def flush(self, thread_id: str) -> None:
        """One durable write. What could not be written stays in the buffer for the next flush."""
        buffer = self._buffers.pop(thread_id, None)
        if buffer is None:
            return
        try:
            await self._history.write_with_others(self._keep_all, (thread_id, buffer))
        except Exception:
            self._buffers[thread_id] = buffer.before(self._buffers.get(thread_id))
            raise

    def _keep_all(self, connection: Connection, buffers: Sequence[tuple[str, _Buffer]]) -> Sequence[None]:
        """Most workers' turns are one step: fewer statements, and the same rows."""
        history = HistoryStore(connection)
        whole = [turn for _, buffer in buffers if (turn := buffer.whole_turn()) is not None]
        if len(whole) == len(buffers):
            if not history.keep_turns(whole):
                raise _elsewhere(whole[0].started)
        elif len(buffers) > 1:
            raise NotTogether
        else:
            self._keep(history, *buffers[0])
        return [None] * len(buffers)

    def _keep(self, history: HistoryStore, thread_id: str, buffer: _Buffer) -> None:
        for fact in buffer.facts:
            if not history.note(fact, owner=self._owner) and isinstance(fact, TurnStarted):
                raise _elsewhere(fact)
        for turn_id, messages in buffer.messages.items():
            history.append_messages(thread_id, turn_id, dump_messages(messages))


def _elsewhere(started: TurnStarted) -> Conflict:
    return Conflict(f"the thread {started.thread_id} has a turn in progress elsewhere", state=started.turn_id)


def dump_messages(messages: list[ModelMessage]) -> str:
    """Model messages as a JSON array."""
    try:
        return ModelMessagesTypeAdapter.dump_json(messages).decode("utf-8")
    except ValueError:
        # A lone surrogate, which a model can say and UTF-8 cannot hold.
        return plain_json(ModelMessagesTypeAdapter.dump_python(messages, mode="json"))


async def load_messages(history: Database, thread_id: str) -> list[ModelMessage]:
    """What was said in a thread so far, fit to be gone on with."""
    arrays = await history.read(lambda connection: HistoryStore(connection).list_messages(thread_id))
    return mend(message for text in arrays for message in ModelMessagesTypeAdapter.validate_json(text))


def mend(messages: Iterable[ModelMessage]) -> list[ModelMessage]:
    """The messages with an answer to each tool call: where a crash cut a turn off, it was interrupted."""
    mended: list[ModelMessage] = []
    open_calls: dict[str, ToolCallPart] = {}
    for message in messages:
        if isinstance(message, ModelRequest):
            answered = {
                part.tool_call_id
                for part in message.parts
                if isinstance(part, ToolReturnPart | RetryPromptPart)
            }
            left = [call for call_id, call in open_calls.items() if call_id not in answered]
        else:
            left = list(open_calls.values())
        if left:
            mended.append(_interrupted(left))
        mended.append(message)
        open_calls = {}
        if isinstance(message, ModelResponse):
            open_calls = {part.tool_call_id: part for part in message.parts if isinstance(part, ToolCallPart)}
    if open_calls:
        mended.append(_interrupted(list(open_calls.values())))
    return mended


def _interrupted(calls: Sequence[ToolCallPart]) -> ModelRequest:
    parts: list[ModelRequestPart] = [
        ToolReturnPart(call.tool_name, interrupted_text(0), tool_call_id=call.tool_call_id) for call in calls
    ]
    return ModelRequest(parts)
