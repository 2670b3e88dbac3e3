"""Who is alive: agent slots, reservations, parents and depth. It starts and ends no agent.

Discipline: everything happens on one event loop and nothing here waits but `wait_for_change`, so each call is
one step. A slot is taken by `reserve` and goes back exactly once: by the reservation when it was not
committed, else by `release` when the thread's loop has really ended.
"""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from rowcrew.errors import InvalidRequest, LimitReached, NotFound

DEFAULT_MAX_DEPTH = 1


@dataclass(frozen=True, slots=True)
class Registered:
    """One live agent thread. `ancestors` runs from its root to its parent, also where one of them has ended.

    `takes_slot` is false for a conversation that a person leads.
    """

    thread_id: str
    ancestors: tuple[str, ...]
    takes_slot: bool

    @property
    def depth(self) -> int:
        return len(self.ancestors)


class Reservation:
    """A slot kept for an agent that is being started. Use it in a `with`: not committed is given back."""

    def __init__(self, registry: "AgentRegistry", ancestors: tuple[str, ...], *, takes_slot: bool) -> None:
        self._registry = registry
        self._ancestors = ancestors
        self._takes_slot = takes_slot
        self._open = True

    def commit(self, thread_id: str) -> Registered:
        """The agent exists: from now on `AgentRegistry.release` frees its slot."""
        if not self._open:
            raise RuntimeError("this reservation was already used")
        registered = Registered(thread_id, self._ancestors, self._takes_slot)
        self._registry.settle(self, registered)
        self._open = False
        return registered

    def give_back(self) -> None:
        """The agent does not come to be. Does nothing when already committed or given back."""
        if self._open:
            self._open = False
            self._registry.settle(self, None)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.give_back()


class AgentRegistry:
    """All live agents of one engine, counted against `agents.max_threads` and `agents.max_depth`."""

    def __init__(self, *, max_threads: int | None = None, max_depth: int = DEFAULT_MAX_DEPTH) -> None:
        self.max_threads = max_threads
        self.max_depth = max_depth
        self._live: dict[str, Registered] = {}
        self._reserved: dict[Reservation, bool] = {}
        self._changed = asyncio.Event()

    def __contains__(self, thread_id: str) -> bool:
        return thread_id in self._live

    def __iter__(self) -> Iterator[Registered]:
        return iter(tuple(self._live.values()))

    @property
    def slots_used(self) -> int:
        """Agents that hold a slot, and reservations for more."""
        return sum(live.takes_slot for live in self._live.values()) + sum(self._reserved.values())

    @property
    def slots_free(self) -> int | None:
        """None where there is no limit."""
        return None if self.max_threads is None else max(0, self.max_threads - self.slots_used)

    def reserve(self, *, parent_id: str | None = None, takes_slot: bool = True) -> Reservation:
        """Keep a slot for a child of `parent_id`, or for a root.

        LimitReached when all are taken; InvalidRequest past `max_depth`; NotFound when the parent has ended.
        """
        ancestors = self._ancestors_below(parent_id)
        depth = len(ancestors)
        if depth > self.max_depth:
            raise InvalidRequest(
                f"agents may be nested {self.max_depth} deep and this one would be at depth {depth}",
                hint="do the work yourself, or raise agents.max_depth",
            )
        if takes_slot and self.slots_free == 0:
            raise LimitReached(
                f"all {self.max_threads} agent slots are taken",
                hint="close an agent or wait for one to end, or raise agents.max_threads",
            )
        reservation = Reservation(self, ancestors, takes_slot=takes_slot)
        self._reserved[reservation] = takes_slot
        return reservation

    def settle(self, reservation: Reservation, registered: Registered | None) -> None:
        """Turn a reservation into a live agent, or into nothing. For Reservation."""
        if registered is not None:
            if registered.thread_id in self._live:
                raise InvalidRequest(f"the thread {registered.thread_id} is already alive")
            self._live[registered.thread_id] = registered
        del self._reserved[reservation]
        self._announce()

    def release(self, thread_id: str) -> bool:
        """The agent's loop has ended: free its slot. False when it was not there (any more)."""
        if self._live.pop(thread_id, None) is None:
            return False
        self._announce()
        return True

    def may_spawn(self, thread_id: str) -> bool:
        """Whether a child of this agent would still be within `max_depth`."""
        live = self._live.get(thread_id)
        return live is not None and live.depth < self.max_depth

    def descendants(self, thread_id: str) -> list[str]:
        """Live agents spawned by this one, by those, and so on; parents before children."""
        return [live.thread_id for live in self._live.values() if thread_id in live.ancestors]

    async def wait_for_change(self) -> None:
        """Return at the next start, end or given-back reservation. The caller bounds it."""
        await self._changed.wait()

    def _ancestors_below(self, parent_id: str | None) -> tuple[str, ...]:
        if parent_id is None:
            return ()
        parent = self._live.get(parent_id)
        if parent is None:
            raise NotFound(f"the agent {parent_id} is not alive, so that it cannot spawn another")
        return (*parent.ancestors, parent_id)

    def _announce(self) -> None:
        # Wakes who waits now; who comes later waits on a fresh event for a later change.
        self._changed.set()
        self._changed = asyncio.Event()
