"""What goes into a cell comes out of it as the same text, or as the nearest that any reader takes."""

from rowcrew.domain.json_text import read
from rowcrew.processes import ProcessIdentity
from rowcrew.store.cells import plain_json, process_from_json, process_to_json


def test_json_is_compact_and_has_null_for_what_it_has_no_word_for() -> None:
    value = {"a": [1, (float("nan"), -float("inf"))], "b": {"c": float("inf")}, "ü": "\ud800"}
    assert plain_json(value) == '{"a":[1,[null,null]],"b":{"c":null},"ü":"\ufffd"}'


def test_numbers_are_kept_as_they_were_written() -> None:
    text = '{"price":1.10,"id":12345678901234567890,"big":1e5}'
    assert plain_json(read(text)) == text
    assert plain_json([*read(f"[{text}]"), float("nan")]) == f"[{text},null]"


def test_a_process_comes_back_as_itself() -> None:
    process = ProcessIdentity(7, "123", "boot")
    assert process_from_json(process_to_json(process)) == process
    assert process_from_json(None) is None
