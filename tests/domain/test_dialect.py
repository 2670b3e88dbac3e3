"""Text to records: what is a line, a cell, a quote, and what is refused on which line."""

import csv
from collections.abc import Iterator

import pytest

from rowcrew.domain import dialect
from rowcrew.domain.dialect import Record, default_delimiter, delimiter_hint, known_delimiter, read_records
from rowcrew.errors import InvalidRequest

MIB = 1024 * 1024
NEWLINE = "\n"


def records_of(*pieces: str, delimiter: str = ",") -> list[tuple[int, list[str]]]:
    return [(record.line, record.cells) for record in read_records(pieces, delimiter)]


def refusal_of(*pieces: str, delimiter: str = ",") -> tuple[str, str | None]:
    with pytest.raises(InvalidRequest) as caught:
        records_of(*pieces, delimiter=delimiter)
    return caught.value.message, caught.value.hint


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_lf_crlf_and_cr_end_a_line(end: str) -> None:
    text = end.join(["a,b", '"1","x', 'y"', "", "2,z"])
    expected = [(1, ["a", "b"]), (2, ["1", f"x{end}y"]), (4, []), (5, ["2", "z"])]
    assert records_of(text) == expected
    assert records_of(text + end) == expected
    assert records_of(*text) == expected


def test_line_ends_may_be_mixed() -> None:
    assert records_of("a\rb\r\nc\nd\n\re") == [
        (1, ["a"]),
        (2, ["b"]),
        (3, ["c"]),
        (4, ["d"]),
        (5, []),
        (6, ["e"]),
    ]


@pytest.mark.parametrize("character", ["\x0b", "\x0c", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029"])
def test_no_other_character_ends_a_line(character: str) -> None:
    assert records_of(f'a{character}b,"c{character}d"\n') == [(1, [f"a{character}b", f"c{character}d"])]


def test_cells_are_text_to_the_character() -> None:
    assert records_of('007, NA ,1e5,"",""""," a ""b"" , c",\t\xa0\n') == [
        (1, ["007", " NA ", "1e5", "", '"', ' a "b" , c', "\t\xa0"])
    ]


def test_a_quote_inside_an_unquoted_cell_is_text() -> None:
    assert records_of('1,5" pipe\n2, "x"\n') == [(1, ["1", '5" pipe']), (2, ["2", ' "x"'])]


@pytest.mark.parametrize("delimiter", [";", "\t", "|", " ", "^", "é"])
def test_any_one_character_separates(delimiter: str) -> None:
    assert records_of(f'a{delimiter}"b{delimiter}"{delimiter}c,d\n', delimiter=delimiter) == [
        (1, ["a", f"b{delimiter}", "c,d"])
    ]


def test_a_quote_that_never_closes_is_refused_on_the_line_where_it_opens() -> None:
    assert refusal_of('id,text\n1,"I never close\n2,second\n3,third\n') == (
        "the quote that opens on line 2 is never closed",
        'close it; a quote that is text inside a quoted cell is written twice ("")',
    )
    assert refusal_of('id,text\r\n"1\r\n","x\r\ny",",\r\n\r\n')[0] == (
        "the quote that opens on line 4 is never closed"
    )
    assert refusal_of('a\n"')[0] == "the quote that opens on line 2 is never closed"


def test_the_opening_line_is_right_after_many_pieces() -> None:
    lines = [f'{number},"two\nlines"\n' for number in range(5000)]
    assert refusal_of(*lines, '1,"open\n', *lines[:1], "end\n")[0] == (
        "line 10002 has text after a closing quote (that quote opens on line 10001)"
    )
    assert refusal_of(*lines, '1,"open\n', "x\n" * 5000)[0] == (
        "the quote that opens on line 10001 is never closed"
    )


def test_text_after_a_closing_quote_is_refused() -> None:
    assert refusal_of('id,text\n1,5" pipe\n2,"ok"\n3,"a"b\n') == (
        "line 4 has text after a closing quote",
        'a quote that is text inside a quoted cell is written twice ("")',
    )
    assert refusal_of('"a" ,b\n')[0] == "line 1 has text after a closing quote"
    assert refusal_of('1,"x\n2,"y"\n')[0] == (
        "line 2 has text after a closing quote (that quote opens on line 1)"
    )


def test_a_quoted_table_with_another_delimiter_is_told_from_a_stray_quote() -> None:
    assert refusal_of('"id";"note"\n')[1] == (
        'a quote that is text inside a quoted cell is written twice (""); '
        "if `;` separates the cells, try `--delimiter ';'`"
    )
    assert str(refusal_of('"id"\t"note"\n')[1]).endswith(
        "if TAB separates the cells, try `--delimiter '\\t'`"
    )


@pytest.mark.parametrize("text", ["id,x\r\n1,a\0b\r\n", 'id,x\r\n"1\0",2\r\n'])
def test_a_nul_is_refused_by_line(text: str) -> None:
    expected = (
        "line 2 holds a NUL character, which no text has",
        "if the file is UTF-16 without a byte-order mark, use --encoding utf-16-le or utf-16-be",
    )
    assert refusal_of(text) == expected
    assert refusal_of(*text) == expected


def test_a_cell_of_16_mib_is_read() -> None:
    body = "x" * (16 * MIB)
    assert records_of("id,body\n", f"1,{body}\n", f'2,"{body}"\n') == [
        (1, ["id", "body"]),
        (2, ["1", body]),
        (3, ["2", body]),
    ]


@pytest.mark.parametrize(
    "cell", ["x" * (16 * MIB + 1), f'"{("x" * 1023 + NEWLINE) * 16 * 1024}x"', "é" * (8 * MIB + 1)]
)
def test_a_larger_cell_is_refused_by_line(cell: str) -> None:
    assert refusal_of("id,body\n", f"1,{cell}\n") == (
        "line 2 has a cell larger than 16 MiB",
        "put large texts into files of their own and their names into the table",
    )


def test_a_quote_that_swallows_a_large_file_is_refused_where_it_opens() -> None:
    def pieces() -> Iterator[str]:
        yield 'id,body\n1,"open\n'
        for _ in range(17):
            yield "2,text\n" * (MIB // 7)
        pytest.fail("read on to the end of a file that is refused already")

    with pytest.raises(InvalidRequest) as caught:
        list(read_records(pieces(), ","))
    assert (caught.value.message, caught.value.hint) == (
        "line 2 has a cell larger than 16 MiB",
        "is the quote that opens on line 2 ever closed?",
    )


def test_a_line_that_never_ends_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dialect, "MAX_LINE_CHARACTERS", 1000)
    endless = ("a," * 100 for _ in iter(int, 1))
    assert refusal_of("id\n", *[next(endless)] * 10)[0] == "line 2 is longer than 1,000 characters"


def test_the_csv_modules_limit_is_as_before_whoever_reads() -> None:
    before = csv.field_size_limit(1234)
    try:
        large = "x" * 5000
        one = read_records([f"{large}\n"] * 2000, ",")
        other = read_records([f"{large}\n"] * 2000, ",")
        assert next(one) == next(other) == Record(1, [large])
        assert csv.field_size_limit() == 1234
        assert (len(list(one)), len(list(other))) == (1999, 1999)
        with pytest.raises(InvalidRequest):
            list(read_records(['"'], ","))
        assert csv.field_size_limit() == 1234
    finally:
        csv.field_size_limit(before)


def test_two_readers_at_once_put_the_limit_back_when_both_are_done() -> None:
    before = csv.field_size_limit(1234)

    def nested() -> Iterator[str]:
        yield "a\n"
        assert records_of("b" * 5000) == [(1, ["b" * 5000])]
        yield "c" * 5000

    try:
        assert records_of(*nested()) == [(1, ["a"]), (2, ["c" * 5000])]
        assert [record.cells for record in read_records(nested(), ",")] == [["a"], ["c" * 5000]]
        assert csv.field_size_limit() == 1234
    finally:
        csv.field_size_limit(before)


@pytest.mark.parametrize("delimiter", ["", '"', "\n", "\r", "\0", ";;", "\\n"])
def test_what_cannot_separate_is_refused(delimiter: str) -> None:
    with pytest.raises(InvalidRequest, match="the delimiter must be one character"):
        known_delimiter(delimiter)


def test_a_tab_may_be_typed_as_an_escape() -> None:
    assert [known_delimiter(typed) for typed in ("\\t", "\t", ";")] == ["\t", "\t", ";"]


def test_only_the_files_name_makes_a_table_tab_separated() -> None:
    assert [default_delimiter(name) for name in ("a.tsv", "A.TAB", "a.csv", "tsv", "a.tsv.csv")] == [
        "\t",
        "\t",
        ",",
        ",",
        ",",
    ]


@pytest.mark.parametrize(
    ("headers", "delimiter", "hint"),
    [
        (["id;note"], ",", "the header looks `;`-separated: try `--delimiter ';'`"),
        (["sep=;"], ",", "the header looks `;`-separated: try `--delimiter ';'`"),
        (["id\tnote"], ",", "the header looks TAB-separated: try `--delimiter '\\t'`"),
        (["id|a|b;c"], ",", "the header looks `|`-separated: try `--delimiter '|'`"),
        (["id,note"], "\t", "the header looks `,`-separated: try `--delimiter ','`"),
        (["id;price", " EUR;note"], ",", "the header looks `;`-separated: try `--delimiter ';'`"),
        (["url"], ",", None),
        (["id", "a;b"], ",", None),
    ],
)
def test_a_header_that_looks_separated_by_something_else_is_seen(
    headers: list[str], delimiter: str, hint: str | None
) -> None:
    assert delimiter_hint(headers, delimiter) == hint
