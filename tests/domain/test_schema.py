"""Output schemas before row 1, and results when they come."""

import enum
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from rowcrew.domain.schema import MAX_DEPTH, InvalidResult, OutputSchema, check_result, compact, parse_answer
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
        {"a": datetime(2026, 1, 2, tzinfo=UTC)},
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


@pytest.mark.parametrize(
    ("document", "why"),
    [
        ({"$defs": {"unused": {"$ref": "#/nope"}}}, "refers to '#/nope', and there is nothing in it"),
        ({"$defs": {"unused": {"$ref": "#nope"}}}, "refers to '#nope', and there is nothing in it"),
        ({"$defs": {"unused": {"pattern": "("}}}, r"does not compile: '\('"),
        ({"$defs": {"unused": {"patternProperties": {"[": {}}}}}, r"does not compile: '\['"),
        ({"dependencies": {"default": {"$ref": "http://127.0.0.1:9/x"}}}, "only references inside it"),
    ],
    ids=str,
)
def test_a_broken_part_that_nothing_uses_is_refused_too(document: dict[str, Any], why: str) -> None:
    with pytest.raises(InvalidRequest, match=why):
        OutputSchema.parse(document)


@pytest.mark.parametrize(
    "document",
    [
        {"$ref": "#/$defs/n", "$defs": {"n": {"type": "array"}}},
        {"allOf": [{}, {"type": "string"}]},
        {"anyOf": [{"type": "array"}, {"enum": [1, "a"]}]},
        {"oneOf": [{"$ref": "#/$defs/n"}, {"$ref": "#/$defs/n"}], "$defs": {"n": {"const": 5}}},
        {"allOf": [False]},
    ],
    ids=str,
)
def test_a_schema_that_no_object_can_fit_is_refused(document: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest, match="a result is always a JSON object"):
        OutputSchema.parse(document)


@pytest.mark.parametrize(
    "document",
    [
        {"$ref": "#"},
        {"allOf": [{"$ref": "#"}] * 30},
        {"anyOf": [{"$ref": "#"}, {"type": "object"}, {"type": "array"}]},
        {"enum": [{}, 1]},
        {"$ref": "#/$defs/0", "$defs": {str(n): {"$ref": f"#/$defs/{(n + 1) % 3000}"} for n in range(3000)}},
    ],
    ids=lambda document: str(document)[:40],
)
def test_schemas_that_lead_to_themselves_come_to_an_end(document: dict[str, Any]) -> None:
    schema = OutputSchema.parse(document)
    assert (schema.properties, schema.misses({})) == ((), [])


def test_references_may_be_anchors_and_pointers_with_escapes() -> None:
    schema = OutputSchema.parse(
        {
            "allOf": [
                {"$ref": "#here"},
                {"$ref": "#/$defs/a%20b~1c"},
                {"$ref": "#/allOf/3"},
                {"properties": {"z": {}}},
            ],
            "$defs": {"a b/c": {"properties": {"y": {}}}, "n": {"$anchor": "here", "properties": {"x": {}}}},
        }
    )
    assert schema.properties == ("x", "y", "z")


def test_a_schema_nested_without_end_is_refused_and_breaks_nothing() -> None:
    deep: dict[str, Any] = {}
    for _ in range(5000):
        deep = {"properties": {"a": deep}}
    with pytest.raises(InvalidRequest, match="nested too deep"):
        OutputSchema.parse(deep)
    with pytest.raises(InvalidRequest, match="nested too deep"):
        OutputSchema.parse('{"not":' * 100_000)


def test_a_schema_file_may_begin_with_a_byte_order_mark_and_hold_lone_surrogates() -> None:
    assert OutputSchema.parse('\ufeff{"properties":{"\\ud800":{}}}').properties == ("\ufffd",)


def test_results_nested_to_the_bound_are_checked_by_a_recursive_schema() -> None:
    schema = OutputSchema.parse((CASES / "recursive.json").read_text("utf-8"))
    result: Any = {"next": 1}
    for _ in range(MAX_DEPTH - 1):
        result = {"next": result}
    with pytest.raises(InvalidResult, match=r'next: 1 is not of type "object"$'):
        check_result(result, schema)


def test_a_miss_of_a_long_value_still_ends_in_the_rule_and_its_path_is_readable() -> None:
    schema = OutputSchema.parse({"properties": {"unit price": {"items": {"type": "integer"}}}})
    [miss] = schema.misses({"unit price": [1, "x" * 10_000]})
    assert miss.startswith('at $["unit price"][1]: "xxx')
    assert miss.endswith('xxx" is not of type "integer"')
    assert len(miss) < 400


class Colour(str, enum.Enum):  # noqa: UP042 - the older spelling is what workers may have
    RED = "red"


class Level(enum.IntEnum):
    HIGH = 3


class OtherFloat(float):
    """As other libraries have them."""


def test_values_of_subclasses_are_taken_as_what_they_are() -> None:
    schema = OutputSchema.parse({"properties": {"c": {"type": "string"}, "f": {"type": "number"}}})
    result = check_result({Colour.RED: Level.HIGH, "c": Colour.RED, "f": OtherFloat(1.5)}, schema)
    assert compact(result) == '{"red":3,"c":"red","f":1.5}'
    assert {type(value) for value in result.values()} == {int, str, float}


def test_what_is_wrong_with_a_result_can_itself_be_stored() -> None:
    for result in ({"\ud800": float("nan")}, {"a": {b"\xff": 1}}, {"a\ud800": {1, 2}}):
        with pytest.raises(InvalidResult) as caught:
            check_result(result, None)
        str(caught.value).encode()


@pytest.mark.parametrize("value", [10**4300, -(10**4300), 10**4300 + 1], ids=["least", "negative", "next"])
def test_integers_just_past_the_bound_are_refused(value: int) -> None:
    with pytest.raises(InvalidResult, match=r"at \$\.n: an integer of more than 4300 digits"):
        check_result({"n": value}, None)


def test_numbers_keep_the_text_they_were_written_with_and_are_checked_all_the_same() -> None:
    text = '{"a":1.10,"b":[1e5,-0.0,2.50],"c":12345678901234567890,"d":0.1}'
    schema = OutputSchema.parse({"properties": {"a": {"maximum": 1}, "b": {"items": {"type": "number"}}}})
    answer = parse_answer(text)
    assert answer == {"a": 1.1, "b": [100000.0, 0.0, 2.5], "c": 12345678901234567890, "d": 0.1}
    assert compact(check_result(answer, None)) == text
    with pytest.raises(InvalidResult, match=r"at \$\.a: 1\.1 is greater than the maximum of 1"):
        check_result(answer, schema)


def test_an_answer_has_no_lone_surrogates_any_more() -> None:
    assert parse_answer('{"\\ud800": "\\udfff\\ud83d\\ude00"}') == {"\ufffd": "\ufffd\U0001f600"}


@pytest.mark.parametrize(
    ("text", "why"),
    [("  ", "the answer is empty"), ('{"a": 1e400}', "too large"), ('{"a": -1e999}', "too large")],
)
def test_an_answer_that_holds_nothing_or_too_much_is_told_so(text: str, why: str) -> None:
    with pytest.raises(InvalidResult, match=why):
        parse_answer(text)


def test_of_a_repeated_key_the_last_counts_and_a_fence_within_text_is_text() -> None:
    assert parse_answer('{"a": 1, "a": 2}') == {"a": 2}
    assert parse_answer('```json\n{"a": "use ```x``` here"}\n```') == {"a": "use ```x``` here"}
