"""JSON text to values and back, numbers as they were written. It knows no schema and no job."""

import json
import math
from typing import Any

MAX_INTEGER_DIGITS = 4300


class WrittenFloat(float):
    """A float that Python would write otherwise (`1.10`, `1e5`), with its own text."""

    __slots__ = ("text",)

    def __new__(cls, text: str) -> "WrittenFloat":
        number = super().__new__(cls, text)
        number.text = text
        return number

    text: str


def read(text: str) -> Any:
    """The value of a JSON text. Raises ValueError (json.JSONDecodeError for bad syntax), RecursionError.

    Refused: NaN and infinities, also as numbers too large for a float, and integers of over 4,300 digits.
    """
    return json.loads(text, parse_constant=_refuse_constant, parse_int=_integer, parse_float=_float)


def compact(value: object) -> str:
    """Compact JSON text. Raises ValueError for NaN and infinities, TypeError for what is no JSON."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    # The encoder in C asks no subclass of float how it wants to be written.
    return _written(value) if holds_written(value) else text


def holds_written(value: object) -> bool:
    """Whether a WrittenFloat is anywhere in it."""
    waiting = [value]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            waiting.extend(part.values())
        elif isinstance(part, list | tuple):
            waiting.extend(part)
        elif isinstance(part, WrittenFloat):
            return True
    return False


def is_clean(text: str) -> bool:
    """Whether it can be stored as it is: there is no lone surrogate in it."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def clean_text(text: str) -> str:
    """Lone surrogates, which no UTF-8 file can hold, become U+FFFD."""
    if is_clean(text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _written(value: object) -> str:
    if isinstance(value, WrittenFloat):
        return value.text
    if isinstance(value, dict):
        return (
            f"{{{','.join(f'{json.dumps(k, ensure_ascii=False)}:{_written(v)}' for k, v in value.items())}}}"
        )
    if isinstance(value, list | tuple):
        return f"[{','.join(map(_written, value))}]"
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is not JSON")


def _integer(digits: str) -> int:
    if len(digits.lstrip("-")) > MAX_INTEGER_DIGITS:
        raise ValueError(f"it has an integer of more than {MAX_INTEGER_DIGITS} digits")
    return int(digits)


def _float(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"it has a number that is too large ({text[:40]})")
    return number if repr(number) == text else WrittenFloat(text)
