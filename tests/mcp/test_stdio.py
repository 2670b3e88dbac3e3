"""Lines over real pipes: order, bounds, what is no message. No MCP server stands behind them."""

import asyncio
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from rowcrew.mcp import stdio
from rowcrew.mcp.stdio import Lines


@dataclass(frozen=True)
class Pipes:
    """The client's ends, and ours."""

    says: int
    reads: int
    source: int
    target: int

    def answers(self) -> list[object]:
        """What the client has been told so far."""
        os.close(self.target)
        with os.fdopen(os.dup(self.reads), encoding="utf-8") as file:
            return [json.loads(line) for line in file]


@pytest.fixture
def pipes() -> Iterator[Pipes]:
    source, says = os.pipe()
    reads, target = os.pipe()
    yield Pipes(says, reads, source, target)
    os.close(reads)
    os.close(source)


async def test_lines_come_in_order_and_blank_ones_are_skipped(pipes: Pipes) -> None:
    lines = Lines(pipes.source, pipes.target)
    lines.start()
    messages = [json.dumps({"jsonrpc": "2.0", "method": f"n/{number}"}) for number in range(500)]
    os.write(pipes.says, ("\n\n".join(messages) + "\n \n").encode())
    os.close(pipes.says)
    assert [line.rstrip() async for line in lines] == messages
    assert pipes.answers() == []


async def test_the_last_line_needs_no_line_end(pipes: Pipes) -> None:
    lines = Lines(pipes.source, pipes.target)
    lines.start()
    os.write(pipes.says, b'{"jsonrpc": "2.0", "method": "n"}')
    os.close(pipes.says)
    assert [line async for line in lines] == ['{"jsonrpc": "2.0", "method": "n"}']


async def test_what_is_no_message_is_answered_and_not_passed_on(
    pipes: Pipes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stdio, "MAX_LINE", 100)
    monkeypatch.setattr(stdio, "CHUNK", 64)
    lines = Lines(pipes.source, pipes.target)
    lines.start()
    good = {"jsonrpc": "2.0", "method": "n"}
    said = ["{", "[1]", '{"id": "a", "method": 5}', "x" * 1000, json.dumps(good)]
    os.write(pipes.says, ("\n".join(said) + "\n").encode())
    os.close(pipes.says)
    assert [json.loads(line) async for line in lines] == [good]
    assert pipes.answers() == [
        _error(None, -32700, "this line is not valid JSON"),
        _error(None, -32600, "this line is no JSON-RPC 2.0 message"),
        _error("a", -32600, "this line is no JSON-RPC 2.0 message"),
        _error(None, -32600, "a message may have 100 bytes at most"),
    ]


async def test_text_that_cannot_be_stored_is_replaced(pipes: Pipes) -> None:
    lines = Lines(pipes.source, pipes.target)
    lines.start()
    os.write(pipes.says, b'{"jsonrpc": "2.0", "method": "\\ud800 \\ud83d\\ude00 \xff"}\n')
    os.close(pipes.says)
    assert [json.loads(line)["method"] async for line in lines] == ["\ufffd \U0001f600 \ufffd"]


async def test_the_end_waits_for_the_answer_to_the_last_request(pipes: Pipes) -> None:
    lines = Lines(pipes.source, pipes.target)
    lines.start()
    os.write(pipes.says, b'{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}\n')
    os.close(pipes.says)
    reading = aiter(lines)
    request = json.loads(await anext(reading))
    end = asyncio.ensure_future(anext(reading, None))
    await lines.write(json.dumps({"jsonrpc": "2.0", "method": "notifications/progress"}) + "\n")
    assert not end.done()
    await lines.write(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": {}}) + "\n")
    assert await end is None


async def test_a_client_that_has_gone_stops_nothing(pipes: Pipes) -> None:
    lines = Lines(pipes.source, os.dup(pipes.target))
    os.close(pipes.target)
    gone = os.dup(pipes.reads)
    os.dup2(pipes.source, pipes.reads)
    os.close(gone)
    lines.start()
    await lines.write("{}\n")
    os.close(pipes.says)
    assert [line async for line in lines] == []


def _error(number: str | None, code: int, sentence: str) -> dict[str, object]:
    return {"jsonrpc": "2.0", "id": number, "error": {"code": code, "message": sentence}}
