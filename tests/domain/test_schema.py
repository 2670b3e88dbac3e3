"""Output schemas before row 1, and results when they come."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from rowcrew.domain.schema import InvalidResult, OutputSchema, check_result, compact, parse_answer
from rowcrew.errors import InvalidRequest

CASES = Path(__file__).parents[1] / "data" / "70-output-schema"
SCORE = OutputSchema.parse(
    {"type": "object", "properties": {"score": {"type": "integer", "maximum": 5}}, "required": ["score"]}
)


@pytest.mark.parametrize("name", ["bad-type", "not-json", "bad-regex", "remote-ref", "file-ref"])
def test_a_schema_that_cannot_be_used_is_refused_before_the_first_row(name: str) -> None:
    with pytest.raises(InvalidRequest, match="output schema"):
        OutputSchema.parse((CASES / f"{name}.json").read_text("utf-8"))


@pytest.mark.parametrize(
    "document",
    [
        {"$ref": "#/$defs/missing"},
        {"properties": {"a": {"$ref": "other.json"}}},
        {"allOf": [{"$dynamicRef": "http://127.0.0.1:9/x"}]},
        {"$schema": "http://127.0.0.1:9/dialect"},
        {"properties": {"a": {"$schema": "http://127.0.0.1:9/dialect"}}},
        {"type": "array"},
        {"type": ["string", "null"]},
        {"minimum": "x"},
        {"a": float("nan")},
        {"a": datetime.now(UTC)},
    ],
    ids=str,
)
def test_other_unusable_schemas_are_refused_too(document: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest, match="output schema"):
        OutputSchema.parse(document)


@pytest.mark.parametrize("text", ["true", "[]", '"object"'])
def test_a_schema_is_an_object(text: str) -> None:
    with pytest.raises(InvalidRequest, match="must be a JSON object"):
        OutputSchema.parse(text)


def test_a_recursive_schema_works() -> None:
    schema = OutputSchema.parse((CASES / "recursive.json").read_text("utf-8"))
    assert schema.properties == ("next",)
    assert schema.misses({"next": {"next": {}}}) == []
    assert schema.misses({"next": {"next": 1}}) == ['at $.next.next: 1 is not of type "object"']


def test_words_that_only_look_like_references_are_no_references() -> None:
    schema = OutputSchema.parse(
        {"properties": {"$ref": {"type": "string"}, "a": {"enum": [{"$ref": "http://x.example"}]}}}
    )
    assert schema.properties == ("$ref", "a")


def test_properties_are_found_through_local_references_and_all_of() -> None:
    schema = OutputSchema.parse(
        {
            "allOf": [{"$ref": "#/$defs/base"}, {"properties": {"c": {}}}],
            "properties": {"a": {}},
            "$defs": {"base": {"properties": {"b": {}, "a": {}}}},
        }
    )
    assert schema.properties == ("a", "b", "c")


def test_a_miss_names_the_path_and_the_rule() -> None:
    with pytest.raises(InvalidResult, match=r"^at \$\.score: 7 is greater than the maximum of 5$"):
        check_result({"score": 7}, SCORE)
    with pytest.raises(InvalidResult, match=r'at \$: "score" is a required property'):
        check_result({}, SCORE)


@pytest.mark.parametrize("result", [[1], "text", 7, None, True])
def test_a_result_is_an_object(result: object) -> None:
    with pytest.raises(InvalidResult, match=r"^result must be a JSON object$"):
        check_result(result, None)


@pytest.mark.parametrize(
    ("result", "place"),
    [
        ({"a": float("nan")}, r"at \$\.a: nan is not JSON"),
        ({"a": [1, float("inf")]}, r"at \$\.a\[1\]: inf is not JSON"),
        ({"a": 10**4301}, "more than 4300 digits"),
        ({"a": {1, 2}}, "a Python set is not JSON"),
        ({"a": b"x"}, "a Python bytes is not JSON"),
        ({1: "x"}, "the key 1 is not text"),
    ],
)
def test_what_is_no_json_is_refused_naming_the_place(result: object, place: str) -> None:
    with pytest.raises(InvalidResult, match=place):
        check_result(result, None)


def test_lone_surrogates_become_the_replacement_character_and_tuples_arrays() -> None:
    assert check_result({"\ud800k": ("\udfffv", "ok")}, None) == {"\ufffdk": ["\ufffdv", "ok"]}


def test_a_result_nested_without_end_is_refused_and_breaks_nothing() -> None:
    deep: Any = {}
    for _ in range(5000):
        deep = {"a": deep}
    with pytest.raises(InvalidResult, match="nested more than"):
        check_result(deep, None)
    with pytest.raises(InvalidResult, match="nested"):
        parse_answer('{"a":' * 100_000)


@pytest.mark.parametrize(
    "text",
    [
        '{"a": 1}',
        '  \n{"a": 1}\n',
        '```json\n{"a": 1}\n```',
        '```\n{"a": 1}\n```\n',
        '\ufeff{"a": 1}',
    ],
)
def test_an_answer_is_one_object_or_wholly_one_fenced_block(text: str) -> None:
    assert parse_answer(text) == {"a": 1}


@pytest.mark.parametrize(
    "text",
    [
        "",
        'Here it is: {"a": 1}',
        '{"a": 1} {"b": 2}',
        '```json\n{"a": 1}\n```\n```json\n{"b": 2}\n```',
        'Sure!\n```json\n{"a": 1}\n```',
        '{"a": NaN}',
        '{"a": -Infinity}',
        '{"a": ' + "9" * 4301 + "}",
        "[1]",
    ],
)
def test_anything_more_ambiguous_is_an_invalid_result(text: str) -> None:
    with pytest.raises(InvalidResult):
        parse_answer(text)


def test_long_integers_within_the_bound_are_exact() -> None:
    digits = "1" + "0" * 4299
    assert compact(check_result(parse_answer(f'{{"n":{digits}}}'), None)) == f'{{"n":{digits}}}'


def test_compact_json_has_no_blanks_and_keeps_its_letters() -> None:
    assert compact({"a": [1, "é"]}) == '{"a":[1,"é"]}'
    assert json.loads(compact({"a": 1.5})) == {"a": 1.5}
