"""What a thread is: a conversation with an agent, as it is kept. It decides nothing."""

from dataclasses import dataclass

from rowcrew.domain.events import AgentStatus
from rowcrew.processes import ProcessIdentity

# A preview is one line of a list; the whole message is in the history.
MAX_PREVIEW_CHARACTERS = 200


@dataclass(frozen=True, slots=True)
class NewThread:
    """A thread on its way into the store. `parent_id` spawned it, `forked_from_id` is what it copies."""

    id: str
    source: str
    cwd: str
    sandbox_mode: str
    model: str | None = None
    name: str | None = None
    preview: str = ""
    parent_id: str | None = None
    depth: int = 0
    forked_from_id: str | None = None


@dataclass(frozen=True, slots=True)
class Thread:
    """A thread as the store has it.

    `source` is the door or the job that it came from. `owner` is the process in which it is alive, None when
    it is in none. The threads that `parent_id` and `forked_from_id` name may have been deleted since.
    """

    id: str
    name: str | None
    source: str
    model: str | None
    cwd: str
    sandbox_mode: str
    preview: str
    parent_id: str | None
    depth: int
    forked_from_id: str | None
    status: AgentStatus
    owner: ProcessIdentity | None
    created_at_ms: int
    updated_at_ms: int
    archived_at_ms: int | None

    @property
    def is_archived(self) -> bool:
        return self.archived_at_ms is not None


@dataclass(frozen=True, slots=True)
class ThreadPage:
    """Some threads, and where the next page begins; None at the end."""

    threads: tuple[Thread, ...]
    next_cursor: str | None


def preview_of(text: str) -> str:
    """A message as one short line."""
    line = " ".join(text.split())
    if len(line) <= MAX_PREVIEW_CHARACTERS:
        return line
    return line[: MAX_PREVIEW_CHARACTERS - 1].rstrip() + "…"
