"""What the scheduler and a kind of worker owe each other. It starts nothing itself.

The order of events for one attempt:

1. ``kind.start(order)`` gets a worker ready. A command's process exists now but has not run a word yet.
2. The scheduler stores the attempt (assign). When the job item has left ``running`` meanwhile, it calls
   ``end`` instead of ``work``, and no work was done.
3. ``worker.work()`` does the work, reports through ``order.report`` as soon as the report stands (the job
   slot is free from then on), and returns when the worker has really ended.
4. ``worker.end(grace)`` may be called at any time, also twice: it asks, waits ``grace`` seconds, then forces.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from rowcrew.domain.attempt import Usage
from rowcrew.errors import ErrorClass
from rowcrew.processes import ProcessIdentity


@dataclass(frozen=True, slots=True)
class Verdict:
    """The answer to a report. `mendable`: the same worker may put it right and report again."""

    accepted: bool
    reason: str | None = None
    mendable: bool = False


class Reporter(Protocol):
    """Checks a result against the output schema and stores it. Never raises for a bad result."""

    async def __call__(
        self, result: object, *, stop: bool = False, usage: Usage | None = None
    ) -> Verdict: ...


@dataclass(frozen=True, slots=True)
class WorkOrder:
    """All that one attempt needs to know. `instruction` is rendered; `prompt` is the whole worker prompt."""

    job_id: str
    item_id: str
    attempt: int
    thread_id: str
    instruction: str
    row: Mapping[str, str]
    output_schema: dict[str, Any] | None
    prompt: str
    max_runtime_seconds: float
    home: Path
    report: Reporter


@dataclass(frozen=True, slots=True)
class Ended:
    """How `work` came to its end.

    `error_class` is None when the worker ended in good order; whether it reported is the store's to say.
    `retry_after` is in seconds, for RATE_LIMITED. `raw_answer` is what the worker said where it could not be
    used. `provider` names whose rate limit it is (None: this job item's alone).
    `usage` is what has not been handed over with a report.
    """

    error_class: ErrorClass | None = None
    message: str | None = None
    raw_answer: str | None = None
    retry_after: float | None = None
    provider: str | None = None
    usage: Usage = Usage()


class Worker(Protocol):
    """One started worker."""

    @property
    def process(self) -> ProcessIdentity | None:
        """The process to be ended after a crash of the engine, where there is one."""
        ...

    async def work(self) -> Ended:
        """Do the work. Called at most once, after the attempt is stored. Cancelling it ends the worker."""
        ...

    async def end(self, grace: float) -> None:
        """Ask the worker to end, wait `grace` seconds, then force. Returns when nothing of it is left."""
        ...


class WorkerKind(Protocol):
    """A way to make attempts. One per running job; `close` is called when the job's run is over."""

    @property
    def max_concurrency(self) -> int | None:
        """What the kind can do at once; None is as many as asked."""
        ...

    @property
    def starts_at_once(self) -> bool:
        """Whether `start` waits for nothing, makes no process and always has room.

        Then the scheduler stores the attempt with the claim, in one transaction, and starts the worker after.
        """
        ...

    async def start(self, order: WorkOrder) -> Worker:
        """Raises LimitReached when no agent slot is free; any other error is a failed start."""
        ...

    async def close(self) -> None:
        """Give back what the kind holds (connections, a model, threads)."""
        ...
