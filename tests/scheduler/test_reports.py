"""What is kept of a result that could not be accepted."""

from typing import Any

import pytest

from rowcrew.scheduler.reports import MAX_RAW_ANSWER, readable


def deep() -> Any:
    value: dict[str, Any] = {}
    for _ in range(100_000):
        value = {"a": value}
    return value


class Broken:
    def __repr__(self) -> str:
        raise RuntimeError("not now")


@pytest.mark.parametrize(
    ("result", "text"),
    [
        ({"a": [1, None]}, '{"a":[1,null]}'),
        ({"a": (1,)}, '{"a":[1]}'),
        ({1, 2}, "{1, 2}"),
        ({"a": float("nan")}, "{'a': nan}"),
        ({"a": "\ud800"}, '{"a":"?"}'),
        ({"a": 10**5000}, "(dict that cannot be shown)"),
        (deep(), "(dict that cannot be shown)"),
        (Broken(), "(Broken that cannot be shown)"),
    ],
    ids=["json", "tuple", "set", "nan", "surrogate", "integer", "deep", "broken"],
)
def test_it_is_text_whatever_it_was(result: object, text: str) -> None:
    assert readable(result) == text


def test_of_a_long_one_the_beginning_is_kept() -> None:
    assert readable("x" * 100_000) == '"' + "x" * (MAX_RAW_ANSWER - 1)
