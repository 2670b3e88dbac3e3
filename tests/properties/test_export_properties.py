"""Whatever rows hold and workers answer, the table reads back the same and can be the next job's input."""

import csv
import io
import json
from datetime import datetime
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from rowcrew.domain.export import ENGINE_COLUMNS, cells, columns, csv_lines, guarded, record, rfc3339
from rowcrew.domain.intake import Table, TableOptions
from rowcrew.domain.item import JobItem, JobItemStatus
from rowcrew.domain.json_text import compact, read
from rowcrew.domain.schema import check_result, parse_answer

CHARACTERS = st.one_of(
    st.sampled_from(",\"\r\n\t =+-@\uff1d\ufeff\u2028\x0b\x1c'{}"),
    st.characters(exclude_characters="\0", exclude_categories=["Cs"]),
)
CELLS = st.text(CHARACTERS, max_size=10)
NAMES = st.one_of(st.sampled_from([*ENGINE_COLUMNS, "result.a", "rowcrew_status", "rowcrew_status_2"]), CELLS)
HEADERS = st.lists(NAMES.filter(str.strip), min_size=1, max_size=6, unique=True)
PROPERTIES = st.lists(st.one_of(st.just("a"), CELLS), max_size=4, unique=True)
ANY_TEXT = st.text(max_size=8)  # lone surrogates and NUL too
VALUES = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), ANY_TEXT
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(ANY_TEXT, inner, max_size=3)),
    max_leaves=8,
)


def an_item(row: dict[str, str], *, result_json: str | None = None, last_error: str | None = None) -> JobItem:
    return JobItem(
        job_id="J",
        item_id="row-1",
        row_index=0,
        source_id=None,
        row=row,
        status=JobItemStatus.COMPLETED,
        assigned_thread_id=None,
        attempt_count=1,
        result_json=result_json,
        last_error=last_error,
        error_class=None,
        not_before_at_ms=0,
        created_at_ms=0,
        updated_at_ms=0,
        completed_at_ms=1,
        reported_at_ms=1,
    )


def table_of(header: tuple[str, ...], row: list[str]) -> bytes:
    return "".join(csv_lines(iter([list(header), row]))).encode()


@given(HEADERS, PROPERTIES)
def test_no_two_columns_have_one_name_however_often_an_output_becomes_an_input(
    headers: list[str], properties: list[str]
) -> None:
    names = tuple(headers)
    for _ in range(3):
        shape = columns(names, properties)
        assert shape.input == names
        assert len(set(shape.names)) == len(shape.names)
        names = shape.names


@given(st.data(), HEADERS, PROPERTIES, st.dictionaries(CELLS, VALUES, max_size=3), ANY_TEXT, st.booleans())
def test_a_table_is_read_back_the_same_by_csv_and_by_the_next_job(
    data: st.DataObject,
    headers: list[str],
    properties: list[str],
    result: dict[str, Any],
    error: str,
    raw: bool,
) -> None:
    row = {name: data.draw(CELLS, label="cell") for name in headers}
    item = an_item(row, result_json=compact(check_result(result, None)), last_error=error)
    shape = columns(headers, properties)
    written = cells(item, shape, raw=raw)
    content = table_of(shape.names, written)

    assert list(csv.reader(io.StringIO(content.decode(), newline=""), strict=True)) == [
        list(shape.names),
        written,
    ]
    assert written[: len(headers)] == list(row.values())
    table = Table.survey(lambda: [content], TableOptions())
    assert table.headers == shape.names
    assert [item.cells for item in table.items()] == [tuple(written)]


@given(st.dictionaries(ANY_TEXT, VALUES, max_size=4))
def test_a_result_is_stored_as_json_that_says_the_same(result: dict[str, Any]) -> None:
    cleaned = check_result(result, None)
    text = compact(cleaned)
    text.encode()
    assert read(text) == cleaned == parse_answer(text)
    assert (
        json.loads(compact(record(an_item({}, result_json=text), columns((), ()))))["result_json"] == cleaned
    )


@given(
    st.from_regex(r"-?(0|[1-9][0-9]{0,30})(\.[0-9]{1,25})?([eE][+-]?[0-9]{1,2})?", fullmatch=True).filter(
        lambda text: text != "-0"
    )
)
def test_a_number_is_exported_with_the_text_it_was_reported_with(number: str) -> None:
    stored = compact(check_result(parse_answer(f'{{"n":[{number}],"m":{number}}}'), None))
    assert stored == f'{{"n":[{number}],"m":{number}}}'
    assert cells(an_item({}, result_json=stored), columns((), ("m", "n")), raw=False)[-2:] == [
        number,
        f"[{number}]",
    ]


@given(CELLS)
def test_a_guarded_cell_never_begins_like_a_formula_and_loses_nothing(cell: str) -> None:
    shown = guarded(cell)
    assert shown in (cell, f"'{cell}")
    begins = shown.lstrip()[:1]
    assert begins not in ("=", "@", "\uff1d") or not begins
    if begins in ("+", "-") and begins:
        float(shown)
    assert guarded(shown) == shown


@given(st.integers(0, 253_402_300_799_999))
def test_a_time_keeps_its_millisecond(at_ms: int) -> None:
    text = rfc3339(at_ms)
    assert len(text) == 24
    back = datetime.fromisoformat(text) - datetime.fromisoformat("1970-01-01T00:00:00Z")
    assert (back.days * 86400 + back.seconds) * 1000 + back.microseconds // 1000 == at_ms
