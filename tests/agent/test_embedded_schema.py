"""What of a schema reaches the embedded model."""

from typing import Any

import pytest

from rowcrew.agent.embedded_schema import narrow


def test_a_plain_schema_stays_as_it_is() -> None:
    schema = {
        "type": "object",
        "properties": {
            "label": {"enum": ["a", "b"]},
            "score": {"type": "integer", "minimum": 1, "maximum": 5},
            "tags": {"type": "array", "items": {"type": "string", "maxLength": 20}, "maxItems": 3},
        },
        "required": ["label"],
        "additionalProperties": False,
    }
    assert narrow(schema) == schema


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"type": "string", "pattern": "^x{5,2}$", "format": "email"}, {"type": "string"}),
        ({"type": "string", "minLength": 100_000}, {"type": "string"}),
        ({"type": "integer", "minimum": 5, "maximum": 2}, {"type": "integer"}),
        ({"type": "integer", "minimum": -(10**40), "maximum": True}, {"type": "integer"}),
        ({"type": ["string", "null"]}, {"anyOf": [{"type": "string"}, {"type": "null"}]}),
        ({"oneOf": [{"type": "null"}, {"const": 1}]}, {"anyOf": [{"type": "null"}, {"enum": [1]}]}),
        ({"enum": []}, {}),
        ({"enum": ["x" * 30_000]}, {}),
        ({"not": {}}, {}),
        ({"$ref": "#/$defs/nowhere"}, {}),
        ({"$ref": "https://example.com/"}, {}),
        ({"type": "object", "required": ["a"]}, {"type": "object"}),
        (True, {}),
    ],
)
def test_what_could_take_the_model_down_is_left_out(schema: Any, expected: dict[str, Any]) -> None:
    assert narrow(schema) == expected


def test_references_are_replaced_by_what_they_name() -> None:
    schema = {"properties": {"a/b": {"$ref": "#/$defs/x~1y"}}, "$defs": {"x/y": {"type": "boolean"}}}
    assert narrow(schema)["properties"] == {"a/b": {"type": "boolean"}}


def test_endless_references_come_to_an_end() -> None:
    assert (
        narrow({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}) == {}
    )
    wide = {"properties": {name: {"$ref": "#"} for name in "abcdefgh"}}
    assert len(str(narrow(wide))) < 100_000
