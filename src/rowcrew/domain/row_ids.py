"""Which item id each row of a table gets, decided from the whole file. It reads no table and holds no row."""

from array import array
from bisect import bisect_left
from itertools import pairwise

_BUCKETS = 16  # sorting makes a list of one bucket, not of all rows


class IdColumn:
    """What a table's id column holds, as hashes: 8 bytes a row. Only equal hashes cost more.

    A hash that two different ids share makes a name more careful (a suffix is skipped), never wrong.
    """

    def __init__(self, position: int) -> None:
        self.position = position
        self.repeats = 0
        self.blanks = 0
        self.shared: set[int] = set()  # hashes that come more than once
        self._buckets = [array("q") for _ in range(_BUCKETS)]

    def add(self, cell: str) -> None:
        """Notes the id cell of the next row."""
        if own := cell.strip():
            hashed = hash(own)
            self._buckets[hashed % _BUCKETS].append(hashed)
        else:
            self.blanks += 1

    def settle(self) -> None:
        """After the last row: sort, and find the repeats."""
        for place, bucket in enumerate(self._buckets):
            ordered = sorted(bucket)
            again = [one for one, following in pairwise(ordered) if one == following]
            self._buckets[place] = array("q", ordered)
            self.repeats += len(again)
            self.shared.update(again)

    def has(self, name: str) -> bool:
        """Whether `name` is some row's own id."""
        wanted = hash(name)
        bucket = self._buckets[wanted % _BUCKETS]
        place = bisect_left(bucket, wanted)
        return place < len(bucket) and bucket[place] == wanted


class ItemNames:
    """Gives each row of a pass its item id, in file order.

    A made-up name is a base, a hyphen and a number that only grows for that base, so two made-up names are
    never equal; and none is taken that is an id of the file.
    """

    def __init__(self, ids: IdColumn, total_rows: int) -> None:
        self._ids = ids
        self._seen: set[str] = set()  # of the ids that come more than once
        self._last: dict[str, int] = {}  # base → the last number given to it
        if ids.blanks:
            self._last["row"] = total_rows  # row-1 … row-<total> are kept free for rows without an id

    def name(self, number: int, own: str) -> str:
        """The item id of row `number` (from 1) whose id column holds `own`, trimmed."""
        if not own:
            name = f"row-{number}"
            return self._numbered(name) if self._ids.has(name) else name
        if hash(own) not in self._ids.shared:
            return own
        if own not in self._seen:
            self._seen.add(own)
            return own
        return self._numbered(own)

    def _numbered(self, base: str) -> str:
        number = self._last.get(base, 1) + 1
        while self._ids.has(f"{base}-{number}"):
            number += 1
        self._last[base] = number
        return f"{base}-{number}"
