"""Text to records: line ends, delimiters and quoting (RFC 4180). It knows no header, no ids and no file."""

import csv
import io
import re
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import NamedTuple

from rowcrew.domain.encodings import LineEnds, decode
from rowcrew.errors import InvalidRequest

__all__ = ["Record", "decode", "default_delimiter", "delimiter_hint", "known_delimiter", "read_records"]

MAX_CELL_BYTES = 16 * 1024 * 1024
MAX_LINE_CHARACTERS = 16 * MAX_CELL_BYTES
"""One physical line must fit into memory; a file without line ends is refused here, not by the machine."""

_BATCH = 512
# UTF-8 needs at most four bytes a character, so records below this need no look at their cells' sizes.
_SURELY_SMALL = MAX_CELL_BYTES // 4


class Record(NamedTuple):
    """One record. `line` is the physical line, from 1, on which it starts; an empty line has no cells."""

    line: int
    cells: list[str]


def known_delimiter(delimiter: str) -> str:
    """The one character that separates cells; `\\t` in two characters is TAB, as a shell passes it."""
    if delimiter == "\\t":
        return "\t"
    if len(delimiter) != 1 or delimiter in '"\r\n\0':
        raise InvalidRequest(
            f"the delimiter must be one character other than a quote or a line end, not {delimiter!r}",
            hint="for example --delimiter ';' or --delimiter '\\t'",
        )
    return delimiter


def default_delimiter(file_name: str) -> str:
    """TAB for `.tsv` and `.tab`, else a comma. Nothing is guessed from the content."""
    return "\t" if file_name.lower().endswith((".tsv", ".tab")) else ","


def delimiter_hint(headers: Sequence[str], delimiter: str = ",") -> str | None:
    """What to try when the header looks separated by something else; None when it does not."""
    other = _likelier_delimiter(delimiter.join(headers), delimiter, at_least=len(headers))
    if other is None:
        return None
    shown, typed = _typed(other)
    return f"the header looks {shown}-separated: try `--delimiter '{typed}'`"


def _likelier_delimiter(text: str, delimiter: str, *, at_least: int) -> str | None:
    counts = {other: text.count(other) for other in ";\t|," if other != delimiter}
    other = max(counts, key=lambda one: counts[one])
    return other if counts[other] >= at_least else None


def _typed(delimiter: str) -> tuple[str, str]:
    return ("TAB", "\\t") if delimiter == "\t" else (f"`{delimiter}`", delimiter)


_limit_lock = threading.Lock()
_limit_users = 0
_limit_before = 0


@contextmanager
def _large_cells_allowed() -> Iterator[None]:
    # The csv module's limit is one for the whole process. It is raised only while cells are being read, by
    # the first reader in, and put back by the last one out, so that no other code finds it changed later.
    global _limit_users, _limit_before
    with _limit_lock:
        if _limit_users == 0:
            _limit_before = csv.field_size_limit()
            csv.field_size_limit(max(_limit_before, MAX_CELL_BYTES))
        _limit_users += 1
    try:
        yield
    finally:
        with _limit_lock:
            _limit_users -= 1
            if _limit_users == 0:
                csv.field_size_limit(_limit_before)


def read_records(text: Iterable[str], delimiter: str) -> Iterator[Record]:
    """Records as RFC 4180 has them; InvalidRequest names the line of what it does not allow."""
    reader = _RecordReader(text, delimiter)
    while batch := reader.next_batch():
        yield from batch


class _RecordReader:
    """The csv module fed with exact physical lines, and the text of the current record for a refusal.

    The module takes a lone CR in the middle of what it is given for an error, and does not say where a quote
    was opened. So lines are split here, only at LF, CRLF and CR, and it counts them, one for one.
    """

    def __init__(self, text: Iterable[str], delimiter: str) -> None:
        self._text = text
        self._delimiter = delimiter
        self._record_line = 1
        self._next_line = 1
        # Whole lines as text, each with the number of its first, from the current record's start on.
        self._recent: deque[tuple[int, str]] = deque()
        self._held = 0
        self._reader = csv.reader(
            chain.from_iterable(self._lines()),
            delimiter=delimiter,
            quotechar='"',
            doublequote=True,
            skipinitialspace=False,
            strict=True,
        )

    def next_batch(self) -> list[Record]:
        """Some records; none at the end. Small when the records are large."""
        batch: list[Record] = []
        reader = self._reader
        try:
            with _large_cells_allowed():
                for cells in reader:
                    batch.append(Record(self._record_line, cells))
                    if self._held > _SURELY_SMALL:
                        self._check_sizes(cells)
                    self._record_line = reader.line_num + 1
                    if len(batch) == _BATCH or self._held > _SURELY_SMALL:
                        break
        except csv.Error:
            raise self._refusal() from None
        return batch

    def _lines(self) -> Iterator[list[str]]:
        waiting: list[str] = []  # a line whose end has not come yet
        size = 0
        for piece in self._text:
            waiting.append(piece)
            size += len(piece)
            if "\0" in piece:
                raise self._nul("".join(waiting))
            if "\n" in piece or "\r" in piece:
                text = "".join(waiting)
                lines = io.StringIO(text, newline="").readlines()
                rest = "" if text.endswith("\n") else lines.pop()  # after a CR, an LF may still come
                waiting = [rest]
                size = len(rest)
                if lines:
                    yield self._hand_out(lines, text[: len(text) - size])
            if size > MAX_LINE_CHARACTERS:
                raise InvalidRequest(
                    f"line {self._next_line} is longer than {MAX_LINE_CHARACTERS:,} characters",
                    hint="rows must be separated by line ends",
                )
        if text := "".join(waiting):
            yield self._hand_out(io.StringIO(text, newline="").readlines(), text)

    def _hand_out(self, lines: list[str], text: str) -> list[str]:
        self._recent.append((self._next_line, text))
        self._held += len(text)
        self._next_line += len(lines)
        while len(self._recent) > 1 and self._recent[1][0] <= self._record_line:
            self._held -= len(self._recent.popleft()[1])
        return lines

    def _nul(self, text: str) -> InvalidRequest:
        line = self._next_line + LineEnds().add(text[: text.index("\0")])
        return InvalidRequest(
            f"line {line} holds a NUL character, which no text has",
            hint="if the file is UTF-16 without a byte-order mark, use --encoding utf-16-le or utf-16-be",
        )

    def _check_sizes(self, cells: list[str]) -> None:
        for cell in cells:
            if len(cell) > _SURELY_SMALL and len(cell.encode()) > MAX_CELL_BYTES:
                raise _too_large(self._record_line)

    def _refusal(self) -> InvalidRequest:
        first, _ = self._recent[0]
        text = "".join(piece for _, piece in self._recent)
        start = 0
        for _ in range(first, self._record_line):
            start = _next_break(text, start)
        return _explain(text[start:], self._record_line, self._delimiter)


def _next_break(text: str, start: int) -> int:
    found = _LINE_END.search(text, start)
    return found.end() if found else len(text)


_LINE_END = re.compile(r"\r\n|\n|\r")
_QUOTED = re.compile(r'"(?:[^"]++|"")*+"')


def _explain(record: str, line: int, delimiter: str) -> InvalidRequest:
    """What is wrong with a record that the csv module has refused, found by walking through its cells."""
    cell_end = re.compile(rf"{re.escape(delimiter)}|\r\n|\n|\r|\Z")
    position = 0
    while position < len(record):
        opened = line
        quoted = record[position] == '"'
        closed = _QUOTED.match(record, position) if quoted else None
        if quoted and closed is None:
            return _never_closed(opened, large=len(record) - position - 1 > MAX_CELL_BYTES)
        text_end = closed.end() if closed else position
        end = cell_end.search(record, text_end)
        assert end is not None  # noqa: S101  # \Z is always found
        line += LineEnds().add(record[position:text_end])
        if closed and end.start() != text_end:
            rest = record[text_end : _next_break(record, text_end)]
            return _text_after_quote(line, opened, _likelier_delimiter(rest, delimiter, at_least=1))
        quotes = 2 + record.count('""', position + 1, text_end - 1) if closed else 0
        if end.start() - position - quotes > MAX_CELL_BYTES:
            return _too_large(opened)
        line += end.group() not in (delimiter, "")
        position = max(end.end(), position + 1)
    return InvalidRequest(f"line {line} cannot be read as a record")


def _never_closed(line: int, *, large: bool) -> InvalidRequest:
    if large:
        return _too_large(line, hint=f"is the quote that opens on line {line} ever closed?")
    return InvalidRequest(
        f"the quote that opens on line {line} is never closed",
        hint='close it; a quote that is text inside a quoted cell is written twice ("")',
    )


def _text_after_quote(line: int, opened: int, other: str | None) -> InvalidRequest:
    where = "" if opened == line else f" (that quote opens on line {opened})"
    hint = 'a quote that is text inside a quoted cell is written twice ("")'
    if other is not None:
        shown, typed = _typed(other)
        hint += f"; if {shown} separates the cells, try `--delimiter '{typed}'`"
    return InvalidRequest(f"line {line} has text after a closing quote{where}", hint=hint)


def _too_large(line: int, *, hint: str | None = None) -> InvalidRequest:
    return InvalidRequest(
        f"line {line} has a cell larger than 16 MiB",
        hint=hint or "put large texts into files of their own and their names into the table",
    )
