"""JSON text to values and back, numbers as they were written. It knows no schema and no job."""

import json
import math
import re
from typing import Any

MAX_INTEGER_DIGITS = 4300
# Brackets, and whole strings, so that brackets in them do not count.
_NESTING = re.compile(r'[][{}]|"(?:[^"\\]|\\.)*"', re.DOTALL)


class WrittenFloat(float):
    """A float that Python would write otherwise (`1.10`, `1e5`), with its own text."""

    __slots__ = ("text",)

    def __new__(cls, text: str) -> "WrittenFloat":
        number = super().__new__(cls, text)
        number.text = text
        return number

    text: str

    def __repr__(self) -> str:
        return self.text


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


def indented(value: object) -> str:
    """JSON text for people, two blanks a level. Raises as `compact`."""
    if not holds_written(value):
        return json.dumps(value, ensure_ascii=False, indent=2, allow_nan=False)
    return _spread(value, "\n")


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


def plain_numbers(value: Any) -> Any:
    """The value with Python's own floats, for libraries that know no others."""
    return json.loads(compact(value)) if holds_written(value) else value


def is_deeper_than(levels: int, text: str) -> bool:
    """Whether JSON text may be nested deeper: cheap where it is not, and right where it is valid JSON."""
    if text.count("[") + text.count("{") <= levels:
        return False
    deepest = depth = 0
    for found in _NESTING.finditer(text):
        match found.group():
            case "[" | "{":
                depth += 1
                deepest = max(deepest, depth)
            case "]" | "}":
                depth -= 1
    return deepest > levels


def clean(value: Any) -> Any:
    """The value with `clean_text` of every text in it, keys too."""
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, dict):
        return {clean_text(key): clean(part) for key, part in value.items()}
    if isinstance(value, list):
        return [clean(part) for part in value]
    return value


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


def _spread(value: object, line: str) -> str:
    """`line` is the line break with the indentation that holds around the value."""
    inner = f"{line}  "
    if isinstance(value, dict) and value:
        parts = [f"{json.dumps(k, ensure_ascii=False)}: {_spread(v, inner)}" for k, v in value.items()]
        return f"{{{inner}{f',{inner}'.join(parts)}{line}}}"
    if isinstance(value, list | tuple) and value:
        return f"[{inner}{f',{inner}'.join(_spread(part, inner) for part in value)}{line}]"
    return _written(value)


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
