"""Bytes to text: byte-order marks and encodings. It repairs nothing: what is no text is refused, by place."""

import codecs
from collections.abc import Iterable, Iterator
from itertools import chain

from rowcrew.errors import InvalidRequest

_PIECE = 256 * 1024
_NAME_SHOWN = 60

# UTF-32 first: its little-endian mark begins with that of UTF-16.
_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
# What people have instead of text; each begins with what no text does.
_NO_TEXT = {
    b"PK\x03\x04": "a zip archive, as spreadsheet files (.xlsx, .ods) are",
    b"\xd0\xcf\x11\xe0": "an old spreadsheet file (.xls)",
    b"\x1f\x8b": "compressed (gzip)",
}
# Python calls these text encodings; they are escapes for programs, and some make halves of characters.
_NOT_FOR_TABLES = {"idna", "punycode", "raw-unicode-escape", "undefined", "unicode-escape", "utf-7"}


def byte_order_mark(head: bytes) -> tuple[str, int] | None:
    """The encoding that the file's first bytes declare, and the length of the mark."""
    for mark, name in _MARKS:
        if head.startswith(mark):
            return name, len(mark)
    return None


def known_encoding(encoding: str) -> str:
    """The canonical name of an encoding a user has typed; InvalidRequest when there is none of that name."""
    refusal = InvalidRequest(
        f'there is no text encoding named "{encoding[:_NAME_SHOWN]}"',
        hint="names that work with --encoding: utf-8, utf-16, cp1252, latin-1, shift_jis, gb18030",
    )
    try:
        info = codecs.lookup(encoding)
        name = info.name.replace("_", "-")
    except (LookupError, ValueError):
        raise refusal from None
    try:
        b"a".decode(encoding)
    except UnicodeError:
        pass  # one byte may be too short for a character; only the name is checked here
    except LookupError:  # such as hex: bytes to bytes
        raise refusal from None
    if name in _NOT_FOR_TABLES or info.incrementaldecoder is None:
        raise refusal
    return name


class LineEnds:
    """Counts line ends in text that comes in pieces: LF, CRLF and CR, each once."""

    def __init__(self) -> None:
        self.count = 0
        self._after_cr = False

    def add(self, text: str) -> int:
        if text:
            self.count += text.count("\n") + text.count("\r") - text.count("\r\n")
            self.count -= self._after_cr and text[0] == "\n"
            self._after_cr = text[-1] == "\r"
        return self.count


def decode(chunks: Iterable[bytes], encoding: str | None) -> Iterator[str]:
    """Text in pieces of bounded size. A byte-order mark outweighs `encoding`, and is not part of the text."""
    name = known_encoding(encoding) if encoding is not None else "utf-8"
    stream = iter(chunks)
    head = b""
    for chunk in stream:
        head += chunk
        if len(head) >= len(codecs.BOM_UTF32_LE):
            break
    _refuse_no_text(head)
    offset = 0
    if mark := byte_order_mark(head):
        name, offset = mark
    decoder = codecs.getincrementaldecoder(name)("strict")
    line_ends = LineEnds()
    for part, final in _parts(chain((head[offset:],), stream)):
        waiting = len(decoder.getstate()[0])
        try:
            text = decoder.decode(part, final)
        except UnicodeDecodeError as error:
            raise _undecodable(
                error, name, offset - waiting, line_ends, marked=bool(mark), named=encoding is not None
            ) from None
        offset += len(part)
        line_ends.add(text)
        if text:
            yield text


def _refuse_no_text(head: bytes) -> None:
    for beginning, what in _NO_TEXT.items():
        if head.startswith(beginning):
            raise InvalidRequest(f"the file is no text: it is {what}", hint="save it as CSV and give that")


def _parts(chunks: Iterable[bytes]) -> Iterator[tuple[bytes, bool]]:
    for chunk in chunks:
        for start in range(0, len(chunk), _PIECE):
            yield chunk[start : start + _PIECE], False
    yield b"", True


def _undecodable(
    error: UnicodeDecodeError, name: str, base: int, line_ends: LineEnds, *, marked: bool, named: bool
) -> InvalidRequest:
    before = bytes(error.object[: error.start]).decode(name, "replace")
    line = line_ends.add(before) + 1
    byte = error.object[error.start]
    return InvalidRequest(
        f"the file is not {name.upper()}: byte 0x{byte:02X} at offset {base + error.start}, on line {line}",
        hint=_what_else(marked=marked, named=named),
    )


def _what_else(*, marked: bool, named: bool) -> str:
    if marked:
        return "its byte-order mark says so, and outweighs --encoding: the file is damaged or cut off"
    if named:
        return "--encoding names another than it was written in, or the file is damaged"
    return "name the encoding that the file was written in, for example --encoding cp1252"
