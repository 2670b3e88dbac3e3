"""Jobs, job items and attempts as JSON values, under the names that callers rely on. It prints nothing."""

from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from rowcrew.domain.attempt import Attempt, Usage
from rowcrew.domain.item import JobItem
from rowcrew.domain.json_text import read
from rowcrew.domain.price import NANOS
from rowcrew.scheduler.progress import Progress
from rowcrew.scheduler.views import JobResult, JobView

Shape = dict[str, Any]


def rfc3339(milliseconds: int | None) -> str | None:
    """A moment as text, UTC, with milliseconds."""
    if milliseconds is None:
        return None
    moment = datetime.fromtimestamp(milliseconds / 1000, tz=UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def job_shape(view: JobView) -> Shape:
    """What `status --json` prints, and each entry of `list --json`."""
    job, counts = view.job, view.job.counts
    return {
        "job_id": job.id,
        "name": job.name,
        "status": str(job.status),
        "total_items": counts.total,
        "pending_items": counts.pending,
        "running_items": counts.running,
        "completed_items": counts.completed,
        "failed_items": counts.failed,
        "output_csv_path": job.output_path,
        "runner_active": view.runner_active,
        "created_at": rfc3339(job.created_at_ms),
        "started_at": rfc3339(job.started_at_ms),
        "completed_at": rfc3339(job.completed_at_ms),
        "paused_reason": str(job.paused_reason) if job.paused_reason else None,
        "last_error": job.last_error,
        "eta_seconds": _rounded(view.eta_seconds),
        "usage": usage_shape(job.usage),
    }


def usage_shape(usage: Usage) -> Shape:
    """What was used. `cost` is null when any of it is unknown; `known_cost` is what is known of it."""
    return {
        "requests": usage.requests,
        "input_tokens": usage.input_tokens,
        "cached_input_tokens": usage.cached_input_tokens,
        "output_tokens": usage.output_tokens,
        "reasoning_tokens": usage.reasoning_tokens,
        "cost": _dollars(usage.total_cost_nanos),
        "known_cost": _dollars(usage.known_cost_nanos),
        "unpriced_requests": usage.unpriced_requests,
    }


def _dollars(nanos: int | None) -> float | None:
    return None if nanos is None else nanos / NANOS


def item_shape(item: JobItem) -> Shape:
    """One job item with its row and result."""
    return {
        "item_id": item.item_id,
        "row_index": item.row_index,
        "source_id": item.source_id,
        "status": str(item.status),
        "attempt_count": item.attempt_count,
        "error_class": str(item.error_class) if item.error_class else None,
        "last_error": item.last_error,
        "row": dict(item.row),
        "result": None if item.result_json is None else read(item.result_json),
        "reported_at": rfc3339(item.reported_at_ms),
        "completed_at": rfc3339(item.completed_at_ms),
    }


def attempt_shape(attempt: Attempt) -> Shape:
    """One attempt, as `show JOB ITEM --json` lists them."""
    return {
        "number": attempt.number,
        "thread_id": attempt.thread_id,
        "outcome": str(attempt.outcome),
        "counted": attempt.counted,
        "error_class": str(attempt.error_class) if attempt.error_class else None,
        "error": attempt.error,
        "raw_answer": attempt.raw_answer,
        "started_at": rfc3339(attempt.started_at_ms),
        "ended_at": rfc3339(attempt.ended_at_ms),
        "usage": usage_shape(attempt.usage),
    }


def started_event(view: JobView) -> Shape:
    """The first line of `run --json`."""
    return {"type": "job.started", **job_shape(view)}


def progress_event(job_id: str, progress: Progress) -> Shape:
    """A line of `run --json` while rows are worked on."""
    return {
        "type": "job.progress",
        "job_id": job_id,
        "total_items": progress.total,
        "pending_items": progress.pending,
        "running_items": progress.running,
        "completed_items": progress.completed,
        "failed_items": progress.failed,
        "rate": _rounded(progress.rate),
        "eta_seconds": _rounded(progress.eta_seconds),
        "elapsed_seconds": _rounded(progress.elapsed),
        "held_by": progress.held_by,
    }


def finished_event(result: JobResult) -> Shape:
    """The last line of `run --json`: what `spawn_agents_on_csv` answers."""
    return {"type": "job.finished", **asdict(result)}


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)
