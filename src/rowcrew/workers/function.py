"""Function workers: a Python function of the user's, called once per attempt. It starts no process.

A function takes the row (a dict), or the row and a context (`FunctionContext`); it is `def`, and then runs
in a thread, or `async def`. What it returns is the report: a dict, or an object with pydantic's `model_dump`.
None is no report. An exception is `crashed` with its type and text; a `rowcrew.errors.ModelError` keeps its
own class, so a function that asks a model itself can say "rate limited, 2 seconds".

A thread cannot be killed. A `def` function that has run out of time is left behind: the row goes on without
it, what it returns later is dropped, and it does not keep the program from ending. An `async def` function is
cancelled; one that takes no cancellation is broken off where it waits.
"""

import asyncio
import contextlib
import importlib
import inspect
import json
import sys
import threading
from collections.abc import Awaitable, Callable, Generator
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from rowcrew.errors import ErrorClass, InvalidRequest, ModelError
from rowcrew.processes import ProcessIdentity
from rowcrew.workers.contract import Ended, Worker, WorkerKind, WorkOrder

_MESSAGE_LIMIT = 2_000
_RAW_LIMIT = 64 << 10
_BREAK_OFF_SECONDS = 1.0
_HINT = "name it as `python:MODULE:FUNCTION`, with the module's file in the folder of the job"

# Which folder a module was loaded from by this file: two jobs' `worker.py` must not be taken for one.
_loaded_from: dict[str, Path] = {}


class FunctionContext:
    """What a function may know beyond its row."""

    __slots__ = ("_stopped", "attempt", "instruction", "item_id", "job_id", "output_schema")

    def __init__(self, order: WorkOrder) -> None:
        self.job_id = order.job_id
        self.item_id = order.item_id
        self.attempt = order.attempt
        self.instruction = order.instruction
        self.output_schema = order.output_schema
        self._stopped = False

    def stop(self) -> None:
        """The whole job shall end with this function's report. Without a report it has no effect."""
        self._stopped = True

    @property
    def stopped(self) -> bool:
        return self._stopped


def open_function(target: str, folder: Path) -> WorkerKind:
    """The kind of worker that calls `module:function`. Imports the module, with `folder` first on the path.

    Raises InvalidRequest when there is no such function or it cannot be called with a row.
    """
    module_name, _, path = target.partition(":")
    if not all(part.isidentifier() for part in (*module_name.split("."), *path.split("."))):
        raise InvalidRequest(f"{target!r} does not name a Python function", hint=_HINT)
    found: Any = _import(module_name, folder.absolute())
    for name in path.split("."):
        try:
            found = getattr(found, name)
        except AttributeError:
            message = f"the Python module {module_name} has no function {path!r}"
            raise InvalidRequest(message, hint=_nearest(found, name)) from None
    if not callable(found):
        raise InvalidRequest(f"{target} is not a function but {type(found).__name__}", hint=_HINT)
    if inspect.isgeneratorfunction(found) or inspect.isasyncgenfunction(found):
        raise InvalidRequest(f"{target} yields, and a report is one object", hint="let it `return` a dict")
    return FunctionKind(found, takes_context=_takes_context(found, target))


def _import(name: str, folder: Path) -> Any:
    if sys.path[:1] != [str(folder)]:
        sys.path.insert(0, str(folder))
    top = name.partition(".")[0]
    if _loaded_from.setdefault(top, folder) != folder:
        # Its functions keep their own globals, so a job that still runs them is not disturbed.
        for loaded in [key for key in sys.modules if key == top or key.startswith(f"{top}.")]:
            del sys.modules[loaded]
        _loaded_from[top] = folder
    importlib.invalidate_caches()
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        missing = error.name or ""
        if name == missing or name.startswith(f"{missing}."):
            message = f"there is no Python module {name!r} in {folder} or among the installed ones"
            hint = f"leave out `.py`: `python:{top}:FUNCTION`" if name == f"{top}.py" else _HINT
            raise InvalidRequest(message, hint=hint) from None
        raise InvalidRequest(f"the Python module {name} cannot be imported: {_say(error)}") from error
    except (Exception, SystemExit) as error:
        raise InvalidRequest(f"the Python module {name} cannot be imported: {_say(error)}") from error


def _nearest(found: Any, name: str) -> str:
    names = [key for key, value in vars(found).items() if not key.startswith("_") and callable(value)]
    return f"it has: {', '.join(sorted(names)[:10])}" if names else _HINT


def _takes_context(function: Callable[..., Any], target: str) -> bool:
    """Whether to call it with two arguments: a second one that it needs, or one that is named `context`."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return False  # written in C without a signature
    positional = [one for one in parameters if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
    needed = [one for one in positional if one.default is one.empty]
    needs_keyword = any(one.kind is one.KEYWORD_ONLY and one.default is one.empty for one in parameters)
    takes_any = any(one.kind is one.VAR_POSITIONAL for one in parameters)
    if len(needed) > 2 or needs_keyword or not (positional or takes_any):
        message = f"{target} cannot be called with a row"
        raise InvalidRequest(message, hint="let it take (row), or (row, context)")
    return len(needed) == 2 or (len(positional) > 1 and positional[1].name == "context")


class FunctionKind:
    """Calls one function for every order."""

    def __init__(self, function: Callable[..., Any], *, takes_context: bool) -> None:
        self._function = function
        self._takes_context = takes_context
        call = getattr(function, "__call__", None)  # noqa: B004 - an object whose __call__ is async
        self._is_async = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call)
        self._threads = _Threads()

    @property
    def max_concurrency(self) -> int | None:
        return None

    @property
    def starts_at_once(self) -> bool:
        return True

    async def start(self, order: WorkOrder) -> Worker:
        return FunctionWorker(self, order)

    async def close(self) -> None:
        """Threads that wait for work end; one that still runs a function ends with it."""
        self._threads.close()

    def call(self, row: dict[str, str], context: FunctionContext) -> "_Call":
        """The call, running."""
        arguments = (row, context) if self._takes_context else (row,)
        if self._is_async:
            return _AsyncCall(lambda: self._function(*arguments))
        return _Call(self._threads.run(self._function, arguments))


class _Raised:
    """An exception as a value: SystemExit and KeyboardInterrupt of a row must not end the event loop."""

    __slots__ = ("error",)

    def __init__(self, error: BaseException) -> None:
        self.error = error


class _Call:
    """A call in a thread. It cannot be ended, only no longer be waited for."""

    def __init__(self, outcome: asyncio.Future[Any]) -> None:
        self.outcome = outcome

    async def end(self, grace: float) -> None:
        await asyncio.wait((self.outcome,), timeout=grace)
        self.outcome.cancel()


class _AsyncCall(_Call):
    """A call on the event loop. It is cancelled and may undo; after the grace it is broken off.

    Else one that takes no cancellation would keep the event loop, and with it the program, from ending.
    """

    def __init__(self, make: Callable[[], Awaitable[Any]]) -> None:
        self._make = make
        self._breaks_off = False
        super().__init__(asyncio.ensure_future(self._run()))

    async def end(self, grace: float) -> None:
        self.outcome.cancel()
        await asyncio.wait((self.outcome,), timeout=grace)
        if not self.outcome.done():
            self._breaks_off = True
            self.outcome.cancel()
            await asyncio.wait((self.outcome,), timeout=_BREAK_OFF_SECONDS)

    async def _run(self) -> Any:
        try:
            return await self
        except asyncio.CancelledError as error:
            if _is_cancelled_itself():
                raise
            return _Raised(error)
        except BaseException as error:
            return _Raised(error)

    def __await__(self) -> Generator[Any, Any, Any]:
        """Step by step, so that the function can be left between two steps."""
        steps = self._make().__await__()
        error: BaseException | None = None
        while True:
            try:
                # What it waits for is the event loop's to know, and so is what comes of it.
                waited_for = next(steps) if error is None else steps.throw(error)
            except StopIteration as ended:
                return ended.value
            error = None
            try:
                yield waited_for
            except BaseException as thrown:
                if self._breaks_off:
                    with contextlib.suppress(BaseException):
                        steps.close()  # its `finally` runs; if that waits, it is dropped
                    raise
                error = thrown


def _is_cancelled_itself() -> bool:
    """Whether the running task was asked to end; else the error came out of what it waited for."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


class FunctionWorker:
    """One call for one job item."""

    __slots__ = ("_call", "_ending", "_kind", "_order")

    def __init__(self, kind: FunctionKind, order: WorkOrder) -> None:
        self._kind = kind
        self._order = order
        self._call: _Call | None = None
        self._ending = False

    @property
    def process(self) -> ProcessIdentity | None:
        return None

    async def work(self) -> Ended:
        if self._ending:
            return Ended()
        context = FunctionContext(self._order)
        try:
            result = await self._wait(self._kind.call(dict(self._order.row), context))
            if inspect.isawaitable(result):
                # A `def` that hands out a coroutine: a decorated or partial `async def`.
                made = result
                result = await self._wait(_AsyncCall(lambda: made))
        except asyncio.CancelledError:
            if _is_cancelled_itself():
                raise
            return Ended()  # the call was ended, not whoever waits for it
        if isinstance(result, _Raised):
            return _ended_by(result.error)
        return await self._report(result, stop=context.stopped)

    async def end(self, grace: float) -> None:
        self._ending = True
        if self._call is not None and not self._call.outcome.done():
            await self._call.end(grace)

    async def _wait(self, call: _Call) -> Any:
        self._call = call
        return await call.outcome

    async def _report(self, result: Any, *, stop: bool) -> Ended:
        if result is None:
            return Ended()
        try:
            dump = getattr(result, "model_dump", None)
            report = dump(mode="json") if callable(dump) else result
        except BaseException as error:
            # It is the row's code that runs here, on the loop's own thread: its SystemExit must end nothing.
            return Ended(ErrorClass.INVALID_RESULT, _say(error), raw_answer=_show(result))
        verdict = await self._order.report(report, stop=stop)
        if verdict.accepted:
            return Ended()
        return Ended(ErrorClass.INVALID_RESULT, verdict.reason, raw_answer=_show(report))


class _Threads:
    """Threads that are made when none is free and do not keep the program from ending.

    The standard pool joins its threads at exit, so one hung function would hang the program. `_free` is
    counted on the event loop's thread alone: it is what keeps a call from waiting behind a hung one.
    """

    def __init__(self) -> None:
        self._calls: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._free = 0
        self._count = 0
        self._closed = False

    def run(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> asyncio.Future[Any]:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()

        def settle(result: Any) -> None:
            self._free += 1
            if self._closed:
                self._let_one_go()
            if not future.done():
                future.set_result(result)

        def call() -> None:
            try:
                result = function(*arguments)
            except BaseException as error:
                result = _Raised(error)
            try:
                loop.call_soon_threadsafe(settle, result)
            except RuntimeError:
                self._calls.put(None)  # the loop has been closed; nobody asks any more

        if self._free:
            self._free -= 1
        else:
            self._count += 1
            threading.Thread(target=self._serve, name=f"row-function-{self._count}", daemon=True).start()
        self._calls.put(call)
        return future

    def close(self) -> None:
        self._closed = True
        while self._free:
            self._let_one_go()

    def _let_one_go(self) -> None:
        self._free -= 1
        self._calls.put(None)

    def _serve(self) -> None:
        while (call := self._calls.get()) is not None:
            call()
            # Else the last row would be held by an idle thread.
            del call


def _ended_by(error: BaseException) -> Ended:
    if isinstance(error, ModelError):
        return Ended(error.error_class, error.message, retry_after=error.retry_after)
    return Ended(ErrorClass.CRASHED, _say(error))


def _say(error: BaseException) -> str:
    """`ValueError: bad`, without the traceback."""
    try:
        text = str(error)
    except Exception:
        text = "(its text cannot be shown)"
    name = type(error).__name__
    sentence = f"{name}: {text}" if text else name
    return sentence.replace("\0", "\ufffd").encode("utf-8", "replace").decode()[:_MESSAGE_LIMIT]


def _show(result: Any) -> str:
    """A result that could not be used, as text."""
    try:
        text = json.dumps(result, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        try:
            text = repr(result)
        except Exception:
            text = f"({type(result).__name__} that cannot be shown)"
    return text.replace("\0", "\ufffd").encode("utf-8", "replace").decode()[:_RAW_LIMIT]
