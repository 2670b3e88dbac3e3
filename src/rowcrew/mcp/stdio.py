"""Standard input and output as an MCP transport. Only protocol goes to standard output, whoever prints.

The SDK's own reader sits in a thread that nobody can end while the client holds the pipe open, so that a
signal would not stop the server; and it drops what it cannot parse, so that the client would wait for ever.
Here daemon threads read and write, and a line that is no message is answered.
"""

import asyncio
import contextlib
import json
import os
import queue
import re
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

from mcp_types import INVALID_REQUEST, PARSE_ERROR, jsonrpc_message_adapter

CHUNK = 1 << 16
MAX_LINE = 64 << 20
WAITING_LINES = 64
LAST_ANSWERS_SECONDS = 1.0

_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
# Stands in the queue where a line was too long to be kept.
_TOO_LONG = b""


class Lines:
    """The client's messages, one text line each; and the place where answers are written.

    One thread reads and one writes. Both are daemons: they may be left waiting for a client that neither says
    nor reads anything. All else belongs to the event loop.
    """

    def __init__(self, source: int, target: int) -> None:
        self._source = source
        self._target = target
        self._loop = asyncio.get_running_loop()
        self._lines: asyncio.Queue[bytes | None] = asyncio.Queue(WAITING_LINES)
        self._answers: queue.SimpleQueue[tuple[bytes, asyncio.Future[None]]] = queue.SimpleQueue()
        self._unanswered: set[str | int] = set()
        self._answered = asyncio.Event()

    def start(self) -> None:
        """Begin to read, and to write what is given."""
        for work, name in ((self._read, "mcp stdin"), (self._write, "mcp stdout")):
            threading.Thread(target=work, name=name, daemon=True).start()

    async def __aiter__(self) -> AsyncIterator[str]:
        while (line := await self._lines.get()) is not None:
            if line.isspace():
                continue
            text = _readable(line)
            fault = _fault(text)
            if fault is not None:
                await self.write(json.dumps(fault) + "\n")
                continue
            self._note_request(json.loads(text))
            yield text
        await self._wait_for_answers()

    async def write(self, text: str) -> None:
        """Write whole, in order. A client that has gone is told nothing."""
        written = self._loop.create_future()
        self._answers.put((text.encode(), written))
        await written
        message = json.loads(text)
        if "method" not in message:
            self._unanswered.discard(message.get("id"))
            self._answered.set()

    async def flush(self) -> None:
        """Nothing is held back."""

    def _note_request(self, message: dict[str, Any]) -> None:
        if "method" in message and "id" in message:
            self._unanswered.add(message["id"])

    async def _wait_for_answers(self) -> None:
        """The client has said all. What it asked last may be under way; the SDK drops that at the end."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LAST_ANSWERS_SECONDS):
                while self._unanswered:
                    self._answered.clear()
                    await self._answered.wait()

    def _write(self) -> None:
        with contextlib.suppress(RuntimeError):
            while True:
                data, written = self._answers.get()
                _write_all(self._target, data)
                self._loop.call_soon_threadsafe(_settle, written)

    def _read(self) -> None:
        held, skipping = bytearray(), False
        with contextlib.suppress(RuntimeError, OSError):
            while chunk := os.read(self._source, CHUNK):
                *whole, rest = chunk.split(b"\n")
                for part in whole:
                    held += part
                    self._put(_TOO_LONG if skipping else bytes(held) or b"\n")
                    held.clear()
                    skipping = False
                held += rest
                if len(held) > MAX_LINE:
                    held.clear()
                    skipping = True
            if held:
                self._put(bytes(held))
        with contextlib.suppress(RuntimeError):
            self._put(None)

    def _put(self, line: bytes | None) -> None:
        """Hand over, waiting while the server is behind. Raises RuntimeError when the loop is closed."""
        putting = self._lines.put(line)
        try:
            asyncio.run_coroutine_threadsafe(putting, self._loop).result()
        except RuntimeError:
            putting.close()
            raise


def _readable(line: bytes) -> str:
    """As text that can be stored: what is no UTF-8, and lone surrogates, become U+FFFD."""
    text = line.decode("utf-8", "replace")
    if _SURROGATE.search(line) is None:
        return text
    try:
        decoded = json.dumps(json.loads(text), ensure_ascii=False)
    except (ValueError, RecursionError):
        return text
    return decoded.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _fault(text: str) -> dict[str, Any] | None:
    """The error that answers a line which is no message; None for a message."""
    if not text:
        return _error(None, INVALID_REQUEST, f"a message may have {MAX_LINE} bytes at most")
    try:
        jsonrpc_message_adapter.validate_json(text, by_name=False)
    except ValueError:
        pass
    else:
        return None
    try:
        message = json.loads(text)
    except (ValueError, RecursionError):
        return _error(None, PARSE_ERROR, "this line is not valid JSON")
    known = message.get("id") if isinstance(message, dict) else None
    number = known if isinstance(known, str | int) and not isinstance(known, bool) else None
    return _error(number, INVALID_REQUEST, "this line is no JSON-RPC 2.0 message")


def _error(number: str | int | None, code: int, sentence: str) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "error": {"code": code, "message": sentence}}


def _write_all(target: int, data: bytes) -> None:
    view = memoryview(data)
    with contextlib.suppress(OSError):
        while view:
            view = view[os.write(target, view) :]


def _settle(written: asyncio.Future[None]) -> None:
    if not written.done():
        written.set_result(None)


@contextlib.contextmanager
def claimed_streams() -> Iterator[tuple[int, int]]:
    """Descriptors of the real standard input and output, for the protocol alone.

    Meanwhile 0 reads nothing and 1 is standard error, for this process and those it starts.
    """
    sys.stdout.flush()
    source, target = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    try:
        os.dup2(nothing, 0)
        os.dup2(2, 1)
        yield source, target
    finally:
        # `source` stays open: the reading thread may still wait on it, and its number must not be another's.
        sys.stdout.flush()
        os.dup2(target, 1)
        os.dup2(source, 0)
        os.close(nothing)
