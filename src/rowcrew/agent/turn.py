"""One turn: ask the model, act on its answer, until nothing is left to act on. It knows no thread and no job.

Each step comes to one of four outcomes: Again, Finished, Interrupted, Failed. The last three end the turn,
with exactly one terminal fact, after all facts of its items, on every path.
"""

from collections import deque
from dataclasses import dataclass
from typing import Any

from rowcrew.agent.conversation import Conversation, Model, define, take_apart
from rowcrew.agent.interruption import Interruption, TurnInterrupted
from rowcrew.agent.live_text import LiveText
from rowcrew.agent.record import TurnRecord, failure_of
from rowcrew.agent.tools import BrokenTool, ToolCall, ToolRegistry, ToolResult
from rowcrew.domain.events import TurnEnded, TurnFailure, TurnItemKind, TurnItemStatus
from rowcrew.domain.lifecycle import TurnStatus
from rowcrew.errors import ErrorClass

SHORTEST_SHOWN_SECONDS = 0.1
# Far beyond what work needs, and soon enough for a model that goes round in circles.
MAX_TURN_REQUESTS = 500
CUT = "the model's answer was cut off at its token limit"
WITHHELD = "the provider withheld the model's answer (content filter)"
NOT_RUN = "not run: the turn ended before"


@dataclass(frozen=True, slots=True)
class Again:
    """The model has something new to answer to."""


@dataclass(frozen=True, slots=True)
class Finished:
    """The model has said its last word, or a tool ended the turn."""


@dataclass(frozen=True, slots=True)
class Interrupted:
    """Someone asked for the turn to end."""


@dataclass(frozen=True, slots=True)
class Failed:
    """The model, a tool or the history broke."""

    failure: TurnFailure


Outcome = Again | Finished | Interrupted | Failed


@dataclass(slots=True)
class RunningCall:
    """One call on its way. Without a result but started, it is one that heeded no cancellation."""

    call: ToolCall
    item_id: str = ""
    started: float | None = None
    result: ToolResult | None = None


class Turn:
    """One run of ask → act. `run` is called once; `steer` and `interrupt` at any time, from the same loop."""

    def __init__(
        self,
        record: TurnRecord,
        *,
        conversation: Conversation,
        model: Model,
        tools: ToolRegistry,
        output_schema: dict[str, Any] | None = None,
        request_timeout: float | None = None,
        saves_early: bool = True,
        max_requests: int = MAX_TURN_REQUESTS,
        streams: bool = False,
    ) -> None:
        self.id = record.turn_id
        self._record = record
        self._conversation = conversation
        self._model = model
        self._tools = tools
        self._definitions = [define(tool) for tool in tools]
        self._output_schema = output_schema
        self._request_timeout = request_timeout
        self._saves_early = saves_early
        self._max_requests = max_requests
        self._streams = streams
        self._steering: deque[str] = deque()
        self._interruption = Interruption()

    def steer(self, text: str) -> None:
        """Say something more before the model is asked next. Said too late, it stands for the next turn."""
        self._steering.append(text)

    def interrupt(self) -> None:
        """Ask for the end. `run` returns after the running request or tools have ended, within a bound."""
        self._interruption.request()

    async def run(self, text: str) -> TurnEnded:
        """The whole turn. Raises nothing but CancelledError, and that only after the terminal fact."""
        self._record.start()
        outcome: Outcome = Interrupted()
        try:
            self._hear(text)
            # What the user said is kept before anything is done about it.
            await self._save_early()
            outcome = await self._steps()
        except Exception as error:
            outcome = Failed(failure_of(error))
        finally:
            self._hear_steering()
            ended = await self._end(outcome)
        return ended

    async def _steps(self) -> Outcome:
        for _ in range(self._max_requests):
            outcome = await self._step()
            if not isinstance(outcome, Again):
                return outcome
            await self._record.save()
        return Failed(
            TurnFailure(
                f"the model was asked {self._max_requests} times in one turn and came to no end"
                " (agents.max_turn_requests)",
                ErrorClass.NO_REPORT,
            )
        )

    async def _save_early(self) -> None:
        if self._saves_early:
            await self._record.save()

    async def _step(self) -> Outcome:
        self._hear_steering()
        try:
            calls, failure = await self._ask()
        except TurnInterrupted:
            return Interrupted()
        if failure is not None:
            return Failed(failure)
        if calls:
            # A call may take hours, and what it does may outlive this process.
            await self._save_early()
            return await self._act(calls)
        return Again() if self._steering else Finished()

    def _hear(self, text: str) -> None:
        self._record.remember(self._conversation.add_user_text(text))
        self._record.add_text(TurnItemKind.USER_MESSAGE, text)

    def _hear_steering(self) -> None:
        while self._steering:
            self._hear(self._steering.popleft())

    async def _ask(self) -> tuple[list[ToolCall], TurnFailure | None]:
        """One model request. Returns the calls that the answer asks for, and why it is no whole answer."""
        live = LiveText(self._record) if self._streams and self._record.is_followed() else None
        try:
            [asked] = await self._interruption.during(
                self._model.ask(
                    list(self._conversation.messages),
                    tools=self._definitions,
                    output_schema=self._output_schema,
                    timeout=self._request_timeout,
                    listener=live,
                )
            )
            if asked.cancelled():
                raise RuntimeError("the model request was cancelled by something other than this turn")
            answer = asked.result()
        except BaseException:
            if live is not None:
                live.give_up()
            raise
        self._record.remember(self._conversation.add_answer(answer))
        said = take_apart(answer.response, thread_id=self._record.thread_id)
        (live or LiveText(self._record)).complete(said.texts)
        self._record.add_usage(answer.usage, self._conversation.usage)
        # Calls of an answer that was cut off are answered: the model can make the broken one again.
        return said.calls, None if said.calls else _cut_off(answer.response.finish_reason)

    async def _act(self, calls: list[ToolCall]) -> Outcome:
        """Run the calls, and answer each of them whatever happens."""
        running = [RunningCall(call) for call in calls]
        try:
            return await self._run_calls(calls, running)
        finally:
            answers = [self._answer_to(one) for one in running]
            self._record.remember(self._conversation.add_results(answers))
            for one, (_, output) in zip(running, answers, strict=True):
                # Only what heeded no cancellation is still open.
                self._record.close_item(one.item_id, TurnItemStatus.INTERRUPTED, {"output": output})

    async def _run_calls(self, calls: list[ToolCall], running: list[RunningCall]) -> Outcome:
        for positions in self._tools.groups(calls):
            group = [running[position] for position in positions]
            try:
                tasks = await self._interruption.during(*(self._run_call(one) for one in group))
            except TurnInterrupted:
                return Interrupted()
            errors = [error for task in tasks if not task.cancelled() and (error := task.exception())]
            if errors:
                return Failed(failure_of(errors[0]))
            # What the model called after the call that ended the turn is not wanted any more.
            if any(one.result is not None and one.result.ends_turn for one in group):
                return Finished()
        return Again()

    async def _run_call(self, one: RunningCall) -> None:
        """Run one call as a turn item. A cancelled one is answered; a broken one is answered and raised."""
        call = one.call
        tool = self._tools.find(call.name)
        kind = TurnItemKind.TOOL_CALL if tool is None else tool.item_kind
        one.item_id = self._record.open_item(kind, {"tool": call.name, "arguments": call.shown_arguments()})
        one.started = self._record.clock.monotonic()
        status = TurnItemStatus.INTERRUPTED
        try:
            one.result = await self._tools.run(call)
            status = TurnItemStatus.COMPLETED if one.result.ok else TurnItemStatus.FAILED
        except BrokenTool as error:
            one.result = ToolResult(str(error), ok=False)
            status = TurnItemStatus.FAILED
            raise
        finally:
            _, output = self._answer_to(one)
            details = one.result.details if one.result is not None else {}
            self._record.close_item(one.item_id, status, {"output": output, **details})

    def _answer_to(self, one: RunningCall) -> tuple[ToolCall, str]:
        if one.started is None:
            return one.call, NOT_RUN
        if one.result is None:
            one.result = ToolResult(interrupted_text(self._record.clock.monotonic() - one.started), ok=False)
        return one.call, one.result.output

    async def _end(self, outcome: Outcome) -> TurnEnded:
        match outcome:
            case Failed(failure):
                return await self._record.end(TurnStatus.FAILED, failure)
            case Interrupted():
                return await self._record.end(TurnStatus.INTERRUPTED)
            case _:
                return await self._record.end(TurnStatus.COMPLETED)


def _cut_off(finish_reason: str | None) -> TurnFailure | None:
    match finish_reason:
        case "length":
            return TurnFailure(CUT, ErrorClass.NO_REPORT)
        case "content_filter":
            return TurnFailure(WITHHELD, ErrorClass.REFUSED)
    return None


def interrupted_text(seconds: float) -> str:
    """What the model is told about a call that was cancelled."""
    return f"tool execution interrupted after {max(seconds, SHORTEST_SHOWN_SECONDS):.1f}s"
