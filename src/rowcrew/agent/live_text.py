"""What a model says while it says it: streamed text as turn items. It asks no model, keeps no conversation.

Discipline: made for one answer, on one event loop. A request that is made again says everything again; what
has been told already is not told twice, and where the second try says something else, nothing more is told
until the item is complete: its text is then the one that holds.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from rowcrew.agent.record import TurnRecord
from rowcrew.domain.events import TurnItemKind, TurnItemStatus
from rowcrew.domain.json_text import clean_text


@dataclass(slots=True)
class _Line:
    """One text on its way. `earlier` is what tries before have told, `heard` how much this one has said."""

    kind: TurnItemKind
    item_id: str
    told: list[str] = field(default_factory=list)
    earlier: str = ""
    heard: int = 0
    has_diverged: bool = False

    def new_part(self, text: str) -> str:
        """The part of a piece that nobody has been told yet."""
        known = self.earlier[self.heard : self.heard + len(text)]
        self.heard += len(text)
        self.has_diverged = self.has_diverged or not text.startswith(known)
        return "" if self.has_diverged else text[len(known) :]

    def text(self) -> str:
        return "".join(self.told)


class LiveText:
    """Implements TextListener on the record of a turn."""

    def __init__(self, record: TurnRecord) -> None:
        self._record = record
        self._lines: dict[int, _Line] = {}
        self._is_over = False

    def begin(self) -> None:
        for line in self._lines.values():
            line.earlier, line.heard = line.text(), 0

    def hear(self, place: int, kind: TurnItemKind, text: str) -> None:
        if self._is_over:
            return  # a request that heeded no cancellation still talks
        line = self._lines.get(place)
        if line is None:
            line = self._lines[place] = _Line(kind, self._record.open_item(kind, {"text": ""}))
        new = line.new_part(clean_text(text)) if line.kind is kind else ""
        if new:
            line.told.append(new)
            self._record.add_delta(line.item_id, new)

    def complete(self, texts: Iterable[tuple[TurnItemKind, str]]) -> None:
        """The whole answer is here: these are its texts, in order."""
        waiting = [self._lines[place] for place in sorted(self._lines)]
        for kind, text in texts:
            line = next((line for line in waiting if line.kind is kind), None)
            if line is None:
                self._record.add_text(kind, text)
            else:
                waiting.remove(line)
                self._record.complete_text(line.item_id, kind, text)
        self._give_up(waiting)

    def give_up(self) -> None:
        """There will be no whole answer; what was told of it is kept as cut off."""
        self._give_up(self._lines.values())

    def _give_up(self, lines: Iterable[_Line]) -> None:
        self._is_over = True
        for line in lines:
            self._record.close_item(line.item_id, TurnItemStatus.INTERRUPTED, {"text": line.text()})
