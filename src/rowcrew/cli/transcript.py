"""What was said and done in turns, for people and for programs. It reads no file."""

from collections.abc import Sequence
from typing import Any

from rowcrew.cli.exec_events import command_of
from rowcrew.cli.shapes import Shape, rfc3339, usage_shape
from rowcrew.cli.terminal import one_line, printable
from rowcrew.domain.events import TurnItem, TurnItemKind, TurnItemStatus
from rowcrew.domain.history import Turn
from rowcrew.domain.lifecycle import TurnStatus

SPEAKERS = {
    TurnItemKind.USER_MESSAGE: "user",
    TurnItemKind.AGENT_MESSAGE: "agent",
    TurnItemKind.REASONING: "reasoning",
}


def transcript_text(turns: Sequence[Turn]) -> str:
    """The turns, one item after the other, each under a line that says whose it is."""
    lines: list[str] = []
    for turn in turns:
        for item in turn.items:
            lines += _item_lines(item)
        if turn.status is not TurnStatus.COMPLETED:
            why = f": {printable(turn.failure.message)}" if turn.failure is not None else ""
            lines.append(f"[turn {turn.status}{why}]")
    return "\n".join(lines)


def _item_lines(item: TurnItem) -> list[str]:
    content = item.content
    if item.kind in SPEAKERS:
        return [f"[{SPEAKERS[item.kind]}]", *_indented(str(content.get("text", "")))]
    ended = "" if item.status is TurnItemStatus.COMPLETED else f" ({item.status})"
    if item.kind is TurnItemKind.COMMAND:
        head = f"[shell{ended}] $ {one_line(command_of(content), 1000)}"
    else:
        head = f"[{content.get('tool')}{ended}] {one_line(_arguments(content.get('arguments')), 1000)}"
    return [head, *_indented(str(content.get("output", "")))]


def _arguments(arguments: Any) -> str:
    if not isinstance(arguments, dict):
        return str(arguments)
    return ", ".join(f"{name}={value!r}" for name, value in arguments.items())


def _indented(text: str) -> list[str]:
    return [f"  {printable(line)}" for line in text.splitlines()]


def turn_shape(turn: Turn) -> Shape:
    """One turn with its items, as --json prints it."""
    return {
        "id": turn.id,
        "status": str(turn.status),
        "started_at": rfc3339(turn.started_at_ms),
        "completed_at": rfc3339(turn.completed_at_ms),
        "duration_ms": turn.duration_ms,
        "error": None if turn.failure is None else turn.failure.message,
        "usage": usage_shape(turn.usage),
        "items": [
            {
                "id": item.id,
                "kind": str(item.kind),
                "status": str(item.status),
                "started_at": rfc3339(item.started_at_ms),
                "completed_at": rfc3339(item.completed_at_ms),
                "content": dict(item.content),
            }
            for item in turn.items
        ],
    }
