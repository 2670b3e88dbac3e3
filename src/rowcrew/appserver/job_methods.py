"""The methods of jobs: from parameters to a use case and back. It has no rule of its own."""

import asyncio
import json
from datetime import UTC, datetime
from pathlib import Path

from rowcrew.appserver import job_protocol as wire
from rowcrew.appserver.connection import Connection, Run
from rowcrew.appserver.entities import Wire
from rowcrew.appserver.services import Services
from rowcrew.domain.intake import TableOptions
from rowcrew.domain.item import JobItem, JobItemStatus
from rowcrew.errors import Conflict
from rowcrew.scheduler.creation import JobRequest
from rowcrew.scheduler.views import JobView

# Not the caller's fault, and nothing to be done about: the answer says so and is no error.
NOTHING_TO_START = ("running_here", "nothing_left")


class JobMethods:
    """One method of this class for each method of the wire."""

    def __init__(self, services: Services) -> None:
        self._engine = services.engine
        self._jobs = services.engine.jobs
        self._runs = services.runs

    def table(self) -> dict[str, Run]:
        return {
            "job/create": self.create,
            "job/run": self.run,
            "job/status": self.status,
            "job/list": self.list_jobs,
            "job/items": self.items,
            "job/cancel": self.cancel,
            "job/pause": self.pause,
            "job/export": self.export,
        }

    async def create(self, _: Connection, params: wire.JobCreateParams) -> Wire:
        settings = self._engine.job_settings(
            worker=params.worker,
            model=params.model,
            base_url=params.base_url,
            max_runtime_seconds=params.max_runtime_seconds,
            max_attempts=params.max_attempts,
            max_concurrency=params.max_concurrency,
        )
        request = JobRequest(
            input_path=Path(params.input_path),
            instruction=params.instruction,
            table=_table(params),
            output_path=None if params.output_path is None else Path(params.output_path),
            force=params.force,
            output_schema=params.output_schema,
            name=params.name,
            settings=settings,
            auto_export=params.auto_export,
            allow_unknown_placeholders=params.allow_unknown_placeholders,
            new=params.new,
        )
        created = await self._jobs.create_from_table(request)
        view = await self._jobs.view(created.job.id)
        return wire.JobCreateResponse(job=wire_job(view), notices=list(created.notices))

    async def run(self, _: Connection, params: wire.JobRunParams) -> Wire:
        job = await self._jobs.find(params.job_id)
        reason = None
        try:
            await self._runs.start(
                job.id, max_concurrency=params.max_concurrency, auto_export=params.auto_export
            )
        except Conflict as conflict:
            if conflict.state not in NOTHING_TO_START:
                raise
            reason = conflict.message
        view = await self._jobs.view(job.id)
        return wire.JobRunResponse(job=wire_job(view), started=reason is None, reason=reason)

    async def status(self, _: Connection, params: wire.JobStatusParams) -> Wire:
        job = await self._jobs.find(params.job_id)
        return wire.JobStatusResponse(job=wire_job(await self._jobs.view(job.id)))

    async def list_jobs(self, _: Connection, _params: wire.JobListParams) -> Wire:
        return wire.JobListResponse(data=[wire_job(view) for view in await self._jobs.list()])

    async def items(self, _: Connection, params: wire.JobItemsParams) -> Wire:
        job = await self._jobs.find(params.job_id)
        status = None if params.status is None else JobItemStatus(params.status)
        items = await self._jobs.items(job.id, status=status, offset=params.offset, limit=params.limit)
        return wire.JobItemsResponse(data=[_wire_item(item) for item in items])

    async def cancel(self, _: Connection, params: wire.JobCancelParams) -> Wire:
        job = await self._jobs.find(params.job_id)
        return wire.JobCancelResponse(job=wire_job(await self._jobs.cancel(job.id)))

    async def pause(self, _: Connection, params: wire.JobPauseParams) -> Wire:
        job = await self._jobs.find(params.job_id)
        return wire.JobPauseResponse(job=wire_job(await self._jobs.pause(job.id)))

    async def export(self, _: Connection, params: wire.JobExportParams) -> Wire:
        job = await self._jobs.find(params.job_id)
        path = None if params.path is None else await asyncio.to_thread(Path(params.path).absolute)
        exported = await self._jobs.export(job.id, path=path, force=params.force, output_format=params.format)
        return wire.JobExportResponse(
            job_id=job.id, output_csv_path=str(exported.path), row_count=exported.row_count
        )


def _table(params: wire.JobCreateParams) -> TableOptions:
    return TableOptions(
        id_column=params.id_column,
        delimiter=params.delimiter,
        encoding=params.encoding,
        limit=params.limit,
    )


def wire_job(view: JobView) -> wire.WireJob:
    job, counts = view.job, view.job.counts
    return wire.WireJob(
        job_id=job.id,
        name=job.name,
        status=str(job.status),  # type: ignore[arg-type]
        total_items=counts.total,
        pending_items=counts.pending,
        running_items=counts.running,
        completed_items=counts.completed,
        failed_items=counts.failed,
        output_csv_path=job.output_path,
        runner_active=view.runner_active,
        paused_reason=None if job.paused_reason is None else str(job.paused_reason),
        last_error=job.last_error,
        eta_seconds=view.eta_seconds,
        created_at=_moment(job.created_at_ms) or "",
        started_at=_moment(job.started_at_ms),
        completed_at=_moment(job.completed_at_ms),
    )


def _wire_item(item: JobItem) -> wire.WireJobItem:
    return wire.WireJobItem(
        item_id=item.item_id,
        row_index=item.row_index,
        source_id=item.source_id,
        status=str(item.status),  # type: ignore[arg-type]
        attempt_count=item.attempt_count,
        error_class=None if item.error_class is None else str(item.error_class),
        last_error=item.last_error,
        row=dict(item.row),
        result=None if item.result_json is None else json.loads(item.result_json),
        reported_at=_moment(item.reported_at_ms),
        completed_at=_moment(item.completed_at_ms),
    )


def _moment(milliseconds: int | None) -> str | None:
    if milliseconds is None:
        return None
    moment = datetime.fromtimestamp(milliseconds / 1000, tz=UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
