"""What each setting may be: its kind, and the words that say so. It reads nothing."""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

SettingPath = tuple[str, ...]

SANDBOX_MODES = ("read-only", "workspace-write", "danger-full-access")
WIRE_APIS = ("responses", "chat")


@dataclass(frozen=True, slots=True)
class Kind:
    """What one setting may be. `accept` gives the value to keep or raises ValueError."""

    wanted: str
    accept: Callable[[Any], Any]
    is_text: bool = False


def _whole(least: int) -> Kind:
    def accept(value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise ValueError
        return value

    return Kind(f"a whole number of at least {least}", accept)


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError
    try:
        number = float(value)
    except OverflowError:
        raise ValueError from None
    if not math.isfinite(number):
        raise ValueError
    return number


def _seconds(value: Any) -> float:
    if _number(value) <= 0:
        raise ValueError
    return float(value)


def _price(value: Any) -> float:
    # More than a dollar a token is a slip, and sums of it would leave what the store can hold.
    if not 0 <= _number(value) <= 1_000_000:
        raise ValueError
    return float(value)


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError
    return value


def _text(pattern: str, wanted: str) -> Kind:
    def accept(value: Any) -> str:
        if not isinstance(value, str) or re.fullmatch(pattern, value) is None:
            raise ValueError
        return value

    return Kind(wanted, accept, is_text=True)


def _one_of(names: tuple[str, ...]) -> Kind:
    quoted = [f'"{name}"' for name in names]
    wanted = ", ".join(quoted[:-1]) + f" or {quoted[-1]}"
    return _text("|".join(map(re.escape, names)), wanted)


_URL = _text(r"https?://\S+", "an address that begins with http:// or https://")
_DOLLARS = Kind("US dollars for a million tokens, from 0 to 1000000", _price)
_WORDS = _text(r"(?s).*\S.*", "text that is not blank")

# "*" stands for a name of the user's choice.
KINDS: Mapping[SettingPath, Kind] = {
    ("model",): _WORDS,
    ("base_url",): _URL,
    ("model_providers", "*", "base_url"): _URL,
    ("model_providers", "*", "env_key"): _text(
        r"[A-Za-z_][A-Za-z0-9_]{0,63}", "the name of the variable that holds the key"
    ),
    ("model_providers", "*", "wire_api"): _one_of(WIRE_APIS),
    ("model_providers", "*", "name"): _WORDS,
    ("prices", "*", "input"): _DOLLARS,
    ("prices", "*", "cached_input"): _DOLLARS,
    ("prices", "*", "output"): _DOLLARS,
    ("agents", "max_threads"): _whole(1),
    ("agents", "max_depth"): _whole(0),
    ("agents", "max_turn_requests"): _whole(1),
    ("agents", "job_max_runtime_seconds"): Kind("a number of seconds above 0", _seconds),
    ("sandbox_mode",): _one_of(SANDBOX_MODES),
    ("features", "*"): Kind("true or false", _flag),
}


def fits(path: SettingPath, pattern: SettingPath) -> bool:
    return len(path) == len(pattern) and all(
        want in ("*", part) for part, want in zip(path, pattern, strict=True)
    )


def kind_of(path: SettingPath) -> Kind | None:
    return next((kind for pattern, kind in KINDS.items() if fits(path, pattern)), None)


def is_table(path: SettingPath) -> bool:
    return any(len(path) < len(pattern) and fits(path, pattern[: len(path)]) for pattern in KINDS)
