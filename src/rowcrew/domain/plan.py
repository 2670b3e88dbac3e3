"""Given what is true now, what should the scheduler do next. Every scheduling rule is here, and only here.

Times are seconds on the monotonic clock. The runner carries the actions out in order, then looks again.
"""

from dataclasses import dataclass, replace

from rowcrew.domain.job import JobStatus

# How long the runner may sleep without looking: another process may cancel, pause or report meanwhile.
TICK = 0.1
# A claim larger than this would hold the write lock for longer than another job should wait.
MAX_CLAIM = 256


@dataclass(frozen=True, slots=True)
class HeldSlot:
    """A job slot: a job item with a worker, or one that is being started."""

    item_id: str
    deadline: float
    running_in_store: bool = True


@dataclass(frozen=True, slots=True)
class View:
    """All that the plan depends on.

    `pending`, `running`: the store's counts. `ready_at`: when the next pending job item may be claimed (None:
    none is pending). `held_until`: the provider's rate limit, or a wait for agent slots. `stopping`: someone
    in this process asked for the run to end. `torn_down`: workers have been asked to end already.
    """

    now: float
    status: JobStatus
    pending: int
    running: int
    capacity: int
    slots: tuple[HeldSlot, ...] = ()
    ready_at: float | None = None
    held_until: float = 0.0
    has_agent_room: bool = True
    stopping: bool = False
    torn_down: bool = False


@dataclass(frozen=True, slots=True)
class Launch:
    """Claim up to `count` job items and start a worker for each, side by side."""

    count: int


@dataclass(frozen=True, slots=True)
class Reap:
    """End what has run too long: the attempts are over, whatever their workers do."""

    item_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Reclaim:
    """Free the job slots of job items that the store no longer shows as running."""

    item_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Rescue:
    """Put right job items that the store shows as running though no job slot holds them."""


@dataclass(frozen=True, slots=True)
class Teardown:
    """Ask all workers to end, and release what they have not reported."""


@dataclass(frozen=True, slots=True)
class Wait:
    """Sleep until something happens, at most so many seconds."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Finish:
    """The run is over."""


Action = Launch | Reap | Reclaim | Rescue | Teardown | Wait | Finish


def next_actions(view: View) -> list[Action]:
    """What to do now. Never empty; ends with Wait or Finish unless slots change first."""
    gone = [slot.item_id for slot in view.slots if not slot.running_in_store]
    if gone:
        left = tuple([slot for slot in view.slots if slot.running_in_store])
        return [Reclaim(tuple(gone)), *next_actions(replace(view, slots=left))]
    if view.stopping or view.status is not JobStatus.RUNNING:
        return _wind_down(view)
    late = [slot.item_id for slot in view.slots if slot.deadline <= view.now]
    if late:
        return [Reap(tuple(late))]
    if view.running > 0 and not view.slots:
        return [Rescue()]
    if view.pending == 0 and view.running == 0:
        return [Finish()]
    count = _launch_count(view)
    wait = Wait(_seconds_to_next(view))
    return [Launch(count), wait] if count else [wait]


def _wind_down(view: View) -> list[Action]:
    if view.slots and not view.torn_down:
        return [Teardown()]
    return [Wait(TICK)] if view.slots else [Finish()]


def _launch_count(view: View) -> int:
    """Free job slots, if a job item is ready and neither a provider nor the agent slots are in the way."""
    if view.ready_at is None or view.ready_at > view.now or view.held_until > view.now:
        return 0
    if not view.has_agent_room:
        return 0
    free = view.capacity - len(view.slots)
    return max(0, min(free, view.pending, MAX_CLAIM))


def _seconds_to_next(view: View) -> float:
    times = [slot.deadline for slot in view.slots]
    if len(view.slots) < view.capacity and view.ready_at is not None:
        times.append(max(view.ready_at, view.held_until))
    due = min((time - view.now for time in times), default=TICK)
    return min(TICK, max(due, 0.0)) if due > 0 else TICK
