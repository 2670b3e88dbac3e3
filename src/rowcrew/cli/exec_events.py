"""The event lines of `exec --json`, as Codex has them: from the facts of a turn to JSON. It decides nothing.

An item is named `item_N` in the order in which its first line is printed. What the user said is not repeated.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from rowcrew.cli.shapes import progress_event
from rowcrew.cli.terminal import show_json
from rowcrew.domain.attempt import Usage
from rowcrew.domain.events import (
    Fact,
    TurnEnded,
    TurnItem,
    TurnItemCompleted,
    TurnItemKind,
    TurnItemStarted,
    TurnItemStatus,
    TurnStarted,
)
from rowcrew.domain.history import Turn
from rowcrew.domain.lifecycle import TurnStatus
from rowcrew.scheduler.progress import Progress

Event = dict[str, Any]

# Our tools are no MCP server's, and this is the one item type in which clients expect a tool by its name.
SERVER = "rowcrew"
JOB_TOOLS = frozenset({"spawn_agents_on_csv", "wait_agent_job"})
# Only these take long enough for their start to be worth a line of its own.
STARTED_KINDS = frozenset({TurnItemKind.COMMAND, TurnItemKind.TOOL_CALL})
STATUS = {
    TurnItemStatus.IN_PROGRESS: "in_progress",
    TurnItemStatus.COMPLETED: "completed",
    TurnItemStatus.FAILED: "failed",
    TurnItemStatus.INTERRUPTED: "failed",
}
INTERRUPTED = "the turn was interrupted"


@dataclass(slots=True)
class EventLines:
    """Prints the lines of one turn."""

    emit: Callable[[Event], None] = show_json
    _names: dict[str, str] = field(default_factory=dict)
    _open: dict[str, TurnItem] = field(default_factory=dict)
    _completed: set[str] = field(default_factory=set)

    def thread(self, thread_id: str) -> None:
        self.emit({"type": "thread.started", "thread_id": thread_id})

    def take(self, fact: Fact) -> None:
        """Print what a fact of the turn has to say."""
        match fact:
            case TurnStarted():
                self.emit({"type": "turn.started"})
            case TurnItemStarted(item=item):
                self._open[item.id] = item
                if item.kind in STARTED_KINDS:
                    self._tell("item.started", item)
            case TurnItemCompleted(item=item):
                self._complete(item)
            case _:
                pass

    def progress(self, job_id: str, progress: Progress) -> None:
        """How a job goes, as an update of the call that waits for it."""
        waiting = [item for item in self._open.values() if item.content.get("tool") in JOB_TOOLS]
        if waiting:
            event = progress_event(job_id, progress)
            del event["type"]
            self._tell("item.updated", waiting[-1], progress=event)

    def end(self, ended: TurnEnded, stored: Turn | None) -> None:
        """What is still missing, then the one terminal line."""
        for item in stored.items if stored is not None else ():
            if item.status is not TurnItemStatus.IN_PROGRESS:
                self._complete(item)
        if ended.status is TurnStatus.COMPLETED:
            self.emit({"type": "turn.completed", "usage": usage_shape(ended.usage)})
            return
        message = ended.failure.message if ended.failure is not None else INTERRUPTED
        self.emit({"type": "turn.failed", "error": {"message": message}})

    def error(self, message: str) -> None:
        """Something outside the turn that ends the command."""
        self.emit({"type": "error", "message": message})

    def _complete(self, item: TurnItem) -> None:
        if item.id in self._completed:
            return
        self._completed.add(item.id)
        self._open.pop(item.id, None)
        self._tell("item.completed", item)

    def _tell(self, event_type: str, item: TurnItem, **more: Any) -> None:
        shape = item_shape(item)
        if shape is None:
            return
        name = self._names.setdefault(item.id, f"item_{len(self._names)}")
        self.emit({"type": event_type, "item": {"id": name, **shape, **more}})


def item_shape(item: TurnItem) -> Event | None:
    """A turn item without its id; None for what is not told."""
    content = item.content
    match item.kind:
        case TurnItemKind.AGENT_MESSAGE:
            return {"type": "agent_message", "text": str(content.get("text", ""))}
        case TurnItemKind.REASONING:
            return {"type": "reasoning", "text": str(content.get("text", ""))}
        case TurnItemKind.COMMAND:
            return {
                "type": "command_execution",
                "command": command_of(content),
                "aggregated_output": str(content.get("output", "")),
                "exit_code": content.get("exit_code"),
                "status": STATUS[item.status],
            }
        case TurnItemKind.FILE_CHANGE:
            changes = [
                {"path": change["path"], "kind": change["kind"]} for change in content.get("changes", ())
            ]
            return {"type": "file_change", "changes": changes, "status": STATUS[item.status]}
        case TurnItemKind.TOOL_CALL:
            return _call_shape(item)
        case _:
            return None


def _call_shape(item: TurnItem) -> Event:
    output = str(item.content.get("output", ""))
    answer = {"content": [{"type": "text", "text": output}], "structured_content": None}
    failed = item.status in (TurnItemStatus.FAILED, TurnItemStatus.INTERRUPTED)
    return {
        "type": "mcp_tool_call",
        "server": SERVER,
        "tool": str(item.content.get("tool", "")),
        "arguments": item.content.get("arguments"),
        "result": answer if item.status is TurnItemStatus.COMPLETED else None,
        "error": {"message": output} if failed else None,
        "status": STATUS[item.status],
    }


def command_of(content: Mapping[str, Any]) -> str:
    """The command line of a command item, also before it has run."""
    arguments = content.get("arguments")
    asked = arguments.get("command") if isinstance(arguments, Mapping) else arguments
    return str(content.get("command") or asked or "")


def usage_shape(usage: Usage) -> Event:
    """What the turn's own model requests have used; that of a job's workers is the job's."""
    return {
        "input_tokens": usage.input_tokens,
        "cached_input_tokens": usage.cached_input_tokens,
        "cache_write_input_tokens": 0,
        "output_tokens": usage.output_tokens,
        "reasoning_output_tokens": usage.reasoning_tokens,
    }
