"""The messages about jobs: rowcrew's own part of the wire. Names are those of the job tools, in camelCase."""

from typing import Any, Literal

from pydantic import Field, PositiveFloat, PositiveInt

from rowcrew.appserver.entities import Strict, Wire


class JobCreateParams(Strict):
    """As the options of `rowcrew run`. Paths are absolute, or relative to the server's folder."""

    input_path: str
    instruction: str
    output_path: str | None = None
    force: bool = False
    output_schema: dict[str, Any] | str | None = None
    name: str | None = None
    model: str | None = None
    base_url: str | None = None
    worker: str | None = None
    max_concurrency: PositiveInt | None = None
    max_runtime_seconds: PositiveFloat | None = None
    max_attempts: PositiveInt | None = None
    id_column: str | None = None
    delimiter: str | None = Field(default=None, min_length=1, max_length=1)
    encoding: str | None = None
    limit: PositiveInt | None = None
    auto_export: bool = True
    allow_unknown_placeholders: bool = False
    new: bool = False


class JobIdParams(Strict):
    """Any unique prefix of the id will do."""

    job_id: str


class JobStatusParams(JobIdParams):
    pass


class JobCancelParams(JobIdParams):
    pass


class JobPauseParams(JobIdParams):
    pass


class JobRunParams(JobIdParams):
    max_concurrency: PositiveInt | None = None
    auto_export: bool | None = None


class JobListParams(Strict):
    pass


class JobItemsParams(JobIdParams):
    status: Literal["pending", "running", "completed", "failed"] | None = None
    offset: int = Field(default=0, ge=0, le=2**53)
    limit: int = Field(default=100, ge=1, le=1000)


class JobExportParams(JobIdParams):
    path: str | None = None
    force: bool = False
    format: Literal["csv", "jsonl"] | None = None


class WireJob(Wire):
    """A job as it stands. Moments are RFC 3339, UTC."""

    job_id: str
    name: str | None
    status: Literal["pending", "running", "paused", "completed", "failed", "cancelled"]
    total_items: int
    pending_items: int
    running_items: int
    completed_items: int
    failed_items: int
    output_csv_path: str
    runner_active: bool
    paused_reason: str | None
    last_error: str | None
    eta_seconds: float | None
    created_at: str
    started_at: str | None
    completed_at: str | None


class WireJobItem(Wire):
    item_id: str
    row_index: int
    source_id: str | None
    status: Literal["pending", "running", "completed", "failed"]
    attempt_count: int
    error_class: str | None
    last_error: str | None
    row: dict[str, str]
    result: Any | None
    reported_at: str | None
    completed_at: str | None


class JobResponse(Wire):
    job: WireJob


class JobStatusResponse(JobResponse):
    pass


class JobCancelResponse(JobResponse):
    pass


class JobPauseResponse(JobResponse):
    pass


class JobCreateResponse(JobResponse):
    """`notices` are what one should know about the table."""

    notices: list[str]


class JobRunResponse(JobResponse):
    """`started` is false when it already runs here or has nothing left; `reason` says which."""

    started: bool
    reason: str | None


class JobListResponse(Wire):
    data: list[WireJob]


class JobItemsResponse(Wire):
    data: list[WireJobItem]


class JobExportResponse(Wire):
    job_id: str
    output_csv_path: str
    row_count: int


class JobProgressNotification(Wire):
    """At most four times a second while rows are worked on. A client that reads slowly misses some."""

    job_id: str
    total_items: int
    pending_items: int
    running_items: int
    completed_items: int
    failed_items: int
    rate: float | None
    eta_seconds: float | None
    elapsed_seconds: float
    held_by: str | None


class FailedItem(Wire):
    item_id: str
    source_id: str | None
    last_error: str | None


class JobCompletedNotification(Wire):
    """The end of a run, also of one that was paused or cancelled. At most five failed items."""

    job_id: str
    status: Literal["pending", "running", "paused", "completed", "failed", "cancelled"]
    output_csv_path: str
    total_items: int
    completed_items: int
    failed_items: int
    job_error: str | None
    failed_item_errors: list[FailedItem]
