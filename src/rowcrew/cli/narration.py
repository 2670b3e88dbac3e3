"""What `exec` says to people on standard error while its agent works. The last message is not its matter."""

from collections.abc import Callable
from dataclasses import dataclass, field

from rowcrew.cli.exec_events import command_of
from rowcrew.cli.progress import PlainLines
from rowcrew.cli.terminal import one_line, printable, say
from rowcrew.domain.events import (
    Fact,
    TurnItem,
    TurnItemCompleted,
    TurnItemKind,
    TurnItemStarted,
    TurnItemStatus,
)
from rowcrew.domain.ids import short
from rowcrew.scheduler.progress import Progress


@dataclass(slots=True)
class Narration:
    """Lines about one turn. Each job has its progress line every few seconds."""

    tell: Callable[[str], None] = say
    _jobs: dict[str, PlainLines] = field(default_factory=dict)
    # Told once it is known not to be the last, which is the answer and goes to standard output.
    _message: str | None = None

    def take(self, fact: Fact) -> None:
        match fact:
            case TurnItemStarted(item=item):
                self._started(item)
            case TurnItemCompleted(item=item):
                self._completed(item)
            case _:
                pass

    def progress(self, job_id: str, progress: Progress) -> None:
        """How a job goes that a tool call waits for."""
        if job_id not in self._jobs:
            self._jobs[job_id] = PlainLines()
            self.tell(f"Job {short(job_id)} runs. If it stops: rowcrew resume {short(job_id)}")
        self._jobs[job_id].draw(progress)

    def _started(self, item: TurnItem) -> None:
        if item.kind in (TurnItemKind.COMMAND, TurnItemKind.TOOL_CALL, TurnItemKind.FILE_CHANGE):
            self._tell_message()
        if item.kind is TurnItemKind.COMMAND:
            self.tell(f"$ {one_line(command_of(item.content))}")
        elif item.kind is TurnItemKind.TOOL_CALL:
            self.tell(f"- {item.content.get('tool')} {one_line(str(item.content.get('arguments')))}")

    def _completed(self, item: TurnItem) -> None:
        match item.kind:
            case TurnItemKind.AGENT_MESSAGE:
                self._tell_message()
                self._message = str(item.content.get("text", ""))
            case TurnItemKind.FILE_CHANGE:
                paths = ", ".join(str(change["path"]) for change in item.content.get("changes", ()))
                self.tell(f"- {item.content.get('tool')} {one_line(paths)}{self._why(item)}")
            case TurnItemKind.COMMAND | TurnItemKind.TOOL_CALL:
                for lines in self._jobs.values():
                    lines.close()
                self._jobs.clear()
                if why := self._why(item):
                    self.tell(f"  {why.removeprefix(': ')}")
            case _:
                pass

    def _why(self, item: TurnItem) -> str:
        if item.status is TurnItemStatus.COMPLETED:
            return ""
        return f": {item.status}, {one_line(str(item.content.get('output', '')))}"

    def _tell_message(self) -> None:
        if self._message:
            self.tell(printable(self._message))
        self._message = None
