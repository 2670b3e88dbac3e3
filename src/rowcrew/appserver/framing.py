"""Lines out of a stream of bytes, bounded: of a line that is too long nothing is kept. It parses nothing."""

from dataclasses import dataclass

# Enough for a prompt with whole files in it; ten thousand of them cannot be in memory at once all the same.
MAX_MESSAGE_BYTES = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class TooLong:
    """A line was longer than allowed and has been read over."""


class LineSplitter:
    """Feed it chunks; it gives whole lines without their ends. Blank lines are left out."""

    def __init__(self, limit: int = MAX_MESSAGE_BYTES) -> None:
        self._limit = limit
        self._parts: list[bytes] = []
        self._size = 0
        self._skipping = False

    def feed(self, chunk: bytes) -> list[bytes | TooLong]:
        """The lines that end in this chunk, in order."""
        *ended, rest = chunk.split(b"\n")
        lines: list[bytes | TooLong] = []
        for piece in ended:
            self._keep(piece)
            lines += self._end()
        self._keep(rest)
        return lines

    def finish(self) -> list[bytes | TooLong]:
        """What stood after the last line end."""
        return self._end()

    def _keep(self, piece: bytes) -> None:
        self._size += len(piece)
        if self._size > self._limit:
            self._skipping = True
            self._parts.clear()
        elif piece:
            self._parts.append(piece)

    def _end(self) -> list[bytes | TooLong]:
        line = b"".join(self._parts).strip()
        skipped = self._skipping
        self._parts, self._size, self._skipping = [], 0, False
        if skipped:
            return [TooLong()]
        return [line] if line else []
