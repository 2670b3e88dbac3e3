"""Every named query is used, every used name is there, and the files are in order."""

import re
from pathlib import Path

import pytest

from rowcrew.store.queries import load, parse

STORE = Path(__file__).parents[2] / "src" / "rowcrew" / "store"
FILES = sorted((STORE / "sql").glob("*.sql"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_names_of_a_file_are_those_its_store_uses_in_alphabetical_order(path: Path) -> None:
    names = list(parse(path.read_text("utf-8")))
    code = "".join(
        file.read_text("utf-8") for file in STORE.glob("*.py") if f'load("{path.stem}")' in file.read_text()
    )
    assert names == sorted(names)
    assert set(re.findall(r"queries\.([a-z_]+)", code)) == set(names)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_each_query_stands_under_a_line_that_says_who_calls_it(path: Path) -> None:
    for block in path.read_text("utf-8").split("-- name:")[1:]:
        assert block.splitlines()[1].startswith("-- "), block


def test_a_missing_name_is_an_error() -> None:
    with pytest.raises(AttributeError):
        _ = load("jobs").no_such_query


def test_a_name_that_stands_twice_is_an_error() -> None:
    with pytest.raises(ValueError, match="stands twice"):
        parse("-- name: a\nSELECT 1\n-- name: a\nSELECT 2\n")
