"""One client: its requests in, answers and notifications out. It knows no method; they are given to it.

Discipline: one event loop. The reading task starts a task for each request and owns it; requests that name
the same thread are carried out in the order in which they came, others side by side. A connection that is
full refuses further requests at once, and one whose client does not read is not read from.
"""

import asyncio
import json
import logging
import math
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn, Protocol
from weakref import WeakValueDictionary

from pydantic import BaseModel, ValidationError

from rowcrew.appserver import errors
from rowcrew.appserver.errors import RpcError, overloaded, rpc_error_of
from rowcrew.appserver.framing import MAX_MESSAGE_BYTES, TooLong
from rowcrew.appserver.outbox import Outbox
from rowcrew.domain.json_text import clean, is_deeper_than
from rowcrew.errors import RowcrewError

log = logging.getLogger(__name__)

MAX_REQUESTS = 64
# Creating a job reads its table, cancelling one waits for its workers; nothing takes longer than this.
REQUEST_SECONDS = 120.0
# What requests under way get when the client has said its last word.
LAST_REQUESTS_SECONDS = 20.0

# Messages of clients have a handful of levels; a schema in one has a few more.
MAX_DEPTH = 128

_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")

RequestId = str | int


class Transport(Protocol):
    """How frames get to a client and back."""

    async def receive(self) -> bytes | TooLong | None:
        """The next message; None when there will be no more."""
        ...

    async def send(self, frames: Sequence[bytes]) -> None:
        """Returns when the client can take more. ConnectionError when it has gone."""
        ...


@dataclass(slots=True)
class Peer:
    """What is known of a client."""

    initialized: bool = False
    client_name: str = ""
    opted_out: frozenset[str] = frozenset()
    # The threads whose turns it wants to hear of.
    threads: set[str] = field(default_factory=set)


class Connection:
    """Reads and answers until the client has gone or `stop` is called."""

    def __init__(self, transport: Transport, methods: "Methods") -> None:
        self.peer = Peer()
        self.outbox = Outbox()
        self._transport = transport
        self._methods = methods
        self._requests: set[asyncio.Task[None]] = set()
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._stopping = asyncio.Event()

    def stop(self) -> None:
        """Read nothing more. Requests under way are still answered."""
        self._stopping.set()

    async def serve(self) -> None:
        """Returns when no more requests come and all have been answered, or the client has gone."""
        reading = asyncio.create_task(self._read())
        stopping = asyncio.create_task(self._stopping.wait())
        try:
            await asyncio.wait({reading, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if reading.done():
                reading.result()
            if self._requests:
                await asyncio.wait(self._requests, timeout=LAST_REQUESTS_SECONDS)
        finally:
            await _end(reading, stopping, *self._requests)

    async def write(self) -> None:
        """Send what is in the outbox until it is closed and empty, or the client has gone."""
        try:
            while frames := await self.outbox.take():
                await self._transport.send(frames)
        except OSError:
            log.info("the client has gone")
        finally:
            self.outbox.close(drop=True)
            self.stop()

    def notify(self, method: str, params: BaseModel) -> None:
        """Put a notification into the outbox, unless the client does not want it."""
        if self.peer.initialized and method not in self.peer.opted_out:
            self._put({"method": method, "params": params.model_dump(mode="json", by_alias=True)})

    # -- requests ---------------------------------------------------------------------------------------

    async def _read(self) -> None:
        while (message := await self._transport.receive()) is not None:
            await self.outbox.room()
            try:
                await self._take(message)
            except RpcError as error:
                self._answer_error(None, error)
            # Lets quick requests end, so that many of them in one chunk are no flood.
            await asyncio.sleep(0)

    async def _take(self, message: bytes | TooLong) -> None:
        text = _decode(message)
        parsed = _parse(text)
        method, request_id = parsed.get("method"), parsed.get("id")
        if request_id is not None and not _is_id(request_id):
            raise RpcError(errors.INVALID_REQUEST, "`id` must be a string or a whole number")
        if method is None and ("result" in parsed or "error" in parsed):
            return  # an answer; nothing is ever asked of a client
        if not isinstance(method, str):
            self._answer_error(
                request_id, RpcError(errors.INVALID_REQUEST, "`method` is missing or no string")
            )
        elif is_deeper_than(MAX_DEPTH, text):
            refusal = f"a message may be nested at most {MAX_DEPTH} levels deep"
            self._answer_error(request_id, RpcError(errors.INVALID_REQUEST, refusal))
        elif request_id is None:
            return  # a notification: `initialized` is the only one there is, and says nothing new
        elif method == "initialize":
            await self._answer(request_id, method, parsed.get("params"))
        elif len(self._requests) >= MAX_REQUESTS:
            refusal = f"{MAX_REQUESTS} requests of this connection are under way; try again later"
            self._answer_error(request_id, overloaded(refusal))
        else:
            task = asyncio.create_task(self._answer(request_id, method, parsed.get("params")))
            self._requests.add(task)
            task.add_done_callback(self._requests.discard)

    async def _answer(self, request_id: RequestId, method: str, params: Any) -> None:
        try:
            result = await self._carry_out(method, params)
            self._put({"id": request_id, "result": result.model_dump(mode="json", by_alias=True)})
        except RpcError as error:
            self._answer_error(request_id, error)
        except RowcrewError as error:
            self._answer_error(request_id, rpc_error_of(error))
        except Exception as error:
            # The last line before the client, who must get an answer; the details are in the log.
            log.exception("%s broke", method)
            said = f"something in rowcrew itself broke ({type(error).__name__}: {error})"
            self._answer_error(request_id, RpcError(errors.INTERNAL, said))

    async def _carry_out(self, method: str, params: Any) -> BaseModel:
        known = self._methods.find(method)
        if known is None:
            raise RpcError(errors.UNKNOWN_METHOD, f"there is no method `{method}`")
        if method != "initialize" and not self.peer.initialized:
            raise RpcError(errors.INVALID_REQUEST, "Not initialized")
        if params is not None and not isinstance(params, dict):
            raise RpcError(errors.INVALID_PARAMS, "`params` must be an object")
        try:
            checked = known.params.model_validate(params or {})
        except ValidationError as error:
            raise RpcError(errors.INVALID_PARAMS, _sentence(method, error)) from None
        try:
            async with asyncio.timeout(REQUEST_SECONDS) as limit:
                async with self._turn_of(getattr(checked, "thread_id", None)):
                    return await known.run(self, checked)
        except TimeoutError:
            if not limit.expired():
                raise
            said = f"{method} took longer than {REQUEST_SECONDS:g} s and was given up"
            raise RpcError(errors.INTERNAL, said) from None

    def _turn_of(self, thread_id: str | None) -> asyncio.Lock:
        if thread_id is None:
            return asyncio.Lock()
        return self._locks.setdefault(thread_id, asyncio.Lock())

    def _answer_error(self, request_id: RequestId | None, error: RpcError) -> None:
        self._put({"id": request_id, "error": error.shape})

    def _put(self, message: dict[str, Any]) -> None:
        # ASCII only: what is no UTF-8 (a lone surrogate) then is an escape and no error.
        self.outbox.put(json.dumps(message, separators=(",", ":")).encode("ascii"))


Run = Callable[[Connection, Any], Awaitable[BaseModel]]


@dataclass(frozen=True, slots=True)
class Method:
    """A method: what it takes, what it answers, what it does."""

    params: type[BaseModel]
    result: type[BaseModel]
    run: Run


class Methods(Protocol):
    """A table of methods."""

    def find(self, name: str) -> Method | None: ...


def _decode(message: bytes | TooLong) -> str:
    if isinstance(message, TooLong):
        raise RpcError(errors.INVALID_REQUEST, f"a message may have at most {MAX_MESSAGE_BYTES} bytes")
    try:
        return message.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _not_json(error) from None


def _parse(text: str) -> dict[str, Any]:
    try:
        parsed = json.loads(text, parse_constant=_refuse_number, parse_float=_finite)
        # Half a character, which no file can hold, can only come as an escape.
        parsed = clean(parsed) if _SURROGATE.search(text) else parsed
    except (ValueError, RecursionError) as error:
        raise _not_json(error) from None
    if not isinstance(parsed, dict):
        raise RpcError(errors.INVALID_REQUEST, "a message must be one JSON object")
    return parsed


def _not_json(error: Exception) -> RpcError:
    return RpcError(errors.INVALID_REQUEST, f"the message is not valid JSON: {error}")


def _finite(text: str) -> float:
    number = float(text)
    return number if math.isfinite(number) else _refuse_number(text)


def _refuse_number(text: str) -> NoReturn:
    raise ValueError(f"{text[:40]} is no number of JSON")


def _is_id(value: object) -> bool:
    return isinstance(value, str | int) and not isinstance(value, bool)


def _sentence(method: str, error: ValidationError) -> str:
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    path = ".".join(str(part) for part in first["loc"])
    return f"wrong parameters for {method}: {first['msg']}" + (f" (at `{path}`)" if path else "")


async def _end(*tasks: asyncio.Task[Any]) -> None:
    """Cancel and await: nothing of a connection goes on without it."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
