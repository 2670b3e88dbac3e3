"""Output schemas and results: is the schema usable, does a result fit it. It follows no file or address."""

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import jsonschema_rs

from rowcrew.errors import InvalidRequest

MAX_DEPTH = 200
MAX_INTEGER_DIGITS = 4300
# 10 ** 4300 has this many bits; counting bits does not write the number out.
_MAX_INTEGER_BITS = 14_285
MAX_MISSES = 5
_MISS_SHOWN = 300
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
# The drafts that the library carries within it; any other dialect it would go and fetch.
_DRAFTS = re.compile(
    r"https?://json-schema\.org/(draft-0[467]/schema|draft/(2019-09|2020-12)/schema)#?", re.ASCII
)
# Under these a schema holds plain values, in which nothing is a reference.
_VALUES = frozenset({"const", "enum", "default", "examples"})
# Under these it holds a mapping from free names to schemas.
_MAPS = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
_FENCED = re.compile(r"```(?:json|JSON)?[ \t]*\r?\n(.*?)\r?\n?[ \t]*```", re.DOTALL)


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
        _refuse_references_elsewhere(document)
        try:
            # A fresh copy as JSON: what a caller changes later, or what is no JSON, has no say.
            document = json.loads(json.dumps(document, allow_nan=False))
            jsonschema_rs.meta.validate(document)
            validator = jsonschema_rs.validator_for(document, retriever=_refuse_to_retrieve)
        except jsonschema_rs.ValidationError as error:
            raise InvalidRequest(f"the output schema is not valid: {_miss(error)}") from error
        except (jsonschema_rs.ReferencingError, ValueError, TypeError, RecursionError) as error:
            raise InvalidRequest(f"the output schema is not valid: {error}") from error
        _refuse_what_is_never_an_object(document)
        return cls(document, tuple(dict.fromkeys(_property_names(document, document))), validator)

    def misses(self, result: Mapping[str, Any]) -> list[str]:
        """What of the result breaks which rule, as `at $.path: rule`; at most five. Empty: it fits."""
        found: list[str] = []
        for error in self._validator.iter_errors(result):
            if len(found) == MAX_MISSES:
                break
            found.append(_miss(error))
        return found


def _read(text: str) -> object:
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise InvalidRequest(f"the output schema is not JSON: {error}") from error


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is not JSON")


def _refuse_to_retrieve(uri: str) -> Any:
    raise ValueError(f"the reference {uri} is not followed")


def _schemas(document: object, *, is_map: bool = False) -> Iterator[dict[str, Any]]:
    """Every object of the document that stands where a schema stands. Without recursion: it may be deep."""
    waiting: list[tuple[object, bool]] = [(document, is_map)]
    while waiting:
        node, node_is_map = waiting.pop()
        if isinstance(node, list):
            waiting.extend((part, False) for part in node)
        elif isinstance(node, dict):
            if not node_is_map:
                yield node
            waiting.extend(
                (part, not node_is_map and key in _MAPS)
                for key, part in node.items()
                if node_is_map or key not in _VALUES
            )


def _refuse_references_elsewhere(document: dict[str, Any]) -> None:
    for schema in _schemas(document):
        dialect = schema.get("$schema")
        if isinstance(dialect, str) and not _DRAFTS.fullmatch(dialect):
            raise InvalidRequest(
                f"the output schema is written in {dialect!r}, which is none of the known drafts",
                hint="leave `$schema` out, or name draft 4, 6, 7, 2019-09 or 2020-12",
            )
        for keyword in _REFERENCES:
            target = schema.get(keyword)
            if isinstance(target, str) and not target.startswith("#"):
                raise InvalidRequest(
                    f"the output schema refers to {target!r}; only references inside it (`#/…`) are followed",
                    hint="copy that schema under `$defs` and refer to it as `#/$defs/NAME`",
                )


def _refuse_what_is_never_an_object(document: dict[str, Any]) -> None:
    types = document.get("type", "object")
    if "object" not in ([types] if isinstance(types, str) else types):
        raise InvalidRequest(
            f"the output schema is for {types!r}, but a result is always a JSON object",
            hint='make its top level {"type": "object", "properties": …}',
        )


def _property_names(schema: object, document: dict[str, Any], depth: int = 0) -> Iterator[str]:
    """Also through local references and `allOf` at the top level: what every result may have."""
    if not isinstance(schema, dict) or depth > 20:
        return
    properties = schema.get("properties")
    if isinstance(properties, dict):
        yield from properties
    for part in schema.get("allOf", ()):
        yield from _property_names(part, document, depth + 1)
    target = schema.get("$ref")
    if isinstance(target, str):
        yield from _property_names(_pointed_at(document, target), document, depth + 1)


def _pointed_at(document: dict[str, Any], reference: str) -> object:
    """What a JSON pointer (RFC 6901) points at; None for an anchor, or where there is nothing."""
    node: object = document
    for part in reference.removeprefix("#").split("/")[1:]:
        key = part.replace("~1", "/").replace("~0", "~")
        node = node.get(key) if isinstance(node, dict) else None
    return node


def _miss(error: jsonschema_rs.ValidationError) -> str:
    path = "$" + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in error.instance_path)
    message = str(error.message)
    if len(message) > _MISS_SHOWN:
        message = f"{message[:_MISS_SHOWN]}…"
    return f"at {path}: {message}"


def parse_answer(text: str) -> dict[str, Any]:
    """The JSON object that a text is: the whole of it, or wholly one fenced block. Raises InvalidResult."""
    body = text.strip().removeprefix("\ufeff").strip()
    fenced = _FENCED.fullmatch(body)
    if fenced is not None:
        body = fenced.group(1)
    try:
        answer = json.loads(body, parse_constant=_refuse_constant, parse_int=_bounded_integer)
    except json.JSONDecodeError as error:
        raise InvalidResult(f"the answer is not one JSON object: {error}") from error
    except RecursionError as error:
        raise InvalidResult(f"the answer is nested more than {MAX_DEPTH} levels deep") from error
    except ValueError as error:
        raise InvalidResult(f"the answer is not acceptable JSON: {error}") from error
    if not isinstance(answer, dict):
        raise InvalidResult("result must be a JSON object")
    return answer


def _bounded_integer(digits: str) -> int:
    if len(digits.lstrip("-")) > MAX_INTEGER_DIGITS:
        raise ValueError(f"it has an integer of more than {MAX_INTEGER_DIGITS} digits")
    return int(digits)


def check_result(result: object, schema: OutputSchema | None) -> dict[str, Any]:
    """The result as it may be stored: lone surrogates are U+FFFD now, tuples are arrays.

    Raises InvalidResult naming the path and the rule: not an object, not JSON, or not what the schema wants.
    """
    if not isinstance(result, Mapping):
        raise InvalidResult("result must be a JSON object")
    cleaned: dict[str, Any] = _clean(result, "$", 0)
    misses = [] if schema is None else schema.misses(cleaned)
    if misses:
        raise InvalidResult("; ".join(misses))
    return cleaned


def _clean(value: object, path: str, depth: int) -> Any:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, int):
        if value.bit_length() > _MAX_INTEGER_BITS:
            raise InvalidResult(f"at {path}: an integer of more than {MAX_INTEGER_DIGITS} digits")
        return int(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise InvalidResult(f"at {path}: {value} is not JSON")
        return value
    if depth >= MAX_DEPTH:
        raise InvalidResult(f"the result is nested more than {MAX_DEPTH} levels deep")
    if isinstance(value, Mapping):
        return {_key(key, path): _clean(part, f"{path}.{key}", depth + 1) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_clean(part, f"{path}[{place}]", depth + 1) for place, part in enumerate(value)]
    raise InvalidResult(f"at {path}: a Python {type(value).__name__} is not JSON")


def _key(key: object, path: str) -> str:
    if not isinstance(key, str):
        raise InvalidResult(f"at {path}: the key {key!r} is not text")
    return clean_text(key)


def clean_text(text: str) -> str:
    """Lone surrogates, which no UTF-8 file can hold, become U+FFFD."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def compact(value: object) -> str:
    """Compact JSON text. Raises ValueError for NaN and infinities, TypeError for what is no JSON."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
