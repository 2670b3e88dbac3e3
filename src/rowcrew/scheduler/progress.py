"""Counts, rate and time left of one run. Rows finished before the run began are done, but no speed."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

from rowcrew.domain.job import JobCounts

EVERY_SECONDS = 0.25
# The rate of the last half minute tells better when a job ends than that of the whole night before.
WINDOW_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a run stands. `rate` is rows a second; `held_by` says what new rows are waiting for."""

    total: int
    pending: int
    running: int
    completed: int
    failed: int
    rate: float | None
    eta_seconds: float | None
    elapsed: float
    held_by: str | None = None

    @classmethod
    def of(
        cls,
        counts: JobCounts,
        *,
        rate: float | None,
        eta_seconds: float | None,
        elapsed: float,
        held_by: str | None = None,
    ) -> Self:
        return cls(
            counts.total,
            counts.pending,
            counts.running,
            counts.completed,
            counts.failed,
            rate=rate,
            eta_seconds=eta_seconds,
            elapsed=elapsed,
            held_by=held_by,
        )


class ProgressMeter:
    """Turns counts into Progress and passes it on, at most every quarter of a second."""

    def __init__(self, listener: Callable[[Progress], None] | None, *, done_before: int, now: float) -> None:
        self._listener = listener
        self._started = now
        self._samples: deque[tuple[float, int]] = deque([(now, done_before)])
        self._last_at = now - EVERY_SECONDS
        self._last: tuple[JobCounts, str | None] | None = None

    def show(self, counts: JobCounts, *, now: float, held_by: str | None = None, last: bool = False) -> None:
        """Pass the state on if it is time and something changed (or a second has passed)."""
        if self._listener is None:
            return
        since = now - self._last_at
        changed = (counts, held_by) != self._last
        if not last and (since < EVERY_SECONDS or not (changed or since >= 1.0)):
            return
        self._last_at, self._last = now, (counts, held_by)
        self._listener(self.measure(counts, now=now, held_by=held_by))

    def measure(self, counts: JobCounts, *, now: float, held_by: str | None = None) -> Progress:
        """Where the run stands now."""
        done = counts.completed + counts.failed
        if now > self._samples[-1][0]:
            self._samples.append((now, done))
        while len(self._samples) > 2 and self._samples[1][0] < now - WINDOW_SECONDS:
            self._samples.popleft()
        since, before = self._samples[0]
        rate = (done - before) / (now - since) if now > since and done > before else None
        left = counts.pending + counts.running
        eta = 0.0 if left == 0 else (left / rate if rate else None)
        elapsed = now - self._started
        return Progress.of(counts, rate=rate, eta_seconds=eta, elapsed=elapsed, held_by=held_by)
