"""Writing to standard output and error; that a reader has gone is no error. It decides no words."""

import json
import os
import re
import sys
from typing import IO, Any

import click

from rowcrew.errors import RowcrewError

# C0 and C1 controls, and what turns the direction of text: what workers wrote must not steer the terminal.
_UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def say(text: str) -> None:
    """A line for people, on standard error."""
    try:
        click.echo(text, err=True)
    except OSError:
        _close(sys.stderr)


def show(text: str) -> None:
    """What was asked for, as text, on standard output."""
    _out(text)


def show_json(value: Any, *, indent: int | None = None) -> None:
    """One JSON value on standard output, in UTF-8 whatever the locale."""
    _out(json.dumps(value, ensure_ascii=False, indent=indent, allow_nan=False))


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
        click.echo(text.encode("utf-8", "backslashreplace"))
    except BrokenPipeError:
        _close(sys.stdout)
    except OSError as error:
        _close(sys.stdout)
        raise RowcrewError(
            f"standard output cannot be written: {error.strerror or error}", hint="send it elsewhere"
        ) from error


def _close(stream: IO[str] | None) -> None:
    """Let the rest go nowhere: the interpreter's own flush at exit would fail again, and loudly."""
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno() if stream is not None else -1)
        os.close(nowhere)
    except (OSError, ValueError):
        return
