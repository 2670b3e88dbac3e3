"""A job as it is shown, and the answer at the end of a run. It changes nothing."""

from dataclasses import dataclass

from rowcrew.clock import Clock
from rowcrew.domain.job import Job
from rowcrew.scheduler.lease import is_held
from rowcrew.scheduler.progress import Progress
from rowcrew.store.database import Connection
from rowcrew.store.job_items import JobItemStore
from rowcrew.store.jobs import JobStore

SHOWN_FAILURES = 5


@dataclass(frozen=True, slots=True)
class JobView:
    """One job as shown. `rate` is rows a second of the run under way; both are None where nothing runs."""

    job: Job
    runner_active: bool
    rate: float | None
    eta_seconds: float | None


@dataclass(frozen=True, slots=True)
class JobResult:
    """What `spawn_agents_on_csv` answers, with at most five failed job items."""

    job_id: str
    status: str
    output_csv_path: str
    total_items: int
    completed_items: int
    failed_items: int
    job_error: str | None
    failed_item_errors: list[dict[str, str | None]]


def view_of(job: Job, clock: Clock) -> JobView:
    """The rate counts from the start of this run: rows that were done before it are no speed."""
    active = is_held(job.lease, clock)
    rate = eta = None
    if active and job.run_started_at_ms is not None and job.run_started_done is not None:
        elapsed = (clock.now_ms() - job.run_started_at_ms) / 1000
        done = job.counts.completed + job.counts.failed - job.run_started_done
        if elapsed > 0 and done > 0:
            rate = done / elapsed
            eta = (job.counts.pending + job.counts.running) / rate
    return JobView(job, active, rate, eta)


def progress_of(view: JobView, *, elapsed: float) -> Progress:
    """Where a job stands, as the process that runs it would show it."""
    return Progress.of(view.job.counts, rate=view.rate, eta_seconds=view.eta_seconds, elapsed=elapsed)


def result_of(connection: Connection, job_id: str) -> JobResult:
    """Raises NotFound."""
    job = JobStore(connection).get(job_id)
    failures = JobItemStore(connection).list_failures(job_id, limit=SHOWN_FAILURES)
    return JobResult(
        job_id=job.id,
        status=str(job.status),
        output_csv_path=job.output_path,
        total_items=job.counts.total,
        completed_items=job.counts.completed,
        failed_items=job.counts.failed,
        job_error=job.last_error,
        failed_item_errors=[
            {"item_id": item_id, "source_id": source_id, "last_error": error}
            for item_id, source_id, error in failures
        ],
    )
