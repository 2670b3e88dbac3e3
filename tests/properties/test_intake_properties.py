"""Any table of text comes back the same, however written and cut; ids are unique, no own one is taken."""

import codecs
import csv
import io
from collections import Counter
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from rowcrew.domain.dialect import read_records
from rowcrew.domain.encodings import decode
from rowcrew.domain.intake import Table, TableOptions
from rowcrew.errors import InvalidRequest

CHARACTERS = st.one_of(
    st.sampled_from('",;\t\r\n\n "\'\\é\u0085\u2028\x0b\x1c\ufeff\U0001f600'),
    st.characters(exclude_characters="\0", exclude_categories=["Cs"]),
)
CELLS = st.text(CHARACTERS, max_size=12)
QUOTING = st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL])
LINE_END = st.sampled_from(["\n", "\r\n", "\r"])
DELIMITER = st.sampled_from([",", ";", "\t", "|"])
ENCODINGS = {
    "utf-8": b"",
    "utf-8-sig": b"",  # Python writes the mark itself
    "utf-16-le": codecs.BOM_UTF16_LE,
    "utf-16-be": codecs.BOM_UTF16_BE,
    "utf-32-le": codecs.BOM_UTF32_LE,
    "utf-32-be": codecs.BOM_UTF32_BE,
}


@st.composite
def tables(draw: st.DrawFn) -> list[list[str]]:
    """A header and rows. At least two columns: a lone empty cell cannot be told from an empty line."""
    width = draw(st.integers(2, 5))
    name = CELLS.filter(str.strip)
    header = draw(st.lists(name, min_size=width, max_size=width, unique=True))
    # A file that begins with U+FEFF begins with a byte-order mark.
    header[0] = header[0].lstrip("\ufeff") or "first column"
    rows = draw(st.lists(st.lists(CELLS, min_size=width, max_size=width), max_size=6))
    return [header if len(set(header)) == width else [f"{place}" for place in range(width)], *rows]


def written(rows: list[list[str]], **form: Any) -> str:
    target = io.StringIO(newline="")
    csv.writer(target, **form).writerows(rows)
    return target.getvalue()


def cut(data: st.DataObject, content: bytes) -> list[bytes]:
    places = data.draw(st.lists(st.integers(0, len(content)), max_size=8).map(sorted), label="cuts")
    return [content[start:end] for start, end in zip([0, *places], [*places, len(content)], strict=True)]


@given(
    rows=tables(), quoting=QUOTING, end=LINE_END, delimiter=DELIMITER,
    encoding=st.sampled_from(sorted(ENCODINGS)), data=st.data(),
)  # fmt: skip
def test_what_the_csv_module_writes_comes_back_the_same(
    rows: list[list[str]], quoting: Any, end: str, delimiter: str, encoding: str, data: st.DataObject
) -> None:
    # Before Python 3.13 the writer quotes a lone CR or LF only when its own line end holds that character.
    if quoting == csv.QUOTE_MINIMAL and any("\r" in cell or "\n" in cell for row in rows for cell in row):
        end = "\r\n"
    text = written(rows, quoting=quoting, lineterminator=end, delimiter=delimiter)
    chunks = cut(data, ENCODINGS[encoding] + text.encode(encoding))
    assert [record.cells for record in read_records(decode(chunks, None), delimiter)] == rows

    table = Table.survey(lambda: chunks, TableOptions(delimiter=delimiter))
    kept = [tuple(row) for row in rows[1:] if any(cell.strip() for cell in row)]
    assert table.headers == tuple(rows[0])
    assert [item.cells for item in table.items()] == kept
    assert table.row_count == len(kept)


@given(text=st.text(CHARACTERS, max_size=60), data=st.data())
@example(text='a,"b\rc\n', data=None)
def test_any_text_is_read_the_same_however_it_is_cut(text: str, data: st.DataObject | None) -> None:
    def outcome(chunks: list[bytes]) -> object:
        try:
            return list(read_records(decode(chunks, None), ","))
        except InvalidRequest as refusal:
            return refusal.message, refusal.hint

    content = text.encode()
    single = [content[place : place + 1] for place in range(len(content))]
    assert outcome(single) == outcome([content])
    if data is not None:
        assert outcome(cut(data, content)) == outcome([content])


@given(content=st.binary(max_size=200), data=st.data())
def test_any_bytes_are_a_table_or_a_refusal_and_the_same_however_they_are_cut(
    content: bytes, data: st.DataObject
) -> None:
    def outcome(chunks: list[bytes]) -> object:
        try:
            table = Table.survey(lambda: chunks, TableOptions())
        except InvalidRequest as refusal:
            return refusal.message, refusal.hint
        return table.headers, table.digest, table.size, table.notices, list(table.items())

    assert outcome(cut(data, content)) == outcome([content])


IDS = st.one_of(
    st.sampled_from(["", " ", "a", "a ", "a-2", "a-3", "a-2-2", "row", "row-1", "row-2", "row-3", "row-2-2"]),
    st.from_regex(r"(a|b|row|row-1)(-[0-9]{1,2}){0,2}", fullmatch=True),
    CELLS,
)


@given(ids=st.lists(IDS, max_size=30))
def test_item_ids_are_unique_and_no_made_up_one_is_an_id_of_the_file(ids: list[str]) -> None:
    text = written([["id", "n"], *([one, f"{number}"] for number, one in enumerate(ids))])
    table = Table.survey(lambda: [text.encode()], TableOptions(id_column="id"))
    items = list(table.items())
    own = {one.strip() for one in ids if one.strip()}

    assert [item.row_index for item in items] == list(range(len(ids)))
    assert [item.source_id for item in items] == [one if one.strip() else None for one in ids]
    assert [name for name, count in Counter(item.item_id for item in items).items() if count > 1] == []
    first: set[str] = set()
    for item, one in zip(items, ids, strict=True):
        trimmed = one.strip()
        if trimmed and trimmed not in first:
            assert item.item_id == trimmed
            first.add(trimmed)
        else:
            assert item.item_id not in own
            assert item.item_id.startswith(f"{trimmed}-" if trimmed else f"row-{item.row_index + 1}")
    repeats = sum(1 for one in ids if one.strip()) - len(own)
    assert len([notice for notice in table.notices if "repeat" in notice]) == (1 if repeats else 0)


@given(
    total=st.integers(0, 30),
    start=st.none() | st.integers(0, 40),
    length=st.none() | st.integers(1, 40),
    sample=st.none() | st.integers(1, 40),
    seed=st.integers(0, 3),
    limit=st.none() | st.integers(1, 40),
)
def test_a_selection_is_what_slicing_sampling_and_cutting_off_give(
    total: int, start: int | None, length: int | None, sample: int | None, seed: int, limit: int | None
) -> None:
    content = ("n\n" + "".join(f"{number}\n" for number in range(total))).encode()
    stop = None if length is None else (start or 0) + length
    bounds = (start, stop)
    whole = Table.survey(lambda: [content], TableOptions(id_column="n"))
    table = Table.survey(
        lambda: [content],
        TableOptions(
            id_column="n", range=bounds, sample=sample, seed=None if sample is None else seed, limit=limit
        ),
    )
    in_range = list(whole.items())[start:stop]
    chosen = list(table.items())
    expected = len(in_range) if sample is None else min(sample, len(in_range))
    assert len(chosen) == table.row_count == (expected if limit is None else min(limit, expected))
    assert [item for item in in_range if item in chosen] == chosen
    if sample is None:
        assert chosen == in_range[:limit]
