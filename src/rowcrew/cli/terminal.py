"""Writing to standard output and error; that a reader has gone is no error. It decides no words."""

import contextlib
import json
import os
import re
import sys
from collections.abc import Iterator
from typing import IO, Any, Literal

import click

from rowcrew.domain.json_text import indented
from rowcrew.errors import RowcrewError

# C0 and C1 controls, and what turns the direction of text: what workers wrote must not steer the terminal.
_UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


# Where `show` and `show_json` write while standard output is claimed; else None.
_claimed: IO[Any] | None = None


def open_closed_streams() -> None:
    """Let descriptors 0, 1 and 2 be something (nothing, where they were closed), before anything is opened.

    Else the next file or pipe gets such a number: a database, which a print would write into; and the fast
    event loop ends the whole process over it.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest number that is free
            os.set_inheritable(number, True)
    if sys.stdin is None:
        sys.stdin = os.fdopen(0, closefd=False)


def say(text: str) -> None:
    """A line for people, on standard error."""
    try:
        click.echo(text, err=True)
    except (OSError, ValueError):  # ValueError: a row's function has closed it
        _close(sys.stderr)


def show(text: str) -> None:
    """What was asked for, as text, on standard output."""
    _out(text)


def show_json(value: Any, *, indent: Literal[2] | None = None) -> None:
    """One JSON value on standard output, in UTF-8 whatever the locale."""
    _out(json.dumps(value, ensure_ascii=False, allow_nan=False) if indent is None else indented(value))


@contextlib.contextmanager
def claimed_output() -> Iterator[None]:
    """Standard output for `show` and `show_json` alone; what else prints there goes to standard error.

    For as long as functions of the user's run in this process: a reader of our JSON must not meet their text,
    and when they close `sys.stdout`, ours stays open.
    """
    global _claimed
    before = sys.stdout
    with contextlib.ExitStack() as undo:
        try:
            before.flush()
            _claimed = _take_over(before.fileno(), undo)
        except AttributeError:
            pass  # there is no standard output
        except (OSError, ValueError):
            # No file of the system's, such as a notebook's cell: then only Python's own name for it is ours.
            _claimed, sys.stdout = before, sys.stderr
        try:
            yield
        finally:
            _claimed, sys.stdout = None, before


def _take_over(number: int, undo: contextlib.ExitStack) -> IO[bytes]:
    """Our own copy of a descriptor that from now on is standard error, for C code and child processes too."""
    ours = undo.enter_context(os.fdopen(os.dup(number), "wb", buffering=0))
    undo.callback(os.dup2, ours.fileno(), number)
    try:
        os.dup2(2, number)
    except OSError:  # there is no standard error
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, number)
        os.close(nowhere)
    theirs = os.fdopen(os.dup(number), "w", buffering=1, encoding="utf-8", errors="backslashreplace")
    undo.callback(_close_quietly, theirs)
    sys.stdout = theirs
    return ours


def _close_quietly(stream: IO[str]) -> None:
    with contextlib.suppress(OSError, ValueError):
        stream.close()


def printable(text: str) -> str:
    """Text from a worker or a table, with its control characters shown instead of obeyed."""
    return _UNPRINTABLE.sub(lambda found: f"\\x{ord(found.group()):02x}", text)


def one_line(text: str, width: int = 200) -> str:
    """As `printable`, on one line, cut where it is long."""
    flat = printable(" ".join(text.split()))
    return flat if len(flat) <= width else f"{flat[: width - 1]}…"


def _out(text: str) -> None:
    try:
        # A lone surrogate (a file name that is no UTF-8) becomes \udcxx, which in JSON is its own escape.
        click.echo(text.encode("utf-8", "backslashreplace"), file=_claimed)
    except BrokenPipeError:
        _close(_claimed or sys.stdout)
    except OSError as error:
        _close(_claimed or sys.stdout)
        raise RowcrewError(
            f"standard output cannot be written: {error.strerror or error}", hint="send it elsewhere"
        ) from error


def _close(stream: IO[Any] | None) -> None:
    """Let the rest go nowhere: the interpreter's own flush at exit would fail again, and loudly."""
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno() if stream is not None else -1)
        os.close(nowhere)
    except (OSError, ValueError):
        return
