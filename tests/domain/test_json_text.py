"""JSON text to values and back: numbers as written, nothing that is no JSON."""

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rowcrew.domain.json_text import (
    WrittenFloat,
    clean,
    clean_text,
    compact,
    holds_written,
    indented,
    is_deeper_than,
    plain_numbers,
    read,
)


@pytest.mark.parametrize(
    "text",
    ["1.10", "1e5", "-0.0", "2.5E+3", "0.1", "12345678901234567890", '{"a":[1.50,{"b\\"c":1e2}]}', "[]"],
)
def test_a_text_comes_back_to_the_character(text: str) -> None:
    assert compact(read(text)) == text


def test_a_number_that_python_writes_the_same_is_a_plain_float() -> None:
    assert [type(value) for value in read("[0.5, 1.10]")] == [float, WrittenFloat]
    assert not holds_written(read('{"a": [0.5, 1]}'))


def test_a_copy_of_a_number_keeps_its_text() -> None:
    assert compact(copy.deepcopy(read('{"a":1.10}'))) == '{"a":1.10}'


@pytest.mark.parametrize(
    "text", ["NaN", "[Infinity]", "-Infinity", "1e400", "9" * 4301], ids=lambda text: text[:9]
)
def test_what_is_no_number_of_json_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not JSON|too large|more than 4300 digits") as caught:
        read(text)
    assert not isinstance(caught.value, json.JSONDecodeError)


@pytest.mark.parametrize("value", [float("nan"), [float("inf")], {"a": [read("1.10"), float("nan")]}])
def test_what_is_no_number_of_json_is_not_written_either(value: Any) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        compact(value)


def test_other_libraries_get_pythons_own_numbers() -> None:
    plain = plain_numbers(read('{"a":[1.10,2],"b":1e400}'.replace("1e400", "1e5")))
    assert (plain, type(plain["a"][0]), type(plain["b"])) == ({"a": [1.1, 2], "b": 100000.0}, float, float)


@pytest.mark.parametrize(
    ("levels", "text", "deeper"),
    [
        (2, "[[1]]", False),
        (2, "[[[1]]]", True),
        (2, "[[],[],[],[]]", False),
        (1, '["[[[[["]', False),
        (1, '["\\"[[[["]', False),
        (1, '{"a":{}}', True),
        (200, "[" * 100_000, True),
    ],
)
def test_depth_is_told_without_reading(levels: int, text: str, deeper: bool) -> None:
    assert is_deeper_than(levels, text) is deeper


@given(st.text())
def test_text_that_utf8_can_hold_is_left_alone(text: str) -> None:
    assert clean_text(text) == text


@given(st.text(st.characters(categories=["Cs", "L"])))
def test_any_text_can_be_held_afterwards(text: str) -> None:
    assert clean_text(text).encode().decode() == clean_text(text)


@pytest.mark.parametrize(
    ("text", "kept"), [("a\ud800b", "a\ufffdb"), ("\udc00", "\ufffd"), ("\ud83d\ude00", "\U0001f600")]
)
def test_lone_surrogates_are_replaced_and_pairs_are_joined(text: str, kept: str) -> None:
    assert (clean_text(text), clean({text: [text, 1, {"a": text}]})) == (kept, {kept: [kept, 1, {"a": kept}]})


@pytest.mark.parametrize("value", [{}, [], {"a": [], "b": {"c": [1, "ü"]}}, [[1], {}], "x", None, True])
def test_indented_text_is_as_the_standard_library_writes_it(value: Any) -> None:
    expected = json.dumps([value, 1.5], ensure_ascii=False, indent=2)
    assert indented([value, 1.5]) == expected
    assert indented([value, read("1.50")]) == expected.replace("1.5", "1.50")
