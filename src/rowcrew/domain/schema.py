"""Output schemas and results: is the schema usable, does a result fit it. It follows no file or address."""

import json
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import jsonschema_rs

from rowcrew.domain.json_text import (
    MAX_INTEGER_DIGITS,
    WrittenFloat,
    clean_text,
    compact,
    plain_numbers,
    read,
)
from rowcrew.domain.schema_document import (
    property_names,
    refuse_references_elsewhere,
    refuse_what_is_broken_unused,
    refuse_what_is_never_an_object,
)
from rowcrew.errors import InvalidRequest

__all__ = ["InvalidResult", "OutputSchema", "check_result", "clean_text", "compact", "parse_answer"]

MAX_DEPTH = 200
_INTEGER_BOUND = 10**MAX_INTEGER_DIGITS
MAX_MISSES = 5
# Of a long message both ends are kept: the value stands first in it, and the rule last.
_HEAD_SHOWN, _TAIL_SHOWN = 120, 180
_FENCED = re.compile(r"```(?i:json)?[ \t]*\r?\n(.*?)\r?\n?[ \t]*```", re.DOTALL)
_MEND = "mend it there: it is JSON Schema, draft 2020-12 where `$schema` names no other"
_PLAIN_KEY = re.compile(r"[^\W\d][\w-]*")


class InvalidResult(ValueError):
    """A result that cannot be accepted; its text is a sentence for whoever made it."""


@dataclass(frozen=True, slots=True)
class OutputSchema:
    """A JSON Schema that has been checked. `properties` are the property names of its top level."""

    document: dict[str, Any]
    properties: tuple[str, ...]
    _validator: Any

    @classmethod
    def parse(cls, source: str | dict[str, Any]) -> "OutputSchema":
        """From JSON text or a parsed document. Raises InvalidRequest saying what is wrong with it."""
        document = _read(source) if isinstance(source, str) else source
        if not isinstance(document, dict):
            raise InvalidRequest("the output schema must be a JSON object", hint='such as {"type": "object"}')
        refuse_references_elsewhere(document)
        try:
            # A fresh copy as JSON: what a caller changes later, or what is no JSON, has no say.
            document = json.loads(clean_text(json.dumps(document, ensure_ascii=False, allow_nan=False)))
            jsonschema_rs.meta.validate(document)
            validator = jsonschema_rs.validator_for(document, retriever=_refuse_to_retrieve)
        except jsonschema_rs.ValidationError as error:
            raise InvalidRequest(f"the output schema is not valid: {_miss(error)}", hint=_MEND) from error
        except RecursionError as error:
            raise InvalidRequest("the output schema is nested too deep", hint=_MEND) from error
        except (jsonschema_rs.ReferencingError, ValueError, TypeError) as error:
            raise InvalidRequest(f"the output schema is not valid: {error}", hint=_MEND) from error
        refuse_what_is_broken_unused(document)
        refuse_what_is_never_an_object(document)
        return cls(document, property_names(document), validator)

    def misses(self, result: Mapping[str, Any]) -> list[str]:
        """What of the result breaks which rule, as `at $.path: rule`; at most five. Empty: it fits."""
        found: list[str] = []
        for error in self._validator.iter_errors(plain_numbers(result)):
            if len(found) == MAX_MISSES:
                break
            found.append(_miss(error))
        return found


def _read(text: str) -> object:
    try:
        return read(text.removeprefix("\ufeff"))
    except RecursionError as error:
        raise InvalidRequest("the output schema is nested too deep", hint=_MEND) from error
    except ValueError as error:
        raise InvalidRequest(f"the output schema is not JSON: {error}", hint=_MEND) from error


def _refuse_to_retrieve(uri: str) -> Any:
    raise ValueError(f"the reference {uri} is not followed")


def _miss(error: jsonschema_rs.ValidationError) -> str:
    return f"at {_path(error.instance_path)}: {_shortened(str(error.message))}"


def _path(parts: Iterable[object]) -> str:
    """`$.rows[2].name`; a name that is more than a word is in brackets: `$["unit price"]`."""
    steps = []
    for part in parts:
        if isinstance(part, int):
            steps.append(f"[{part}]")
        else:
            name = clean_text(str(part))
            steps.append(f".{name}" if _PLAIN_KEY.fullmatch(name) else f"[{compact(name)}]")
    return _shortened("$" + "".join(steps))


def _shortened(text: str) -> str:
    if len(text) <= _HEAD_SHOWN + _TAIL_SHOWN:
        return text
    return f"{text[:_HEAD_SHOWN]}…{text[-_TAIL_SHOWN:]}"


def parse_answer(text: str) -> dict[str, Any]:
    """The JSON object that a text is: the whole of it, or wholly one fenced block. Raises InvalidResult.

    Numbers keep the text they were written with, see json_text.WrittenFloat.
    """
    body = text.strip().removeprefix("\ufeff").strip()
    if not body:
        raise InvalidResult("the answer is empty; it must be one JSON object")
    fenced = _FENCED.fullmatch(body)
    if fenced is not None:
        body = fenced.group(1)
    try:
        answer = read(body)
    except json.JSONDecodeError as error:
        raise InvalidResult(f"the answer is not one JSON object: {error}") from error
    except RecursionError as error:
        raise InvalidResult(f"the answer is nested more than {MAX_DEPTH} levels deep") from error
    except ValueError as error:
        raise InvalidResult(f"the answer is not acceptable JSON: {error}") from error
    return check_result(answer, None)


def check_result(result: object, schema: OutputSchema | None) -> dict[str, Any]:
    """The result as it may be stored: lone surrogates are U+FFFD now, tuples are arrays.

    Raises InvalidResult naming the path and the rule: not an object, not JSON, or not what the schema wants.
    """
    if not isinstance(result, Mapping):
        raise InvalidResult("result must be a JSON object")
    cleaned: dict[str, Any] = _clean(result, ())
    misses = [] if schema is None else schema.misses(cleaned)
    if misses:
        raise InvalidResult("; ".join(misses))
    return cleaned


def _clean(value: object, path: tuple[object, ...]) -> Any:
    """JSON in Python's own types: of an enum's member or another library's float the plain value."""
    if value is None or isinstance(value, bool | WrittenFloat):
        return value
    if isinstance(value, str):
        return clean_text(str.__str__(value))
    if isinstance(value, int):
        if not -_INTEGER_BOUND < value < _INTEGER_BOUND:
            raise InvalidResult(f"at {_path(path)}: an integer of more than {MAX_INTEGER_DIGITS} digits")
        return int(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise InvalidResult(f"at {_path(path)}: {float(value)} is not JSON")
        return float(value)
    if len(path) >= MAX_DEPTH:
        raise InvalidResult(f"the result is nested more than {MAX_DEPTH} levels deep")
    if isinstance(value, Mapping):
        return {_key(key, path): _clean(part, (*path, key)) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_clean(part, (*path, place)) for place, part in enumerate(value)]
    raise InvalidResult(f"at {_path(path)}: a Python {type(value).__name__} is not JSON")


def _key(key: object, path: tuple[object, ...]) -> str:
    if not isinstance(key, str):
        raise InvalidResult(f"at {_path(path)}: the key {_shortened(ascii(key))} is not text")
    return clean_text(str.__str__(key))
