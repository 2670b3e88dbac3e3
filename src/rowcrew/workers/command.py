"""Command workers: one process per attempt, started without a shell. It stores nothing and retries nothing.

What a program has to know:

- Standard input: one line of JSON (`job_id`, `item_id`, `attempt`, `instruction`, `row`, `output_schema`,
  `prompt`), or the prompt alone. A program need not read it.
- Standard output is the report: one JSON object, alone or wholly in one fenced block. It is taken when the
  process ends, or as soon as it stands there with its line end and nothing has followed for half a second: a
  program that then hangs has reported. Or the program calls `rowcrew report` and prints nothing.
- Exit 0 without a report is `no_report`; any other exit is `crashed`, with the end of standard error.
- Exit 75 is `provider`: try later. An extension of ours lets standard output say more, as one JSON object:
  `{"retry_after": 2.5}` is a rate limit (seconds; uses no attempt), `{"error": "account"}` is refused credit
  or credentials (pauses the job); `"message"` is the sentence to show. Print it and exit at once: what stands
  there longer is a report.
- `{"accepted": false, "reason": …}`, which `rowcrew report` prints when it is refused, is taken for just
  that, unless the output schema names a property `accepted`.
"""

import asyncio
import errno
import json
import os
import resource
import shlex
import shutil
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from rowcrew.domain.schema import InvalidResult, parse_answer
from rowcrew.errors import ErrorClass, InvalidRequest, LimitReached, RowcrewError
from rowcrew.processes import MARKER_VARIABLE, ProcessIdentity
from rowcrew.workers.child import Child, Output, Sweeper
from rowcrew.workers.contract import Ended, Worker, WorkerKind, WorkOrder

TRY_LATER = 75
STDOUT_LIMIT = 16 << 20
STDERR_LIMIT = 8 << 10
# Nothing came for so long after a whole object: it is the report, though the process lives on.
QUIET_SECONDS = 0.5
# For a process whose report was refused: it cannot mend what it has printed.
_END_GRACE = 5.0
_MESSAGE_LIMIT = 2_000
_CHARS_BEFORE_OBJECT = 4_096
_RAW_OF_TOO_MUCH = 64 << 10
# Three pipes and the process handle; the rest is for databases, sockets and what the engine's host needs.
_FILES_PER_CHILD = 4
_FILES_FOR_OTHERS = 128
_FILES_WANTED = 4096
# Files, processes or memory.
_RUN_OUT = frozenset({errno.EMFILE, errno.ENFILE, errno.EAGAIN, errno.ENOMEM})
_LONGEST_RATE_LIMIT = 86_400.0


def open_command(
    words: str,
    *,
    command_input: Literal["json", "prompt"] = "json",
    folder: Path,
    environment: Mapping[str, str] | None = None,
) -> WorkerKind:
    """The kind of worker that runs `words` in `folder`; `environment` is this process's unless given.

    `words` are split as a shell splits. Raises InvalidRequest when they name no program that can be run.
    """
    given = dict(os.environ if environment is None else environment)
    place = folder.absolute()
    return CommandKind(_resolve(words, place, given), command_input, place, given)


def _resolve(words: str, folder: Path, environment: Mapping[str, str]) -> tuple[str, ...]:
    try:
        program, *arguments = shlex.split(words)
    except ValueError as error:
        # shlex says "No closing quotation"; an empty list says "not enough values".
        problem = "no program is named" if not words.strip() else f"{str(error).lower()}"
        message = f"the worker command {words!r} cannot be split into words: {problem}"
        raise InvalidRequest(message, hint="give it as `--worker 'command:PROGRAM ARGUMENTS'`") from None
    # A name with a slash is meant from the folder in which the program will run.
    name = str(folder / program) if "/" in program else program
    path = shutil.which(name, path=environment.get("PATH")) if program else None
    if path is None:
        raise InvalidRequest(
            f"the worker command {words!r} cannot be run: {_why_not(Path(name), program)}",
            hint="check the name, or give the program's path",
        )
    return (str(Path(path).absolute()), *arguments)


def _why_not(path: Path, program: str) -> str:
    if "/" not in program:
        return f"no program {program!r} is on the PATH"
    if path.is_dir():
        return f"{program!r} is a folder"
    return f"{program!r} is not executable" if path.exists() else f"there is no file {program!r}"


def _room_for_processes() -> int:
    """How many children this process may hold files for, its own limit raised where that is allowed."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _FILES_WANTED if hard == resource.RLIM_INFINITY else min(hard, _FILES_WANTED)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        soft = wanted
    files = _FILES_WANTED if soft == resource.RLIM_INFINITY else soft
    return max(1, (files - _FILES_FOR_OTHERS) // _FILES_PER_CHILD)


class CommandKind:
    """Starts one process per attempt and keeps track of those that live."""

    def __init__(
        self,
        words: tuple[str, ...],
        command_input: Literal["json", "prompt"],
        folder: Path,
        environment: Mapping[str, str],
    ) -> None:
        self._words = words
        self._input = command_input
        self._folder = folder
        self._environment = environment
        self._room = _room_for_processes()
        self._sweeper = Sweeper()
        self._live: set[Child] = set()

    @property
    def max_concurrency(self) -> int | None:
        return self._room

    @property
    def starts_at_once(self) -> bool:
        return False

    async def start(self, order: WorkOrder) -> Worker:
        stdout, stderr = Output(STDOUT_LIMIT), Output(STDERR_LIMIT, keep_tail=True)
        try:
            child = Child(
                self._words,
                folder=self._folder,
                environment={**self._environment, **_order_environment(order)},
                marker=order.thread_id,
                stdout=stdout,
                stderr=stderr,
                sweeper=self._sweeper,
            )
        except OSError as error:
            sentence = f"the process could not be started: {error.strerror or error}"
            if self._live and error.errno in _RUN_OUT:
                # Some come back when another worker ends; when none lives, waiting would be for ever.
                raise LimitReached(sentence) from error
            raise RowcrewError(sentence, hint=f"look at the folder {self._folder}") from error
        self._live.add(child)
        return CommandWorker(child, order, _input_for(order, self._input), stdout, stderr, self._live)

    async def close(self) -> None:
        """Ends what still lives, at once."""
        await asyncio.gather(*(child.end(0) for child in tuple(self._live)))
        self._live.clear()


def _order_environment(order: WorkOrder) -> dict[str, str]:
    return {
        "ROWCREW_JOB_ID": order.job_id,
        "ROWCREW_ITEM_ID": order.item_id,
        "ROWCREW_ATTEMPT": str(order.attempt),
        MARKER_VARIABLE: order.thread_id,
        "ROWCREW_HOME": str(order.home),
    }


def _input_for(order: WorkOrder, command_input: Literal["json", "prompt"]) -> bytes:
    if command_input == "prompt":
        text = order.prompt if order.prompt.endswith("\n") else f"{order.prompt}\n"
        return text.encode("utf-8", "replace")
    document = {
        "job_id": order.job_id,
        "item_id": order.item_id,
        "attempt": order.attempt,
        "instruction": order.instruction,
        "row": dict(order.row),
        "output_schema": order.output_schema,
        "prompt": order.prompt,
    }
    return json.dumps(document, ensure_ascii=False).encode("utf-8", "replace") + b"\n"


class CommandWorker:
    """One process at one job item."""

    def __init__(
        self,
        child: Child,
        order: WorkOrder,
        standard_input: bytes,
        stdout: Output,
        stderr: Output,
        live: set[Child],
    ) -> None:
        self._child = child
        self._order = order
        self._standard_input = standard_input
        self._stdout = stdout
        self._stderr = stderr
        self._live = live
        self._quiet: asyncio.TimerHandle | None = None
        self._must_end = False

    @property
    def process(self) -> ProcessIdentity | None:
        return self._child.identity

    async def work(self) -> Ended:
        child = self._child
        try:
            child.on_output = self._note_output
            child.let_go(self._standard_input)
            ended = await self._wait_for_report()
            if ended is None:
                await child.finish()
                ended = await self._conclude()
            else:
                if self._must_end:
                    await child.end(_END_GRACE)
                await child.exited.wait()
                await child.finish()
            await child.sweep()
        except BaseException:
            # Cancelled, or the store failed: the process must not outlive its attempt.
            await child.end(0)
            raise
        finally:
            if self._quiet is not None:
                self._quiet.cancel()
            if child.exit_status is not None:
                self._live.discard(child)
        return ended

    async def end(self, grace: float) -> None:
        await self._child.end(grace)
        if self._child.exit_status is not None:
            self._live.discard(self._child)

    def _note_output(self) -> None:
        """Start the quiet time anew: what came may be a piece only."""
        if self._quiet is not None:
            self._quiet.cancel()
        self._quiet = asyncio.get_running_loop().call_later(QUIET_SECONDS, self._child.stirred.set)

    async def _wait_for_report(self) -> Ended | None:
        """Until the process has ended (None), or has reported although it lives on."""
        child = self._child
        while True:
            await child.stirred.wait()
            child.stirred.clear()
            if child.exited.is_set():
                return None
            answer = self._whole_object()
            if answer is None:
                continue
            verdict = await self._order.report(answer)
            # It cannot mend what it has printed. Any other refusal is not about the result: it is late, or
            # has reported by itself, and may have more to do.
            self._must_end = not verdict.accepted and verdict.mendable
            return Ended() if verdict.accepted else self._invalid(verdict.reason)

    def _whole_object(self) -> dict[str, Any] | None:
        """The object that stands on standard output with its line end, if that is all there is."""
        content = self._stdout.content
        if self._stdout.is_cut or not content.endswith(b"\n"):
            return None
        # Cheap before dear: the log of a program that reports by itself is not parsed again and again.
        if not content[:_CHARS_BEFORE_OBJECT].lstrip().startswith((b"{", b"`", b"\xef")):
            return None
        try:
            answer = self._parse()
        except InvalidResult:
            return None
        return None if self._is_refused_report(answer) or self._asks_for_later(answer) else answer

    def _parse(self) -> dict[str, Any]:
        try:
            text = self._stdout.content.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            byte = f"0x{error.object[error.start]:02x}"
            raise InvalidResult(f"standard output is not UTF-8: byte {byte} at {error.start}") from None
        return parse_answer(text)

    def _is_refused_report(self, answer: dict[str, Any]) -> bool:
        properties = (self._order.output_schema or {}).get("properties")
        if isinstance(properties, dict) and "accepted" in properties:
            return False
        return answer.keys() == {"accepted", "reason"} and answer["accepted"] is False

    def _asks_for_later(self, answer: dict[str, Any]) -> bool:
        """Whether it may be what goes with exit 75, so that the exit has to be waited for."""
        properties = (self._order.output_schema or {}).get("properties")
        wanted = properties if isinstance(properties, dict) else {}
        if "retry_after" in answer:
            return "retry_after" not in wanted
        return answer.get("error") == "account" and "error" not in wanted

    async def _conclude(self) -> Ended:
        """What the end of the process means, with the report made where there is one."""
        status = self._child.exit_status
        if status == TRY_LATER:
            return self._try_later()
        if status:
            return Ended(ErrorClass.CRASHED, self._with_stderr(_exit_text(status)))
        if not self._stdout.content.strip():
            return Ended()
        if self._stdout.is_cut:
            return self._invalid(f"standard output is longer than {STDOUT_LIMIT >> 20} MiB")
        try:
            answer = self._parse()
        except InvalidResult as error:
            return self._invalid(str(error))
        if self._is_refused_report(answer):
            return self._invalid(f"`rowcrew report` was refused: {answer['reason']}")
        verdict = await self._order.report(answer)
        return Ended() if verdict.accepted else self._invalid(verdict.reason)

    def _try_later(self) -> Ended:
        try:
            said = self._parse()
        except InvalidResult:
            said = {}
        message = said.get("message")
        if not isinstance(message, str) or not message.strip():
            message = self._with_stderr(_exit_text(TRY_LATER))
        message = _clean(message)[:_MESSAGE_LIMIT]
        wait = said.get("retry_after")
        if said.get("error") == "account":
            return Ended(ErrorClass.ACCOUNT, message)
        if isinstance(wait, int | float) and not isinstance(wait, bool) and wait >= 0:
            seconds = float(min(wait, _LONGEST_RATE_LIMIT))
            return Ended(ErrorClass.RATE_LIMITED, message, retry_after=seconds)
        return Ended(ErrorClass.PROVIDER, message)

    def _invalid(self, reason: str | None) -> Ended:
        content = bytes(self._stdout.content[: _RAW_OF_TOO_MUCH if self._stdout.is_cut else None])
        raw = _clean(content.decode("utf-8", "replace"))
        return Ended(ErrorClass.INVALID_RESULT, reason or "the result was refused", raw_answer=raw)

    def _with_stderr(self, sentence: str) -> str:
        said = _clean(self._stderr.tail().decode("utf-8", "replace")).strip()
        if len(said) > _MESSAGE_LIMIT:
            said = f"…{said[-_MESSAGE_LIMIT:]}"
        return f"{sentence}: {said}" if said else sentence


def _exit_text(status: int) -> str:
    if status >= 0:
        return f"exited with status {status}"
    try:
        return f"killed by {signal.Signals(-status).name}"
    except ValueError:
        return f"killed by signal {-status}"


def _clean(text: str) -> str:
    """Without what a database's text or a terminal cannot hold."""
    return text.replace("\0", "\ufffd")
