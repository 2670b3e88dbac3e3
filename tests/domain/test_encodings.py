"""Bytes to text: marks decide, what is no text is refused by place. No quoting here."""

import codecs

import pytest

from rowcrew.domain.encodings import byte_order_mark, decode, known_encoding
from rowcrew.errors import InvalidRequest

TEXT = "id,text\r\n1,né €\U0001f600\r\n"


def text_of(*chunks: bytes, encoding: str | None = None) -> str:
    return "".join(decode(chunks, encoding))


def refusal_of(*chunks: bytes, encoding: str | None = None) -> tuple[str, str | None]:
    with pytest.raises(InvalidRequest) as caught:
        text_of(*chunks, encoding=encoding)
    return caught.value.message, caught.value.hint


@pytest.mark.parametrize(
    ("mark", "encoding"),
    [
        (codecs.BOM_UTF8, "utf-8"),
        (codecs.BOM_UTF16_LE, "utf-16-le"),
        (codecs.BOM_UTF16_BE, "utf-16-be"),
        (codecs.BOM_UTF32_LE, "utf-32-le"),
        (codecs.BOM_UTF32_BE, "utf-32-be"),
    ],
)
@pytest.mark.parametrize("size", [1, 2, 3, 5, 1000])
def test_a_byte_order_mark_decides_and_is_no_text(mark: bytes, encoding: str, size: int) -> None:
    data = mark + TEXT.encode(encoding)
    chunks = [data[start : start + size] for start in range(0, len(data), size)]
    assert text_of(*chunks) == TEXT
    assert text_of(*chunks, encoding="cp1252") == TEXT
    assert byte_order_mark(data) == (encoding, len(mark))


def test_without_a_mark_the_text_is_utf_8() -> None:
    assert text_of(TEXT.encode()) == TEXT


def test_only_the_first_mark_is_no_text() -> None:
    assert text_of("\ufeff\ufeffid".encode()) == "\ufeffid"


@pytest.mark.parametrize("data", [b"", b"\xef\xbb\xbf", b"\xff\xfe"])
def test_nothing_but_a_mark_is_no_text(data: bytes) -> None:
    assert text_of(data) == ""


@pytest.mark.parametrize("encoding", ["cp1252", "latin-1", "UTF_16", "utf-16-be", "utf-8-sig", "gb18030"])
def test_a_named_encoding_is_exact(encoding: str) -> None:
    text = "id,text\n1,né\n"
    assert text_of(text.encode(encoding), encoding=encoding) == text


@pytest.mark.parametrize("size", [1, 3, 1000])
def test_what_is_not_utf_8_is_refused_by_byte_and_line(size: int) -> None:
    data = "id,é\r\n1,ok\r2,ok\n3,caf".encode() + b"\xe9\n4,ok\n"
    chunks = [data[start : start + size] for start in range(0, len(data), size)]
    assert refusal_of(*chunks) == (
        "the file is not UTF-8: byte 0xE9 at offset 22, on line 4",
        "name the encoding that the file was written in, for example --encoding cp1252",
    )
    assert data[22] == 0xE9


def test_the_offset_counts_the_mark_and_what_came_in_earlier_chunks() -> None:
    data = codecs.BOM_UTF8 + b"id\n" + b"x" * 700_000 + b"\n\xff"
    assert refusal_of(data)[0] == f"the file is not UTF-8: byte 0xFF at offset {len(data) - 1}, on line 3"


def test_a_character_cut_off_at_the_end_is_refused_where_it_begins() -> None:
    assert refusal_of(b"id\n\xe2\x82")[0] == "the file is not UTF-8: byte 0xE2 at offset 3, on line 2"
    assert refusal_of(codecs.BOM_UTF16_LE + b"i\0\n\0x")[0] == (
        "the file is not UTF-16-LE: byte 0x78 at offset 6, on line 2"
    )


def test_half_a_character_is_refused() -> None:
    assert refusal_of(b"id\n\xed\xa0\x80")[0] == "the file is not UTF-8: byte 0xED at offset 3, on line 2"
    assert refusal_of(codecs.BOM_UTF16_BE + b"\xd8\x00\x00a")[0] == (
        "the file is not UTF-16-BE: byte 0xD8 at offset 2, on line 1"
    )


@pytest.mark.parametrize("size", [1, 2, 1000])
def test_a_named_encoding_that_does_not_fit_is_refused_too(size: int) -> None:
    data = "名\n前".encode("shift_jis") + b"\n\x82\x01"
    chunks = [data[start : start + size] for start in range(0, len(data), size)]
    assert refusal_of(*chunks, encoding="shift_jis")[0] == (
        "the file is not SHIFT-JIS: byte 0x82 at offset 6, on line 3"
    )
    assert refusal_of(b"a\n\x81", encoding="cp1252")[0] == (
        "the file is not CP1252: byte 0x81 at offset 2, on line 2"
    )


@pytest.mark.parametrize(
    "name", ["klingon", "", "utf-8\0", "hex", "base64", "rot13", "unicode_escape", "utf-7", "idna", "\ud800"]
)
def test_a_name_that_is_no_encoding_of_tables_is_refused(name: str) -> None:
    with pytest.raises(InvalidRequest, match="there is no text encoding named"):
        known_encoding(name)


def test_pieces_stay_small_however_large_the_chunks_are() -> None:
    assert max(map(len, decode([b"x" * 3_000_000], None))) == 256 * 1024


def test_a_refusal_never_advises_what_was_done_already() -> None:
    half = codecs.BOM_UTF16_LE + "id\n1".encode("utf-16-le") + b"\x41"
    assert [
        refusal_of(b"id\n\x81\n")[1],
        refusal_of(b"id\n\x81\n", encoding="cp1252")[1],
        refusal_of(half, encoding="cp1252")[1],
    ] == [
        "name the encoding that the file was written in, for example --encoding cp1252",
        "--encoding names another than it was written in, or the file is damaged",
        "its byte-order mark says so, and outweighs --encoding: the file is damaged or cut off",
    ]


def test_a_name_that_is_no_encoding_is_shown_in_part_where_it_is_long() -> None:
    with pytest.raises(InvalidRequest) as caught:
        known_encoding("x" * 5000)
    assert caught.value.message == f'there is no text encoding named "{"x" * 60}"'


@pytest.mark.parametrize(
    ("head", "what"),
    [
        (b"PK\x03\x04\x14\x00", "a zip archive, as spreadsheet files (.xlsx, .ods) are"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1", "an old spreadsheet file (.xls)"),
        (b"\x1f\x8b\x08\x00", "compressed (gzip)"),
    ],
)
@pytest.mark.parametrize("encoding", [None, "latin-1"])
def test_a_file_that_is_no_text_is_called_what_it_is(head: bytes, what: str, encoding: str | None) -> None:
    assert refusal_of(head, encoding=encoding) == (
        f"the file is no text: it is {what}",
        "save it as CSV and give that",
    )
