"""What the job tools answer: the names that callers know. It asks nothing and changes nothing.

Keys beyond those are only there when they have something to say: `paused_reason`, `job_error`,
`failed_item_errors`, `notices`, `reason`, `next`.
"""

from dataclasses import asdict
from typing import Any

from rowcrew.scheduler.views import JobResult, JobView

Answer = dict[str, Any]

GOES_ON = (
    "The job goes on without this call. Call wait_agent_job with this job_id until it answers"
    " timed_out: false; do not spawn it again."
)


def status_answer(view: JobView, result: JobResult | None = None) -> Answer:
    """Where a job stands. With its result, also why it stopped and which rows failed."""
    job, counts = view.job, view.job.counts
    answer: Answer = {
        "job_id": job.id,
        "status": str(job.status),
        "total_items": counts.total,
        "pending_items": counts.pending,
        "running_items": counts.running,
        "completed_items": counts.completed,
        "failed_items": counts.failed,
        "output_csv_path": job.output_path,
        "runner_active": view.runner_active,
    }
    if job.paused_reason is not None:
        answer["paused_reason"] = str(job.paused_reason)
    if job.last_error:
        answer["job_error"] = job.last_error
    if result is not None and result.failed_item_errors:
        answer["failed_item_errors"] = result.failed_item_errors
    return answer


def result_answer(result: JobResult, notices: tuple[str, ...] = ()) -> Answer:
    """The end of a job, or where it stands when the caller was not to wait longer."""
    answer: Answer = asdict(result)
    if notices:
        answer["notices"] = list(notices)
    return answer
