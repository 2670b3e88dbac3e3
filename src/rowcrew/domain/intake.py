"""A table's bytes to its header and job item specs, in two passes. It opens no file and holds no rows."""

import difflib
import hashlib
import json
import random
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from rowcrew.domain.dialect import delimiter_hint, known_delimiter, read_records
from rowcrew.domain.encodings import byte_order_mark, decode, known_encoding
from rowcrew.domain.item import JobItemSpec
from rowcrew.domain.row_ids import IdColumn, ItemNames
from rowcrew.errors import InvalidRequest

Chunks = Callable[[], Iterable[bytes]]

_RAGGED_ROWS_SHOWN = 5
_COLUMNS_SHOWN = 20
_NAME_SHOWN = 60
_DEFAULT_SEED = 0


@dataclass(frozen=True, slots=True)
class TableOptions:
    """How a table is read and which rows are taken: first the range, then the sample, then the limit.

    `range` is half-open over kept rows from 0. Without a `seed` a sample is the same one every time, so
    that a preview shows what a run will take. A `delimiter` of None is the file name's.
    """

    id_column: str | None = None
    delimiter: str | None = None
    encoding: str | None = None
    limit: int | None = None
    range: tuple[int | None, int | None] | None = None
    sample: int | None = None
    seed: int | None = None

    def __post_init__(self) -> None:
        if self.delimiter is not None:
            known_delimiter(self.delimiter)
        if self.encoding is not None:
            known_encoding(self.encoding)
        for name, count in (("limit", self.limit), ("sample", self.sample)):
            if count is not None and count < 1:
                raise InvalidRequest(f"--{name} must be at least 1, not {count}")
        if self.seed is not None and self.sample is None:
            raise InvalidRequest("--seed means nothing without --sample")
        if self.seed is not None and self.seed < 0:
            raise InvalidRequest(f"--seed must not be negative: {self.seed}")
        if self.range is not None:
            _check_range(*self.range)


def _check_range(start: int | None, stop: int | None) -> None:
    shown = f"{'' if start is None else start}:{'' if stop is None else stop}"
    if (start or 0) < 0 or (stop is not None and stop < 0):
        raise InvalidRequest(f"--range {shown} is negative: rows are counted from 0")
    if stop is not None and stop <= (start or 0):
        raise InvalidRequest(
            f"--range {shown} holds no row",
            hint="the end is not part of the range: 0:10 is the first ten rows",
        )


class _Pass:
    """One reading of the bytes: their digest and size, and the records in them."""

    def __init__(self, chunks: Chunks, options: TableOptions) -> None:
        self.size = 0
        self.head = b""
        self._sha256 = hashlib.sha256()
        self._bytes = self._measured(chunks())
        self._delimiter = known_delimiter(options.delimiter or ",")
        self.records = read_records(decode(self._bytes, options.encoding), self._delimiter)

    def _measured(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        for chunk in chunks:
            self._sha256.update(chunk)
            self.size += len(chunk)
            if len(self.head) < 4:
                self.head += chunk[:4]
            yield chunk

    def header(self) -> list[str]:
        """The first record that is not an empty line; InvalidRequest when there is none."""
        for record in self.records:
            cells = record.cells
            if cells == ["sep=", ""]:
                continue  # a line `sep=;` of spreadsheet programs, which agrees with the delimiter in use
            if len(cells) > 1 or (cells and (cells[0] == "" or cells[0].strip())):
                return cells
        raise InvalidRequest(
            "the table has no header row: it is empty",
            hint="the first line must name the columns",
        )

    def rows(self, headers: Sequence[str]) -> Iterator[list[str]]:
        """The cells of the rows that are kept; InvalidRequest where rows are of another length."""
        width = len(headers)
        ragged: list[tuple[int, int]] = []
        for record in self.records:
            cells = record.cells
            if len(cells) == width and not ragged:
                if any(map(str.strip, cells)):
                    yield cells
            elif len(cells) != width and any(map(str.strip, cells)):
                ragged.append((record.line, len(cells)))
                if len(ragged) == _RAGGED_ROWS_SHOWN:
                    break
        if ragged:
            raise _ragged(ragged, headers, self._delimiter)

    def digest(self) -> str:
        """The SHA-256 of all bytes, reading on to their end."""
        for _ in self._bytes:
            pass
        return self._sha256.hexdigest()


class Table:
    """A surveyed table. Of its rows only what ids need is held; `row_count` counts the selected ones."""

    def __init__(self, chunks: Chunks, options: TableOptions, survey: _Pass) -> None:
        self._chunks = chunks
        self._options = options
        self._first_cells = survey.header()
        _check_headers(self._first_cells)
        self.headers = tuple(self._first_cells)
        self._ids = self._count(survey)
        self._selection = _select(options, self.total_rows)
        self.row_count = len(self._selection)
        self.digest = survey.digest()
        self.size = survey.size
        self.notices = tuple(self._notices(survey.head))

    @classmethod
    def survey(cls, chunks: Chunks, options: TableOptions) -> "Table":
        """Reads all of it once; InvalidRequest when it is no table. `items` calls `chunks` again."""
        return cls(chunks, options, _Pass(chunks, options))

    def _count(self, survey: _Pass) -> IdColumn | None:
        ids = None
        total = 0
        if self._options.id_column is None:
            for total, _ in enumerate(survey.rows(self.headers), 1):  # noqa: B007
                pass
        else:
            ids = IdColumn(
                _find_column(self._options.id_column, self.headers, self._options.delimiter or ",")
            )
            for total, cells in enumerate(survey.rows(self.headers), 1):  # noqa: B007
                ids.add(cells[ids.position])
            ids.settle()
        self.total_rows = total
        return ids

    def _notices(self, head: bytes) -> Iterator[str]:
        mark = byte_order_mark(head)
        if mark and self._options.encoding is not None:
            named = known_encoding(self._options.encoding).removesuffix("-sig")
            if not mark[0].startswith(named):
                yield f"the file's byte-order mark says {mark[0].upper()}: --encoding {named} is not used"
        if self.total_rows == 0:
            yield "the table has a header and no rows: there is nothing to do"
        elif self.row_count == 0:
            yield f"the selection holds none of the table's {self.total_rows:,} rows"
        if self._ids and self._ids.repeats:
            column = _quoted(self._options.id_column or "")
            rows = "1 row repeats" if self._ids.repeats == 1 else f"{self._ids.repeats:,} rows repeat"
            yield f"{rows} an id in column {column}: -2, -3 … is added to tell them apart"

    def items(self) -> Iterator[JobItemSpec]:
        """The selected rows in file order, read anew; InvalidRequest when the content is no longer the same.

        What has been yielded before that refusal must be thrown away by the caller.
        """
        again = _Pass(self._chunks, self._options)
        try:
            yield from self._selected(again)
        except InvalidRequest:
            raise _changed() from None
        if again.digest() != self.digest:
            raise _changed()

    def _selected(self, again: _Pass) -> Iterator[JobItemSpec]:
        if again.header() != self._first_cells:
            raise _changed()
        wanted = iter(self._selection)
        target = next(wanted, None)
        ids = self._ids
        names = ItemNames(ids, self.total_rows) if ids else None
        rows = again.rows(self.headers)
        index = -1
        while target is not None:
            index += 1
            cells = next(rows, None)
            if cells is None:
                raise _changed()
            source_id, item_id = None, f"row-{index + 1}"
            if ids and names:
                text = cells[ids.position]
                own = text.strip()
                source_id = text if own else None
                item_id = names.name(index + 1, own)
            if index == target:
                yield JobItemSpec(item_id, index, source_id, tuple(cells))
                target = next(wanted, None)


def _select(options: TableOptions, total: int) -> Sequence[int]:
    first, last = options.range or (None, None)
    chosen: Sequence[int] = range(total)[first:last]
    if options.sample is not None and options.sample < len(chosen):
        seed = _DEFAULT_SEED if options.seed is None else options.seed
        chosen = array("q", sorted(random.Random(seed).sample(chosen, options.sample)))  # noqa: S311  # no secret
    return chosen if options.limit is None else chosen[: options.limit]


def _check_headers(headers: Sequence[str]) -> None:
    positions: dict[str, list[int]] = {}
    for position, name in enumerate(headers, 1):
        positions.setdefault(name, []).append(position)
        if not name.strip():
            raise InvalidRequest(
                f"column {position} of the header has no name",
                hint="every column needs a name of its own in the first line",
            )
    for name, places in positions.items():
        if len(places) > 1:
            where = f"{', '.join(map(str, places[:-1]))} and {places[-1]}"
            raise InvalidRequest(
                f"the header names {_quoted(name)} more than once: columns {where}",
                hint="every column needs a name of its own",
            )


def _find_column(name: str, headers: Sequence[str], delimiter: str) -> int:
    if name in headers:
        return headers.index(name)
    shown = ", ".join(_quoted(header) for header in headers[:_COLUMNS_SHOWN])
    if len(headers) > _COLUMNS_SHOWN:
        shown += f" and {len(headers) - _COLUMNS_SHOWN} more"
    nearest = nearest_name(name, headers)
    raise InvalidRequest(
        f"there is no column {_quoted(name)} to take ids from; "
        + (f"the column is {shown}" if len(headers) == 1 else f"the columns are {shown}")
        + (f"; did you mean {_quoted(nearest)}?" if nearest is not None else ""),
        hint=delimiter_hint(headers, known_delimiter(delimiter)),
    )


def nearest_name(name: str, names: Iterable[str]) -> str | None:
    """The name most like `name`, whatever its case and outer blanks; None when none is much like it."""
    plain = {other.strip().casefold()[:_NAME_SHOWN]: other for other in names}
    found = difflib.get_close_matches(name.strip().casefold()[:_NAME_SHOWN], plain, n=1)
    return plain[found[0]] if found else None


def _ragged(rows: Sequence[tuple[int, int]], headers: Sequence[str], delimiter: str) -> InvalidRequest:
    def fields(count: int) -> str:
        return "1 field" if count == 1 else f"{count} fields"

    return InvalidRequest(
        "; ".join(f"line {line} has {fields(count)}, the header has {len(headers)}" for line, count in rows),
        hint=delimiter_hint(headers, known_delimiter(delimiter))
        or "every row needs as many fields as the header; a cell that holds the delimiter must be quoted",
    )


def _changed() -> InvalidRequest:
    return InvalidRequest(
        "the file changed while it was being read",
        hint="start again when nothing writes to it any more",
    )


def _quoted(name: str) -> str:
    """`name` in double quotes, with escapes for what cannot be seen, such as a byte-order mark."""
    shown = name if len(name) <= _NAME_SHOWN else name[:_NAME_SHOWN] + "…"
    return json.dumps(shown, ensure_ascii=not shown.isprintable())
