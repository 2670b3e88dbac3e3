"""All facts of a bus in order, to wait for and to compare. It changes none."""

import asyncio
from collections.abc import Callable
from types import TracebackType
from typing import Self, TypeVar

from rowcrew.bus import Bus
from rowcrew.domain.events import Fact

F = TypeVar("F", bound=Fact)
_KEEP_ALL = 2**31
DEFAULT_PATIENCE = 30.0


class EventLog:
    """A reader that loses nothing. One task at a time may wait on it."""

    def __init__(self, bus: Bus, accepts: Callable[[Fact], bool] | None = None) -> None:
        self._subscription = bus.subscribe(accepts, capacity=_KEEP_ALL)
        self._facts: list[Fact] = []

    @property
    def facts(self) -> list[Fact]:
        """Everything published so far."""
        while (fact := self._subscription.take()) is not None:
            self._facts.append(fact)
        return self._facts

    def of(self, kind: type[F]) -> list[F]:
        """The facts of one kind so far."""
        return [fact for fact in self.facts if isinstance(fact, kind)]

    async def until(
        self,
        kind: type[F],
        matches: Callable[[F], bool] = lambda _: True,
        *,
        count: int = 1,
        patience: float = DEFAULT_PATIENCE,
    ) -> F:
        """The `count`th fact of that kind that matches, waited for at most `patience` seconds."""
        async with asyncio.timeout(patience):
            while len(found := [fact for fact in self.of(kind) if matches(fact)]) < count:
                self._facts.append(await anext(self._subscription))
        return found[count - 1]

    def close(self) -> None:
        self._subscription.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
