"""What the parts of one run share: the job, its lease, the worker kind, and what they tell each other."""

import asyncio
import random
from dataclasses import dataclass, field
from pathlib import Path

from rowcrew.clock import Clock
from rowcrew.domain.job import Job
from rowcrew.domain.prompt import Template
from rowcrew.domain.schema import OutputSchema
from rowcrew.errors import RowcrewError
from rowcrew.scheduler.holds import ProviderHolds
from rowcrew.store.database import Database
from rowcrew.workers.contract import WorkerKind


@dataclass(slots=True)
class RunContext:
    """One run of one job in this process. Times are seconds on the monotonic clock."""

    database: Database
    clock: Clock
    home: Path
    job: Job
    epoch: int
    kind: WorkerKind
    holds: ProviderHolds
    template: Template
    schema: OutputSchema | None
    capacity: int
    wake: asyncio.Event = field(default_factory=asyncio.Event)
    rng: random.Random = field(default_factory=random.Random)
    provider: str | None = None
    ready_at: float = 0.0
    no_room_until: float = 0.0
    error: RowcrewError | None = None

    def ready_in(self, delay: float) -> None:
        """A job item is pending again and may be claimed after `delay` seconds."""
        self.ready_at = min(self.ready_at, self.clock.monotonic() + delay)

    def hold_provider(self, provider: str | None, delay: float) -> None:
        """Nothing new is asked of the provider for `delay` seconds. Without a name it is the row's alone."""
        if provider is not None:
            self.provider = provider
            self.holds.hold(provider, self.clock.monotonic() + delay)

    def break_off(self, error: RowcrewError) -> None:
        """The run cannot go on; the first reason stands."""
        if self.error is None:
            self.error = error
        self.wake.set()
