"""A table in: header, rows kept, ids, selection, notices, the second reading. No store, no files but data."""

import hashlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rowcrew.domain.intake import Table, TableOptions
from rowcrew.domain.item import JobItemSpec
from rowcrew.errors import InvalidRequest

DATA = Path(__file__).parent.parent / "data"


def survey(content: bytes | str, **options: Any) -> Table:
    data = content if isinstance(content, bytes) else content.encode()
    return Table.survey(lambda: [data], TableOptions(**options))


def rows_of(content: bytes | str, **options: Any) -> list[tuple[str, ...]]:
    return [item.cells for item in survey(content, **options).items()]


def ids_of(content: bytes | str, **options: Any) -> list[str]:
    return [item.item_id for item in survey(content, **options).items()]


def refusal_of(content: bytes | str, **options: Any) -> tuple[str, str | None]:
    with pytest.raises(InvalidRequest) as caught:
        survey(content, **options)
    return caught.value.message, caught.value.hint


def case(name: str) -> bytes:
    return (DATA / name).read_bytes()


# ── what a surveyed table is


def test_a_table_is_its_header_its_rows_and_its_fingerprint() -> None:
    data = b"id,text\n7,seven\n,none\n 9 ,nine\n"
    table = survey(data, id_column="id")
    assert (table.headers, table.row_count, table.total_rows, table.notices) == (("id", "text"), 3, 3, ())
    assert (table.digest, table.size) == (hashlib.sha256(data).hexdigest(), len(data))
    expected = [
        JobItemSpec("7", 0, "7", ("7", "seven")),
        JobItemSpec("row-2", 1, None, ("", "none")),
        JobItemSpec("9", 2, " 9 ", (" 9 ", "nine")),
    ]
    assert list(table.items()) == expected
    assert list(table.items()) == expected  # and again


def test_without_an_id_column_rows_are_named_by_number_and_have_no_source_id() -> None:
    assert list(survey("id,q\n7,a\n7,b\n").items()) == [
        JobItemSpec("row-1", 0, None, ("7", "a")),
        JobItemSpec("row-2", 1, None, ("7", "b")),
    ]


def test_cells_are_never_numbers_dates_or_missing_values() -> None:
    row = ("007", "NA", "1e5", "12345678901234567890", "null", "=1+1", " 2024-01-01 ", "TRUE")
    assert rows_of(f"a,b,c,d,e,f,g,h\n{','.join(row)}\n") == [row]


def test_a_byte_order_mark_is_not_part_of_the_first_header() -> None:
    assert survey(case("02-bom-header/bom.csv"), id_column="id").headers == ("id", "text")
    assert ids_of(case("02-bom-header/bom.csv"), id_column="id") == ["a1", "a2"]
    assert ids_of(case("02-bom-header/bom-quoted-header.csv"), id_column="id") == ["a1"]


def test_a_cell_of_200_000_characters_is_read() -> None:
    big = "x" * 200_000
    assert rows_of(f"id,body\nbig,{big}\nsmall,y\n") == [("big", big), ("small", "y")]


def test_line_breaks_inside_quotes_are_kept_to_the_character() -> None:
    assert rows_of(case("39-embedded-newlines/in.csv")) == [
        ("1", "line one\nline two"),
        ("2", "crlf\r\ninside"),
        ("3", 'quote " and , comma'),
        ("4", "nel \u0085 ls \u2028 ps \u2029 vt \u000b ff \f fs \u001c"),
        ("5", ""),
    ]
    assert rows_of(case("39-embedded-newlines/no-final-newline.csv")) == [("1", "last")]


def test_a_named_encoding_is_used_and_a_mark_outweighs_it_with_a_notice() -> None:
    data = "id,text\n1,né\n"
    assert rows_of(data.encode("cp1252"), encoding="cp1252") == [("1", "né")]
    assert rows_of(data.encode("utf-16"), encoding="utf-16") == [("1", "né")]
    table = survey(data.encode("utf-8-sig"), encoding="cp1252")
    assert table.notices == ("the file's byte-order mark says UTF-8: --encoding cp1252 is not used",)
    assert [item.cells for item in table.items()] == [("1", "né")]
    assert survey(data.encode("utf-8-sig"), encoding="UTF8").notices == ()
    assert survey(data.encode("utf-16"), encoding="utf-16").notices == ()


def test_what_is_not_utf_8_is_refused() -> None:
    assert refusal_of(b"id\ncaf\xe9\n") == (
        "the file is not UTF-8: byte 0xE9 at offset 6, on line 2",
        "name the encoding that the file was written in, for example --encoding cp1252",
    )


# ── header


@pytest.mark.parametrize("name", ["zero-bytes.csv", "newlines-only.csv", "bom-only.csv"])
def test_a_file_without_a_header_is_refused(name: str) -> None:
    assert refusal_of(case(f"42-empty-inputs/{name}")) == (
        "the table has no header row: it is empty",
        "the first line must name the columns",
    )


@pytest.mark.parametrize("name", ["header-only.csv", "header-no-newline.csv"])
def test_a_header_alone_is_a_table_of_no_rows_with_a_notice(name: str) -> None:
    table = survey(case(f"42-empty-inputs/{name}"), id_column="id", limit=3, sample=2)
    assert (table.headers, table.row_count, list(table.items())) == (("id", "q"), 0, [])
    assert table.notices == ("the table has a header and no rows: there is nothing to do",)


def test_blank_lines_before_the_header_are_no_header() -> None:
    table = survey("\n  \n\nid,q\n1,a\n")
    assert (table.headers, table.row_count) == (("id", "q"), 1)


def test_a_repeated_header_is_refused_with_its_positions() -> None:
    hint = "every column needs a name of its own"
    assert refusal_of(case("12-duplicate-headers/in.csv")) == (
        'the header names "score" more than once: columns 2 and 3',
        hint,
    )
    assert refusal_of("a,b,a,c,a\n")[0] == 'the header names "a" more than once: columns 1, 3 and 5'


def test_headers_that_differ_in_case_or_blanks_are_different_columns() -> None:
    table = survey(case("12-duplicate-headers/case-only.csv"))
    assert (table.headers, [item.cells for item in table.items()]) == (
        ("id", "Score", "score"),
        [("r1", "10", "20")],
    )
    assert survey("a, a,a \n").headers == ("a", " a", "a ")


@pytest.mark.parametrize(
    ("header", "position"), [("id,,q", 2), ("id,q,", 3), ("id,  ,q", 2), (",,", 1), ('""', 1)]
)
def test_a_blank_header_is_refused_with_its_position(header: str, position: int) -> None:
    assert refusal_of(f"{header}\n1,2,3\n") == (
        f"column {position} of the header has no name",
        "every column needs a name of its own in the first line",
    )


# ── rows


def test_blank_rows_are_skipped_and_do_not_shift_the_numbers_of_others() -> None:
    assert list(survey(case("41-blank-rows/in.csv")).items()) == [
        JobItemSpec("row-1", 0, None, ("1", "a")),
        JobItemSpec("row-2", 1, None, ("2", "b")),
    ]


def test_a_blank_row_of_another_length_is_skipped_too() -> None:
    assert rows_of(case("11-ragged-rows/blank-ragged.csv")) == [("1", "Ada", "A"), ("3", "Cy", "C")]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("short.csv", "line 3 has 2 fields, the header has 3"),
        ("long.csv", "line 3 has 4 fields, the header has 2"),
        ("after-multiline.csv", "line 4 has 1 field, the header has 2"),
    ],
)
def test_a_row_of_another_length_is_refused_by_physical_line(name: str, message: str) -> None:
    assert refusal_of(case(f"11-ragged-rows/{name}")) == (
        message,
        "every row needs as many fields as the header; a cell that holds the delimiter must be quoted",
    )


def test_up_to_five_rows_of_another_length_are_named_at_once() -> None:
    assert refusal_of("a,b\n1,2\n1\n1,2\n" + "1,2,3\n" * 9)[0] == (
        "line 3 has 1 field, the header has 2; line 5 has 3 fields, the header has 2; "
        "line 6 has 3 fields, the header has 2; line 7 has 3 fields, the header has 2; "
        "line 8 has 3 fields, the header has 2"
    )


def test_a_row_of_another_length_is_refused_wherever_the_selection_is() -> None:
    assert refusal_of("a,b\n1,2\n1,2\n1\n", limit=1)[0] == "line 4 has 1 field, the header has 2"


# ── delimiters


def test_only_the_delimiter_that_was_named_splits() -> None:
    assert rows_of(case("20-delimiters/one-column.csv")) == [
        ("https://a.example/x;y",),
        ("https://b.example/q",),
    ]
    assert rows_of(case("20-delimiters/commas-with-semicolons.csv")) == [("1", "a;b;c;d"), ("2", "e;f;g;h")]
    assert rows_of(case("20-delimiters/semicolon.csv"), delimiter=";") == [
        ("1", "4,50", "a;b"),
        ("2", "3,00", "plain"),
    ]
    assert rows_of(case("20-delimiters/tab.tsv"), delimiter="\t") == [("1", "a,b"), ("2", "c;d")]
    assert rows_of(case("20-delimiters/tab.tsv"), delimiter="\\t") == [("1", "a,b"), ("2", "c;d")]


def test_a_missing_id_column_is_refused_with_the_delimiter_that_the_header_suggests() -> None:
    assert refusal_of(case("20-delimiters/semicolon.csv"), id_column="id") == (
        'there is no column "id" to take ids from; the column is "id;price;note"',
        "the header looks `;`-separated: try `--delimiter ';'`",
    )
    assert refusal_of(case("20-delimiters/sep-line.csv"), id_column="id") == (
        'there is no column "id" to take ids from; the column is "sep=;"',
        "the header looks `;`-separated: try `--delimiter ';'`",
    )
    assert refusal_of(case("20-delimiters/tab.tsv"), id_column="id")[1] == (
        "the header looks TAB-separated: try `--delimiter '\\t'`"
    )


def test_rows_of_another_length_are_refused_with_the_delimiter_that_the_header_suggests() -> None:
    assert refusal_of(case("20-delimiters/semicolon.csv")) == (
        "line 2 has 2 fields, the header has 1; line 3 has 2 fields, the header has 1",
        "the header looks `;`-separated: try `--delimiter ';'`",
    )


def test_a_sep_line_that_agrees_with_the_delimiter_is_no_header() -> None:
    table = survey(case("20-delimiters/sep-line.csv"), delimiter=";", id_column="id")
    assert (table.headers, list(table.items())) == (("id", "note"), [JobItemSpec("1", 0, "1", ("1", "x"))])


def test_a_missing_id_column_is_refused_with_the_columns_and_the_nearest_one() -> None:
    assert refusal_of("Id,note\n1,a\n", id_column="id") == (
        'there is no column "id" to take ids from; the columns are "Id", "note"; did you mean "Id"?',
        None,
    )
    assert refusal_of("\xa0id,b \n", id_column="id")[0] == (
        'there is no column "id" to take ids from; '
        'the columns are "\\u00a0id", "b "; did you mean "\\u00a0id"?'
    )
    assert refusal_of("alpha,b\n", id_column="zzz")[0] == (
        'there is no column "zzz" to take ids from; the columns are "alpha", "b"'
    )


def test_a_refusal_stays_readable_however_wide_the_table_is() -> None:
    header = ",".join([f"c{number}" for number in range(100)] + ["x" * 5000])
    message, _ = refusal_of(f"{header}\n", id_column="x" * 5001)
    assert message.endswith(f', "c19" and 81 more; did you mean "{"x" * 60}…"?')


# ── quotes and odd characters, as seen from the table


def test_an_unclosed_quote_is_refused_and_a_stray_one_is_text() -> None:
    assert refusal_of(case("21-unclosed-quote/in.csv"))[0] == "the quote that opens on line 2 is never closed"
    assert refusal_of(case("21-unclosed-quote/stray-quote.csv"))[0] == (
        "line 4 has text after a closing quote"
    )
    assert rows_of('id,text\n1,5" pipe\n') == [("1", '5" pipe')]


def test_a_nul_is_refused() -> None:
    assert refusal_of("id\n1\n\0\n")[0] == "line 3 holds a NUL character, which no text has"


# ── ids


def test_repeated_ids_are_told_apart_and_one_notice_says_how_many() -> None:
    table = survey(case("36-duplicate-ids/in.csv"), id_column="id")
    assert [(item.item_id, item.source_id) for item in table.items()] == [
        ("a", "a"),
        ("a-3", "a"),
        ("a-2", "a-2"),
        ("row-4", None),
        ("row-5", None),
        ("A", "A"),
        ("a-4", "a "),
    ]
    assert table.notices == ('2 rows repeat an id in column "id": -2, -3 … is added to tell them apart',)


def test_ids_do_not_depend_on_which_rows_are_selected() -> None:
    content = "id\na\na\nb\na\nb\n"
    assert ids_of(content, id_column="id") == ["a", "a-2", "b", "a-3", "b-2"]
    assert ids_of(content, id_column="id", range=(1, None), limit=3) == ["a-2", "b", "a-3"]


# ── selection


NUMBERS = "n\n" + "".join(f"{number}\n" for number in range(100))


def numbers_of(**options: Any) -> list[int]:
    return [int(row[0]) for row in rows_of(NUMBERS, **options)]


def test_limit_takes_the_first_rows() -> None:
    assert numbers_of(limit=3) == [0, 1, 2]
    assert numbers_of(limit=10**30) == list(range(100))


@pytest.mark.parametrize(
    ("bounds", "expected"),
    [
        ((10, 13), [10, 11, 12]),
        ((None, 2), [0, 1]),
        ((98, None), [98, 99]),
        ((None, None), list(range(100))),
        ((99, 10**30), [99]),
    ],
)
def test_range_is_half_open(bounds: tuple[int | None, int | None], expected: list[int]) -> None:
    assert numbers_of(range=bounds) == expected


def test_row_numbers_under_a_selection_are_those_of_the_whole_table() -> None:
    table = survey("q\n\na\n\nb\n", range=(1, 2))
    assert (table.row_count, table.total_rows) == (1, 2)
    assert list(table.items()) == [JobItemSpec("row-2", 1, None, ("b",))]


def test_a_range_past_the_end_selects_nothing_and_says_so() -> None:
    table = survey(NUMBERS, range=(100, 200))
    assert (table.row_count, list(table.items())) == (0, [])
    assert table.notices == ("the selection holds none of the table's 100 rows",)


def test_a_sample_is_in_file_order_without_repeats_and_the_same_for_the_same_seed() -> None:
    sample = numbers_of(sample=10, seed=7)
    assert sample == numbers_of(sample=10, seed=7) == sorted(set(sample))
    assert len(sample) == 10
    assert sample != numbers_of(sample=10, seed=8)
    assert numbers_of(sample=10) == numbers_of(sample=10)
    assert numbers_of(sample=10**30, seed=7) == list(range(100))


def test_range_comes_first_then_the_sample_then_the_limit() -> None:
    sample = numbers_of(range=(50, 90), sample=10, seed=1)
    assert set(sample) <= set(range(50, 90))
    assert numbers_of(range=(50, 90), sample=10, seed=1, limit=4) == sample[:4]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"limit": 0}, "--limit must be at least 1, not 0"),
        ({"limit": -1}, "--limit must be at least 1, not -1"),
        ({"sample": 0}, "--sample must be at least 1, not 0"),
        ({"sample": -5, "seed": 1}, "--sample must be at least 1, not -5"),
        ({"seed": 1}, "--seed means nothing without --sample"),
        ({"sample": 1, "seed": -1}, "--seed must not be negative: -1"),
        ({"range": (-1, None)}, "--range -1: is negative: rows are counted from 0"),
        ({"range": (None, -1)}, "--range :-1 is negative: rows are counted from 0"),
        ({"range": (5, 5)}, "--range 5:5 holds no row"),
        ({"range": (5, 3)}, "--range 5:3 holds no row"),
        ({"range": (None, 0)}, "--range :0 holds no row"),
        ({"encoding": "klingon"}, 'there is no text encoding named "klingon"'),
        (
            {"delimiter": "::"},
            "the delimiter must be one character other than a quote or a line end, not '::'",
        ),
    ],
)
def test_options_that_make_no_sense_are_refused_before_anything_is_read(
    options: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidRequest) as caught:
        TableOptions(**options)
    assert caught.value.message == message


# ── the second reading


@pytest.mark.parametrize(
    "later",
    [
        "id,q\n1,a\n2,B\n",
        "id,q\n1,a\n",
        "id,q\n1,a\n2,b\n3,c\n",
        "id,q\n1,a\n2,b\n\n",
        "id,Q\n1,a\n2,b\n",
        "id,q\n1,a\n2\n",
        'id,q\n1,a\n2,"b\n',
        "",
    ],
)
@pytest.mark.parametrize("limit", [None, 1])
def test_a_file_that_changed_between_the_readings_is_refused(later: str, limit: int | None) -> None:
    contents = iter(["id,q\n1,a\n2,b\n", later])
    table = Table.survey(lambda: [next(contents).encode()], TableOptions(id_column="id", limit=limit))
    with pytest.raises(InvalidRequest) as caught:
        list(table.items())
    assert caught.value.message == "the file changed while it was being read"


def test_rows_are_streamed_and_no_more_is_read_than_is_asked_for() -> None:
    read: list[int] = []

    def chunks() -> Iterable[bytes]:
        read.clear()
        yield b"n\n"
        for number in range(1000):
            read.append(number)
            yield b"%d\n" % number * 500

    table = Table.survey(chunks, TableOptions())
    assert (table.row_count, len(read)) == (500_000, 1000)
    items: Iterator[JobItemSpec] = table.items()
    assert next(items).cells == ("0",)
    assert len(read) < 100
