"""What a turn hands to the history. It says what must be kept and when; keeping it is the history's work."""

from typing import TYPE_CHECKING, Protocol

from rowcrew.domain.events import Fact

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage


class Journal(Protocol):
    """Takes the facts and model messages of each thread in their order, and keeps them at `flush`.

    `note` and `remember` do not wait; `flush` returns when all that was noted of the thread is durable.
    """

    def note(self, fact: Fact) -> None: ...

    def remember(self, thread_id: str, turn_id: str, message: "ModelMessage") -> None: ...

    async def flush(self, thread_id: str) -> None: ...


class NoJournal:
    """Keeps nothing, for agents whose turns nobody will read again."""

    def note(self, fact: Fact) -> None:
        pass

    def remember(self, thread_id: str, turn_id: str, message: "ModelMessage") -> None:
        pass

    async def flush(self, thread_id: str) -> None:
        pass
