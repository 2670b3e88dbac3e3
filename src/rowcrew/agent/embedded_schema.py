"""What of a JSON Schema the embedded model is held to while it writes. It checks no answer; the engine does.

llama.cpp turns a schema into a grammar, and some schemas take it down with the whole process (the pattern
`^x{5,2}$` eats all memory). So it only gets a small, plain part: shapes, names, choices and small bounds, no
references, nothing large. What is left out here is still in the engine's check.
"""

import json
from collections.abc import Mapping
from typing import Any

_MAX_DEPTH = 8
_MAX_NODES = 500
_MAX_CHOICES = 200
_MAX_CHOICE_CHARACTERS = 20_000
_MAX_LENGTH = 200
_MAX_ITEMS = 50
_MAX_NUMBER = 1_000_000_000
_TYPES = frozenset({"object", "array", "string", "number", "integer", "boolean", "null"})
_ANYTHING: dict[str, Any] = {}


def narrow(schema: Mapping[str, Any]) -> dict[str, Any]:
    """A plain schema that everything valid under `schema` is also valid under, or nearly so."""
    return _Narrowing(schema).of(schema, 0)


class _Narrowing:
    """One walk. References are replaced by what they name, until the budget of nodes or depth is used up."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root
        self._nodes = 0

    def of(self, schema: Any, depth: int) -> dict[str, Any]:
        self._nodes += 1
        if not isinstance(schema, Mapping) or depth > _MAX_DEPTH or self._nodes > _MAX_NODES:
            return _ANYTHING
        if "$ref" in schema:
            return self.of(self._named(schema["$ref"]), depth + 1)
        if (choices := _choices(schema)) is not None:
            return choices
        for keyword in ("anyOf", "oneOf"):
            branches = schema.get(keyword)
            if isinstance(branches, list) and branches and "properties" not in schema:
                return {"anyOf": [self.of(branch, depth + 1) for branch in branches]}
        match schema.get("type"):
            case "object":
                return self._object(schema, depth)
            case "array":
                return self._array(schema, depth)
            case "string":
                return {"type": "string", **_bounds(schema, "minLength", "maxLength", 0, _MAX_LENGTH)}
            case "integer":
                limits = _bounds(schema, "minimum", "maximum", -_MAX_NUMBER, _MAX_NUMBER)
                return {"type": "integer", **limits}
            case str(simple) if simple in _TYPES:
                return {"type": simple}
            case [*several] if several and all(name in _TYPES for name in several):
                return {"anyOf": [self.of({**schema, "type": name}, depth + 1) for name in several]}
            case _:
                return self._object(schema, depth) if "properties" in schema else _ANYTHING

    def _object(self, schema: Mapping[str, Any], depth: int) -> dict[str, Any]:
        properties = schema.get("properties")
        if not isinstance(properties, Mapping) or not properties:
            return {"type": "object"}
        required = schema.get("required")
        return {
            "type": "object",
            "properties": {str(name): self.of(inner, depth + 1) for name, inner in properties.items()},
            "required": [name for name in properties if isinstance(required, list) and name in required],
            "additionalProperties": False,
        }

    def _array(self, schema: Mapping[str, Any], depth: int) -> dict[str, Any]:
        limits = _bounds(schema, "minItems", "maxItems", 0, _MAX_ITEMS)
        return {"type": "array", "items": self.of(schema.get("items", _ANYTHING), depth + 1), **limits}

    def _named(self, reference: Any) -> Any:
        """What a local reference names; anything where it names nothing."""
        if not isinstance(reference, str) or not reference.startswith("#"):
            return _ANYTHING
        found: Any = self._root
        for step in reference[1:].split("/")[1:]:
            key = step.replace("~1", "/").replace("~0", "~")
            if not isinstance(found, Mapping) or key not in found:
                return _ANYTHING
            found = found[key]
        return found


def _choices(schema: Mapping[str, Any]) -> dict[str, Any] | None:
    """The choices of `const` and `enum`, where there are and they are few enough for a grammar."""
    choices = [schema["const"]] if "const" in schema else schema.get("enum")
    if not isinstance(choices, list) or not 0 < len(choices) <= _MAX_CHOICES:
        return None
    return {"enum": choices} if len(json.dumps(choices)) <= _MAX_CHOICE_CHARACTERS else None


def _bounds(schema: Mapping[str, Any], low: str, high: str, least: int, most: int) -> dict[str, int]:
    """Both bounds, or the one that is there, as far as they are whole, in order and within reason."""
    found = {
        keyword: int(value)
        for keyword in (low, high)
        if isinstance(value := schema.get(keyword), int | float)
        and not isinstance(value, bool)
        and least <= value <= most
        and value == int(value)
    }
    return {} if found.get(low, least) > found.get(high, most) else found
