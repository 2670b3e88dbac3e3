"""What a client hears of a message while its model says it."""

from typing import Any

import pytest

from rowcrew.testing import Cut, Reply

Opened = Any  # the fixture's class lives in conftest.py, which is no module to import from

LONG = "a message that does not fit into one piece of the stream, and goes on for a while"


@pytest.mark.parametrize(
    "script", [[Reply(LONG)], [Cut(Reply(LONG)), Reply(LONG)]], ids=["whole", "cut once"]
)
async def test_a_message_comes_in_pieces_and_each_piece_once(open_desk: Opened, script: list[Any]) -> None:
    async with open_desk(script) as desk:
        client = await desk.client()
        thread_id = (await client.call("thread/start"))["thread"]["id"]
        turn = await client.say(thread_id, "go")
        asked = [received.streaming for received in desk.models.requests]
    assert asked == [True] * len(script)
    pieces = [one["params"] for one in client.told if one.get("method") == "item/agentMessage/delta"]
    message = turn["items"][1]
    assert {piece["itemId"] for piece in pieces} == {message["id"]}
    assert len(pieces) > 2
    assert "".join(piece["delta"] for piece in pieces) == message["text"] == LONG
