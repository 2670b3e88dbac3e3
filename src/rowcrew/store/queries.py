"""Named queries from the files in sql/. A query is found by the name in its ``-- name:`` line."""

from functools import cache
from importlib.resources import files
from types import SimpleNamespace
from typing import Any

MARK = "-- name:"


def parse(text: str) -> dict[str, str]:
    """The queries of one file by name. Raises ValueError for a name that stands twice."""
    found: dict[str, str] = {}
    for block in text.split(MARK)[1:]:
        name, _, body = block.partition("\n")
        name = name.strip()
        if name in found:
            raise ValueError(f"the query {name} stands twice")
        found[name] = "\n".join(
            line for line in body.strip().splitlines() if not line.startswith("--")
        ).strip()
    return found


@cache
def load(subject: str) -> Any:
    """The queries of sql/<subject>.sql as attributes; a missing name is an AttributeError."""
    text = files("rowcrew.store").joinpath("sql", f"{subject}.sql").read_text("utf-8")
    return SimpleNamespace(**parse(text))
