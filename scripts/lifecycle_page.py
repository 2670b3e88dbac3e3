"""Draws docs/lifecycle.md from the transition tables of the domain. It decides nothing about them."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from rowcrew.domain import lifecycle
from rowcrew.domain.item import JobItemStatus
from rowcrew.domain.job import JobStatus

PAGE = Path(__file__).resolve().parent.parent / "docs" / "lifecycle.md"

HEAD = """# Lifecycles

<!-- Drawn by scripts/generate from src/rowcrew/domain/lifecycle.py. Change that file, then run it. -->

Four things move through states: jobs, job items, turns and queued turns. These tables are the only moves.
A move that is not in a table changes nothing. The store guards every move in the `WHERE` of its query.
"""


def _kin(member: StrEnum) -> list[StrEnum]:
    return list(type(member))


@dataclass(frozen=True)
class Section:
    """One lifecycle: its table, where it begins, and what the table itself cannot say."""

    title: str
    table: Mapping[tuple[Any, Any], Any]  # each table has its own pair of enums
    first: StrEnum
    note: str

    def diagram(self) -> list[str]:
        """The moves as a Mermaid state diagram; a state that nothing leaves is an end."""
        left = {before for before, _ in self.table}
        ends = [state for state in dict.fromkeys(self.table.values()) if state not in left]
        return [
            "```mermaid",
            "stateDiagram-v2",
            f"    [*] --> {self.first}",
            *(f"    {before} --> {after}: {event}" for (before, event), after in self.table.items()),
            *(f"    {state} --> [*]" for state in ends),
            "```",
        ]

    def matrix(self) -> list[str]:
        """Every state with every event; an empty cell is a move that does not exist."""
        states, events = (_kin(member) for member in next(iter(self.table)))
        rows = (
            f"| **{state}** | " + " | ".join(self.table.get((state, event), "") for event in events) + " |"
            for state in states
        )
        return [f"| from | {' | '.join(events)} |", "|---" * (len(events) + 1) + "|", *rows]

    def text(self) -> str:
        return "\n".join(["", f"## {self.title}", "", *self.diagram(), "", *self.matrix(), "", self.note, ""])


SECTIONS = (
    Section(
        "Job",
        lifecycle.JOB,
        JobStatus.PENDING,
        "A completed, failed or cancelled job may only resume while it still has job items to run.",
    ),
    Section(
        "Job item",
        lifecycle.JOB_ITEM,
        JobItemStatus.PENDING,
        "`assign` records the worker's thread and counts the attempt; only that thread may `report`.\n"
        "`retry_failed` happens on a user's word alone.",
    ),
    Section("Turn", lifecycle.TURN, lifecycle.TurnStatus.IN_PROGRESS, "A turn ends exactly once."),
    Section(
        "Queued turn",
        lifecycle.QUEUED_TURN,
        lifecycle.QueuedTurnStatus.PENDING,
        "A queued turn leaves the queue when it is deleted (`pending`, `failed`) or when its turn has ended\n"
        "(`dispatching`). At most one queued turn of a thread is `dispatching`.",
    ),
)


def page() -> str:
    """The whole page as Markdown."""
    return HEAD + "".join(section.text() for section in SECTIONS)


def main() -> int:
    """Write the page, or with --check say whether the one on disk is current."""
    if "--check" not in sys.argv[1:]:
        PAGE.write_text(page(), encoding="utf-8")
        return 0
    if PAGE.is_file() and PAGE.read_text(encoding="utf-8") == page():
        return 0
    sys.stderr.write("docs/lifecycle.md is out of date: run scripts/generate\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())
