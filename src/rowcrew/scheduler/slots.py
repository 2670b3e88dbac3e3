"""Job slots: who holds which job item, and what is free. It starts and ends nothing."""

import asyncio
from dataclasses import dataclass, field

from rowcrew.domain.item import JobItem
from rowcrew.domain.plan import HeldSlot
from rowcrew.workers.contract import Worker


@dataclass(eq=False, slots=True)
class Slot:
    """One attempt in this process, from the claim until its worker has really ended.

    `deadline` is on the monotonic clock. `attempt` is 0 until the attempt is stored (assign).
    """

    item: JobItem
    thread_id: str
    deadline: float
    task: asyncio.Task[None] | None = None
    worker: Worker | None = None
    attempt: int = 0
    settled: bool = False
    # What the plan is shown as long as it runs, and else.
    runs: HeldSlot = field(init=False)
    gone: HeldSlot = field(init=False)

    def __post_init__(self) -> None:
        self.runs = HeldSlot(self.item.item_id, self.deadline)
        self.gone = HeldSlot(self.item.item_id, self.deadline, running_in_store=False)


@dataclass(slots=True)
class Slots:
    """Held slots count against the concurrency; lingering ones are workers that talk on after their job item
    has left `running`."""

    held: dict[str, Slot] = field(default_factory=dict)
    lingering: set[Slot] = field(default_factory=set)

    def hold(self, slot: Slot) -> None:
        self.held[slot.item.item_id] = slot

    def give_back(self, slot: Slot) -> None:
        """The job slot is free; the worker may still be there. Safe to call again."""
        if self.held.get(slot.item.item_id) is slot:
            del self.held[slot.item.item_id]
            self.lingering.add(slot)

    def forget(self, slot: Slot) -> bool:
        """The worker has ended. True when that frees its job slot."""
        held = self.held.get(slot.item.item_id) is slot
        self.give_back(slot)
        self.lingering.discard(slot)
        return held

    def all(self) -> list[Slot]:
        return [*self.held.values(), *self.lingering]

    def as_view(self, running_in_store: dict[str, str | None] | None) -> tuple[HeldSlot, ...]:
        """As the plan sees them. `running_in_store` is None where the store was not asked this time."""

        held = self.held.values()
        if running_in_store is None:
            return tuple([slot.gone if slot.settled else slot.runs for slot in held])

        def still_runs(slot: Slot) -> bool:
            thread = running_in_store.get(slot.item.item_id, "")
            return not slot.settled and (thread is None or thread == slot.thread_id)

        return tuple([slot.runs if still_runs(slot) else slot.gone for slot in held])
