"""From a job and its job items to the cells of a table. It writes no file."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from rowcrew.domain.item import JobItem
from rowcrew.domain.json_text import clean_text, compact, read

ENGINE_COLUMNS = (
    "job_id",
    "item_id",
    "row_index",
    "source_id",
    "status",
    "attempt_count",
    "last_error",
    "result_json",
    "reported_at",
    "completed_at",
)
RESULT_PREFIX = "result."
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# A spreadsheet takes a cell that begins so for a formula, also after blanks and in full width (OWASP: CSV
# injection). TAB and CR are blanks themselves and dangerous at the very start.
_FORMULA = re.compile(r"[\t\r]|[\s\ufeff\u200b]*[=+\-@\uff1d\uff0b\uff0d\uff20]")
_PLAIN_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Columns:
    """The header of a table, in its three parts. All names differ from each other."""

    input: tuple[str, ...]
    engine: tuple[str, ...]
    result: tuple[str, ...]
    properties: tuple[str, ...]

    @property
    def names(self) -> tuple[str, ...]:
        return (*self.input, *self.engine, *self.result)


def columns(headers: Sequence[str], properties: Sequence[str]) -> Columns:
    """The header of a table. The input's names stay; ours give way: `rowcrew_<name>`, `rowcrew_<name>_2` …"""
    taken = set(headers)

    def free(name: str) -> str:
        candidate, number = name, 1
        while candidate in taken:
            number += 1
            candidate = f"rowcrew_{name}" if number == 2 else f"rowcrew_{name}_{number - 1}"
        taken.add(candidate)
        return candidate

    engine = tuple(free(name) for name in ENGINE_COLUMNS)
    result = tuple(free(RESULT_PREFIX + _readable(name)) for name in properties)
    return Columns(tuple(headers), engine, result, tuple(properties))


def cells(item: JobItem, shape: Columns, *, raw: bool) -> list[str]:
    """One row. `raw`: cells that workers wrote are left as they are, formulas too."""
    result = _members(item) if shape.properties else {}
    written_by_workers = [
        _readable(cell)
        for cell in (item.last_error or "", *(_cell(result.get(name)) for name in shape.properties))
    ]
    if not raw:
        written_by_workers = [guarded(cell) for cell in written_by_workers]
    last_error, *expanded = written_by_workers
    return [
        *(item.row[name] for name in shape.input),
        item.job_id,
        item.item_id,
        str(item.row_index),
        item.source_id or "",
        str(item.status),
        str(item.attempt_count),
        last_error,
        item.result_json or "",
        rfc3339(item.reported_at_ms),
        rfc3339(item.completed_at_ms),
        *expanded,
    ]


def record(item: JobItem, shape: Columns) -> dict[str, Any]:
    """One row as JSON, under the same names as in CSV, nothing guarded: `compact` makes a line of it.

    The input's cells are text, the engine's values and results have their own types; `result_json` holds the
    result itself, not its text. What is not there is null.
    """
    result = None if item.result_json is None else read(item.result_json)
    parsed = result if isinstance(result, dict) else {}
    values = [
        item.job_id,
        item.item_id,
        item.row_index,
        item.source_id,
        str(item.status),
        item.attempt_count,
        item.last_error,
        result,
        rfc3339(item.reported_at_ms) or None,
        rfc3339(item.completed_at_ms) or None,
    ]
    return {
        **{name: item.row[name] for name in shape.input},
        **dict(zip(shape.engine, values, strict=True)),
        **{column: parsed.get(name) for column, name in zip(shape.result, shape.properties, strict=True)},
    }


def csv_lines(rows: Iterator[list[str]]) -> Iterator[str]:
    """RFC 4180 with LF line ends; a cell with a line break of any kind is quoted, a bare CR too."""
    for row in rows:
        # A row of one empty cell would be a blank line, which readers skip.
        line = ",".join(quoted(cell) for cell in row)
        yield f"{line or _EMPTY}\n"


_EMPTY = '""'
# A file that began with U+FEFF would lose it to whoever takes it for a byte-order mark.
_NEEDS_QUOTES = re.compile(r'[",\r\n]|^\ufeff')


def quoted(cell: str) -> str:
    """The cell as it stands in a CSV file."""
    if _NEEDS_QUOTES.search(cell) is None:
        return cell
    return '"' + cell.replace('"', '""') + '"'


def guarded(cell: str) -> str:
    """A leading `'` where a spreadsheet would see a formula; plain numbers stay numbers."""
    if _FORMULA.match(cell) is None or _PLAIN_NUMBER.fullmatch(cell.strip(" ")):
        return cell
    return f"'{cell}"


def rfc3339(at_ms: int | None) -> str:
    """Unix milliseconds as `2026-01-02T03:04:05.678Z`; nothing for None."""
    if at_ms is None:
        return ""
    at = _EPOCH + timedelta(milliseconds=at_ms)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _members(item: JobItem) -> Mapping[str, Any]:
    result = None if item.result_json is None else read(item.result_json)
    return result if isinstance(result, dict) else {}


def _readable(text: str) -> str:
    """No NUL and no lone surrogate: no reader of tables, ours included, takes them."""
    return clean_text(text).replace("\0", "\ufffd")


def _cell(value: object) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else compact(value)
