"""A job and its items as cells: columns, collisions, formulas, quoting."""

import csv
import io
import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rowcrew.domain.export import ENGINE_COLUMNS, cells, columns, csv_lines, guarded, quoted, record, rfc3339
from rowcrew.domain.item import JobItem, JobItemStatus
from rowcrew.domain.json_text import compact

DATA = Path(__file__).parents[1] / "data"
ITEM = JobItem(
    job_id="J",
    item_id="r1",
    row_index=0,
    source_id="r1",
    row={"id": "r1", "q": "=1+1"},
    status=JobItemStatus.COMPLETED,
    assigned_thread_id=None,
    attempt_count=1,
    result_json='{"note":"=cmd()","score":-5,"list":[1,null]}',
    last_error=None,
    error_class=None,
    not_before_at_ms=0,
    created_at_ms=0,
    updated_at_ms=0,
    completed_at_ms=1_767_322_984_678,
    reported_at_ms=1_767_322_984_678,
)


def test_a_row_holds_the_input_the_engines_columns_and_one_for_each_property() -> None:
    shape = columns(("id", "q"), ("note", "score", "list", "missing"))
    assert shape.names == (
        "id",
        "q",
        *ENGINE_COLUMNS,
        "result.note",
        "result.score",
        "result.list",
        "result.missing",
    )
    assert cells(ITEM, shape, raw=False) == [
        "r1",
        "=1+1",
        "J",
        "r1",
        "0",
        "r1",
        "completed",
        "1",
        "",
        '{"note":"=cmd()","score":-5,"list":[1,null]}',
        "2026-01-02T03:03:04.678Z",
        "2026-01-02T03:03:04.678Z",
        "'=cmd()",
        "-5",
        "[1,null]",
        "",
    ]
    assert cells(ITEM, shape, raw=True)[-4] == "=cmd()"


def test_a_row_without_a_result_has_empty_cells() -> None:
    item = replace(
        ITEM,
        status=JobItemStatus.FAILED,
        result_json=None,
        reported_at_ms=None,
        source_id=None,
        last_error="@boom",
    )
    assert cells(item, columns(("id",), ("note",)), raw=False)[4:] == [
        "",
        "failed",
        "1",
        "'@boom",
        "",
        "",
        "2026-01-02T03:03:04.678Z",
        "",
    ]


def test_an_output_can_be_the_next_input_three_times_over() -> None:
    headers: tuple[str, ...] = ("id", "status", "item_id", "result_json", "last_error")
    for _ in range(3):
        shape = columns(headers, ("status", "score"))
        assert shape.names[: len(headers)] == headers
        assert len(set(shape.names)) == len(shape.names) == len(headers) + 12
        headers = shape.names
    assert columns(("status", "rowcrew_status"), ()).engine[4] == "rowcrew_status_2"


@pytest.mark.parametrize(
    ("cell", "shown"),
    [
        ("=1", "'=1"),
        ("  =1", "'  =1"),
        ("+x", "'+x"),
        ("-x", "'-x"),
        ("@x", "'@x"),
        ("\tx", "'\tx"),
        ("\rx", "'\rx"),
        ("\n=1", "'\n=1"),
        ("\uff1d1", "'\uff1d1"),
        ("\uff20x", "'\uff20x"),
        ("-5", "-5"),
        ("+1.5e3", "+1.5e3"),
        ("-.5", "-.5"),
        ("-5 or so", "'-5 or so"),
        ("-1+1", "'-1+1"),
        ("a=1", "a=1"),
        ("", ""),
        ("'=1", "'=1"),
    ],
)
def test_a_cell_that_a_spreadsheet_takes_for_a_formula_is_guarded(cell: str, shown: str) -> None:
    assert guarded(cell) == shown


def test_times_are_rfc_3339_in_utc() -> None:
    assert [rfc3339(0), rfc3339(None)] == ["1970-01-01T00:00:00.000Z", ""]


def test_line_breaks_of_every_kind_come_back_as_they_were() -> None:
    lines = (DATA / "13-bare-cr-in-output" / "results.jsonl").read_text("utf-8").splitlines()
    notes = [json.loads(line)["result"]["note"] for line in lines]
    text = "".join(csv_lines(iter([["note"], *([note] for note in notes)])))
    assert [row[0] for row in csv.reader(io.StringIO(text, newline=""))] == ["note", *notes]
    assert quoted("a\rb") == '"a\rb"'


@given(st.lists(st.lists(st.text(alphabet=st.characters(exclude_categories=["Cs"])), min_size=1, max_size=4)))
def test_reading_back_gives_the_same_strings(table: list[list[str]]) -> None:
    text = "".join(csv_lines(iter(table)))
    assert list(csv.reader(io.StringIO(text, newline=""), strict=True)) == table


def test_a_json_record_has_the_result_in_its_own_type() -> None:
    assert record(ITEM, columns(("id", "q"), ("score",))) == {
        "id": "r1",
        "q": "=1+1",
        "job_id": "J",
        "item_id": "r1",
        "row_index": 0,
        "source_id": "r1",
        "status": "completed",
        "attempt_count": 1,
        "last_error": None,
        "result_json": {"note": "=cmd()", "score": -5, "list": [1, None]},
        "reported_at": "2026-01-02T03:03:04.678Z",
        "completed_at": "2026-01-02T03:03:04.678Z",
        "result.score": -5,
    }


def test_numbers_come_out_as_they_were_written() -> None:
    item = replace(ITEM, result_json='{"a":1.10,"b":{"c":[1e5]},"d":12345678901234567890,"e":true,"f":null}')
    shape = columns(("id",), ("a", "b", "d", "e", "f", "g"))
    assert cells(item, shape, raw=False)[-6:] == [
        "1.10", '{"c":[1e5]}', "12345678901234567890", "true", "", ""
    ]  # fmt: skip
    assert '"result_json":{"a":1.10,"b":{"c":[1e5]},"d":12345678901234567890' in compact(record(item, shape))


def test_workers_cells_hold_no_character_that_no_reader_of_tables_takes() -> None:
    item = replace(ITEM, result_json='{"a":"x\\u0000\\ud800y"}', last_error="\0boom")
    shape = columns(("id",), ("a", "n\0"))
    assert cells(item, shape, raw=True)[7] == "\ufffdboom"
    assert cells(item, shape, raw=True)[-2:] == ["x\ufffd\ufffdy", ""]
    assert shape.result == ("result.a", "result.n\ufffd")


def test_a_result_that_is_no_object_has_no_members() -> None:
    assert cells(replace(ITEM, result_json="[1]"), columns(("id",), ("a",)), raw=False)[-1] == ""


def test_a_first_header_that_looks_like_a_byte_order_mark_survives() -> None:
    text = "".join(csv_lines(iter([["\ufeffid", "\ufeff"]])))
    assert next(csv.reader(io.StringIO(text.encode().decode("utf-8-sig")))) == ["\ufeffid", "\ufeff"]
