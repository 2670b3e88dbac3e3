"""What goes into a cell comes out of it as the same text, or as the nearest that any reader takes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rowcrew.processes import ProcessIdentity
from rowcrew.store.cells import plain, plain_json, process_from_json, process_to_json


@given(st.text())
def test_text_that_utf8_can_hold_is_left_alone(text: str) -> None:
    assert plain(text) == text


@given(st.text(st.characters(categories=["Cs", "L"])))
def test_any_text_can_be_held_afterwards(text: str) -> None:
    assert plain(text).encode("utf-8").decode("utf-8") == plain(text)


@pytest.mark.parametrize(
    ("text", "kept"), [("a\ud800b", "a\ufffdb"), ("\udc00", "\ufffd"), ("\ud83d\ude00", "\U0001f600")]
)
def test_lone_surrogates_are_replaced_and_pairs_are_joined(text: str, kept: str) -> None:
    assert plain(text) == kept


def test_json_is_compact_and_has_null_for_what_it_has_no_word_for() -> None:
    value = {"a": [1, (float("nan"), -float("inf"))], "b": {"c": float("inf")}, "ü": "\ud800"}
    assert plain_json(value) == '{"a":[1,[null,null]],"b":{"c":null},"ü":"\ufffd"}'


def test_a_process_comes_back_as_itself() -> None:
    process = ProcessIdentity(7, "123", "boot")
    assert process_from_json(process_to_json(process)) == process
    assert process_from_json(None) is None
