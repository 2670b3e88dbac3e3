"""JSON text to values and back: numbers as written, nothing that is no JSON."""

import copy
import json
from typing import Any

import pytest

from rowcrew.domain.json_text import WrittenFloat, compact, holds_written, read


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
