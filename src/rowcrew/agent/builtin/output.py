"""Bounded output: head and tail are kept, the middle is counted. It reads nothing itself."""

from collections import deque

MAX_OUTPUT_BYTES = 24 * 1024


class BoundedOutput:
    """Takes bytes of any amount; holds at most `limit` of them, half from the start and half from the end."""

    def __init__(self, limit: int = MAX_OUTPUT_BYTES) -> None:
        self._half = max(1, limit // 2)
        self._head = bytearray()
        self._tail: deque[bytes] = deque()
        self._tail_size = 0
        self.total = 0

    def add(self, data: bytes) -> None:
        self.total += len(data)
        room = self._half - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        if not data:
            return
        self._tail.append(data)
        self._tail_size += len(data)
        while self._tail_size - len(self._tail[0]) >= self._half:
            self._tail_size -= len(self._tail.popleft())

    def text(self) -> str:
        """What is kept, with one line in the place of what is not."""
        tail = b"".join(self._tail)[-self._half :]
        left_out = self.total - len(self._head) - len(tail)
        head = self._head.decode("utf-8", "replace")
        if left_out <= 0:
            # Decoded as one: a character may lie across the two halves.
            return (bytes(self._head) + tail).decode("utf-8", "replace")
        return f"{head}\n[… {left_out:,} bytes left out …]\n{tail.decode('utf-8', 'replace')}"


def bound(text: str, limit: int = MAX_OUTPUT_BYTES) -> str:
    """A text, shortened in the middle if it is too long."""
    output = BoundedOutput(limit)
    output.add(text.encode("utf-8", "replace"))
    return output.text()
