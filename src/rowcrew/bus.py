"""Publish and subscribe of domain facts inside one process. It stores nothing and knows no fact by name.

Discipline: publishers and readers live on one event loop; `publish` never waits, so that a slow reader cannot
hold up the work. A reader's buffer is bounded by `capacity`: when it is full, droppable facts make way (the
new one, or the oldest waiting one); a fact that is not droppable is always kept, and may grow the buffer past
it.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import Self

from rowcrew.domain.events import Fact

DEFAULT_CAPACITY = 1024


class Subscription:
    """One reader's view of the bus: iterate over it. It ends when it or the bus is closed and it is empty."""

    def __init__(self, bus: "Bus", accepts: Callable[[Fact], bool] | None, capacity: int) -> None:
        self._bus = bus
        self._accepts = accepts
        self._capacity = capacity
        self._waiting: deque[Fact] = deque()
        # Where there are none, nobody looks for one: a buffer of a slow reader may have grown long.
        self._droppable = 0
        self._arrived = asyncio.Event()
        self._closed = False
        self.dropped = 0

    def offer(self, fact: Fact) -> None:
        """Take a fact in, or drop it or another one where the buffer is full. For the bus."""
        if not self.wants(fact):
            return
        if len(self._waiting) >= self._capacity:
            self.dropped += self._make_room(fact)
            if fact.droppable:
                return
        self._waiting.append(fact)
        self._droppable += fact.droppable
        self._arrived.set()

    def wants(self, fact: Fact) -> bool:
        """Whether this reader takes such a fact. For the bus."""
        return not self._closed and (self._accepts is None or self._accepts(fact))

    def _make_room(self, fact: Fact) -> int:
        """Drop one droppable fact: the new one itself, or the oldest waiting. How many were dropped."""
        if fact.droppable:
            return 1
        if not self._droppable:
            return 0
        place = next(place for place, waiting in enumerate(self._waiting) if waiting.droppable)
        del self._waiting[place]
        self._droppable -= 1
        return 1

    def take(self) -> Fact | None:
        """The next fact at hand, without waiting."""
        if not self._waiting:
            return None
        fact = self._waiting.popleft()
        self._droppable -= fact.droppable
        return fact

    def close(self) -> None:
        """Take nothing more in; what is waiting can still be read."""
        self._closed = True
        self._bus.forget(self)
        self._arrived.set()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Fact:
        while (fact := self.take()) is None:
            if self._closed:
                raise StopAsyncIteration
            self._arrived.clear()
            await self._arrived.wait()
        return fact

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Bus:
    """Hands every published fact to every subscription that accepts it, in the order of publication."""

    def __init__(self) -> None:
        self._subscriptions: list[Subscription] = []
        self._closed = False

    def publish(self, fact: Fact) -> None:
        """Hand a fact to the readers. Never waits and never raises."""
        for subscription in tuple(self._subscriptions):
            subscription.offer(fact)

    def hears(self, fact: Fact) -> bool:
        """Whether anyone would take this fact, for who could spare itself the making of such facts."""
        return any(subscription.wants(fact) for subscription in self._subscriptions)

    def subscribe(
        self, accepts: Callable[[Fact], bool] | None = None, *, capacity: int = DEFAULT_CAPACITY
    ) -> Subscription:
        """A reader of all facts from now on that `accepts` says yes to. Close it, or use it in a `with`."""
        subscription = Subscription(self, accepts, capacity)
        if self._closed:
            subscription.close()
        else:
            self._subscriptions.append(subscription)
        return subscription

    def forget(self, subscription: Subscription) -> None:
        """Stop handing facts to a reader. For `Subscription.close`."""
        if subscription in self._subscriptions:
            self._subscriptions.remove(subscription)

    def close(self) -> None:
        """End every subscription once it has been read empty."""
        self._closed = True
        for subscription in tuple(self._subscriptions):
            subscription.close()
