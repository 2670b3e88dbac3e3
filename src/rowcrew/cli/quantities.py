"""Kinds of values on the command line that click does not have. It knows no verb and no option."""

import math
import re
from typing import Any

import click

Span = tuple[int | None, int | None]


class Delimiter(click.ParamType[str]):
    """One character; `\\t` and `tab` are the tab."""

    name = "CHARACTER"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        text = {"\\t": "\t", "tab": "\t"}.get(value, value)
        if len(text) != 1 or text in '"\r\n':
            self.fail(f"{value!r} must be one character, and no quote or line end (write '\\t' for a tab)")
        return str(text)


# No table has more rows; and what is much longer is no number to Python either.
_WHOLE_NUMBER = re.compile(r"[0-9]{1,18}")


class RowSpan(click.ParamType[Span]):
    """A:B over kept rows, from 0, without B; either may be left out."""

    name = "A:B"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Span:
        if isinstance(value, tuple):
            return value
        ends = value.split(":")
        if len(ends) != 2 or not all(end == "" or _WHOLE_NUMBER.fullmatch(end) for end in ends):
            self.fail(f"{value[:80]!r} is not A:B with whole numbers, such as 0:100, 100: or :100")
        start, stop = (int(end) if end else None for end in ends)
        if stop is not None and stop < (start or 0):
            self.fail(f"{value!r} ends before it begins")
        return start, stop


class Seconds(click.ParamType[float]):
    """A number of seconds above 0."""

    name = "SECONDS"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        try:
            seconds = float(value)
        except ValueError:
            seconds = math.nan
        if not math.isfinite(seconds) or seconds <= 0:
            self.fail(f"{value!r} is not a number of seconds above 0")
        return seconds
