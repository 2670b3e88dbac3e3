"""Streamed text as turn items: told once, in order, completed with the whole text, after a second try too."""

import asyncio
from typing import Any

import pytest
from pydantic_ai.messages import ModelResponse, TextPart, ThinkingPart

from rowcrew.agent.conversation import Conversation
from rowcrew.agent.journal import NoJournal
from rowcrew.agent.live_text import LiveText
from rowcrew.agent.patience import PatientModel
from rowcrew.agent.record import TurnRecord
from rowcrew.agent.tools import ToolRegistry
from rowcrew.agent.turn import Turn
from rowcrew.bus import Bus
from rowcrew.clock import SystemClock
from rowcrew.domain.attempt import Usage
from rowcrew.domain.events import (
    TurnItemCompleted,
    TurnItemDelta,
    TurnItemKind,
    TurnItemStarted,
    TurnItemStatus,
)
from rowcrew.domain.lifecycle import TurnStatus
from rowcrew.errors import ErrorClass, ModelError
from rowcrew.testing import EventLog

TEXT, THOUGHT = TurnItemKind.AGENT_MESSAGE, TurnItemKind.REASONING
DONE, CUT = TurnItemStatus.COMPLETED, TurnItemStatus.INTERRUPTED
BUSY = ModelError("busy", error_class=ErrorClass.PROVIDER, retry_after=0.0)

Piece = tuple[int, TurnItemKind, str]


class Stage:
    def __init__(self) -> None:
        self.bus = Bus()
        self.log = EventLog(self.bus)
        self.record = TurnRecord("t", "u", bus=self.bus, journal=NoJournal(), clock=SystemClock())
        self.live = LiveText(self.record)

    def hear(self, *pieces: Piece) -> None:
        self.live.begin()
        for piece in pieces:
            self.live.hear(*piece)

    def told(self) -> list[tuple[TurnItemKind, str, TurnItemStatus, str]]:
        """Each item: kind, its pieces, how it ended, its text."""
        pieces: dict[str, list[str]] = {fact.item.id: [] for fact in self.log.of(TurnItemStarted)}
        for fact in self.log.of(TurnItemDelta):
            pieces[fact.item_id].append(fact.text)
        done = [fact.item for fact in self.log.of(TurnItemCompleted)]
        return [(item.kind, "|".join(pieces[item.id]), item.status, item.content["text"]) for item in done]


def test_pieces_are_told_as_they_come_and_the_whole_at_the_end() -> None:
    stage = Stage()
    stage.hear((0, THOUGHT, "hm"), (1, TEXT, "a"), (1, TEXT, "b"))
    assert stage.told() == []
    assert [fact.text for fact in stage.log.of(TurnItemDelta)] == ["hm", "a", "b"]
    stage.live.complete([(THOUGHT, "hm"), (TEXT, "ab")])
    assert stage.told() == [(THOUGHT, "hm", DONE, "hm"), (TEXT, "a|b", DONE, "ab")]


@pytest.mark.parametrize(
    ("again", "told"),
    [
        (["hello ", "world"], "he|llo |world"),
        (["h", "e", "llo"], "he|llo"),
        (["hey"], "he|y"),
        (["no", " more"], "he"),
        (["h"], "he"),
    ],
)
def test_what_a_second_try_says_again_is_told_once(again: list[str], told: str) -> None:
    stage = Stage()
    stage.hear((0, TEXT, "he"))
    stage.hear(*((0, TEXT, piece) for piece in again))
    stage.live.complete([(TEXT, "".join(again))])
    assert stage.told() == [(TEXT, told, DONE, "".join(again))]


def test_texts_that_were_not_heard_are_told_whole_and_what_stays_open_is_cut_off() -> None:
    stage = Stage()
    stage.hear((0, THOUGHT, "hm"))
    stage.live.complete([(TEXT, "all at once")])
    assert stage.told() == [(TEXT, "all at once", DONE, "all at once"), (THOUGHT, "hm", CUT, "hm")]


def test_what_no_utf_8_can_hold_is_mended_in_pieces_too() -> None:
    stage = Stage()
    stage.hear((0, TEXT, "a\ud800"))
    stage.live.give_up()
    assert stage.told() == [(TEXT, "a\ufffd", CUT, "a\ufffd")]


def test_what_is_said_after_the_end_is_not_told() -> None:
    stage = Stage()
    stage.hear((0, TEXT, "a"))
    stage.live.give_up()
    stage.hear((0, TEXT, "ab"), (1, TEXT, "c"))
    assert stage.told() == [(TEXT, "a", CUT, "a")]
    assert len(stage.log.of(TurnItemDelta)) == 1


class Answer:
    usage = Usage(requests=1)

    def __init__(self, *parts: Any) -> None:
        self.response = ModelResponse(list(parts))


class Speaker:
    """A model that says pieces of text, then raises or answers; it waits for `go_on` where it is told to."""

    def __init__(self, *answers: tuple[list[str], Any]) -> None:
        self.answers = list(answers)
        self.listened: list[bool] = []
        self.reached, self.go_on = asyncio.Event(), asyncio.Event()

    async def ask(self, messages: Any, *, listener: Any = None, **_: Any) -> Any:
        pieces, end = self.answers.pop(0)
        self.listened.append(listener is not None)
        if listener is not None:
            listener.begin()
            for piece in pieces:
                listener.hear(0, TEXT, piece)
        if end is None:
            self.reached.set()
            await self.go_on.wait()
            end = Answer(TextPart("".join(pieces)))
        if isinstance(end, Exception):
            raise end
        return end


def turn_of(stage: Stage, model: Any, **more: Any) -> Turn:
    return Turn(stage.record, conversation=Conversation(), model=model, tools=ToolRegistry(), **more)


async def test_a_turn_tells_what_its_model_says_before_it_has_said_all() -> None:
    stage, model = Stage(), Speaker((["one ", "two"], None))
    running = asyncio.create_task(turn_of(stage, model, streams=True).run("go"))
    await model.reached.wait()
    assert [fact.text for fact in stage.log.of(TurnItemDelta)] == ["one ", "two"]
    model.go_on.set()
    assert (await running).last_message == "one two"
    assert stage.told()[1:] == [(TEXT, "one |two", DONE, "one two")]


async def test_an_interrupted_message_is_kept_as_far_as_it_was_told() -> None:
    stage, model = Stage(), Speaker((["one ", "two"], None))
    turn = turn_of(stage, model, streams=True)
    running = asyncio.create_task(turn.run("go"))
    await model.reached.wait()
    turn.interrupt()
    assert (await running).status is TurnStatus.INTERRUPTED
    assert stage.told()[1:] == [(TEXT, "one |two", CUT, "one two")]


async def test_a_stream_that_is_cut_and_asked_again_doubles_nothing() -> None:
    stage = Stage()
    model = Speaker((["one ", "tw"], BUSY), (["one two ", "three"], Answer(TextPart("one two three"))))
    ended = await turn_of(stage, PatientModel(model, SystemClock()), streams=True).run("go")
    assert (ended.status, model.listened) == (TurnStatus.COMPLETED, [True, True])
    assert stage.told()[1:] == [(TEXT, "one |tw|o |three", DONE, "one two three")]


async def test_a_stream_that_fails_for_good_leaves_its_message_cut_off() -> None:
    stage = Stage()
    refused = ModelError("no", error_class=ErrorClass.REFUSED)
    ended = await turn_of(stage, Speaker((["one"], refused)), streams=True).run("go")
    assert (ended.status, ended.last_message) == (TurnStatus.FAILED, None)
    assert stage.told()[1:] == [(TEXT, "one", CUT, "one")]


@pytest.mark.parametrize("streams", [True, False])
async def test_without_anyone_who_follows_or_for_a_worker_nothing_is_streamed(streams: bool) -> None:
    stage = Stage()
    if streams:
        stage.log.close()
    model = Speaker(([], Answer(ThinkingPart("hm"), TextPart("done"))))
    assert (await turn_of(stage, model, streams=streams).run("go")).last_message == "done"
    assert model.listened == [False]
