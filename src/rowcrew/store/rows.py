"""Between rows of the job tables and the domain: the only place that knows their column types."""

import json
from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any

import apsw

from rowcrew.domain.attempt import Attempt, AttemptOutcome, Usage
from rowcrew.domain.item import JobItem, JobItemStatus
from rowcrew.domain.job import Job, JobCounts, JobSettings, JobStatus, Lease, PausedReason, RetryPolicy
from rowcrew.errors import ErrorClass
from rowcrew.processes import ProcessIdentity

Row = Mapping[str, Any]
USAGE_COLUMNS = tuple(field.name for field in fields(Usage))


def dump(value: object) -> str:
    """Compact JSON as the tables hold it."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def mappings(cursor: apsw.Cursor) -> list[Row]:
    """All rows of a query as mappings from column name to value."""
    rows: list[Row] = []
    names: list[str] | None = None
    for row in cursor:
        if names is None:
            names = [column[0] for column in cursor.get_description()]
        rows.append(dict(zip(names, row, strict=True)))
    return rows


def usage_of(row: Row) -> Usage:
    return Usage(**{name: row[name] for name in USAGE_COLUMNS})


def settings_to_json(settings: JobSettings) -> str:
    return dump(asdict(settings))


def settings_from_json(text: str) -> JobSettings:
    """Settings that a newer version added are left out: an older one cannot act on them."""
    known = {field.name for field in fields(JobSettings)}
    values = {key: value for key, value in json.loads(text).items() if key in known}
    values["retry"] = RetryPolicy(**values["retry"])
    return JobSettings(**values)


def lease_of(row: Row) -> Lease | None:
    if row["lease_owner"] is None:
        return None
    return Lease(
        epoch=row["lease_epoch"],
        owner=row["lease_owner"],
        host=row["lease_host"],
        process=ProcessIdentity(row["lease_pid"], row["lease_pid_started"], row["lease_boot_id"]),
        heartbeat_at_ms=row["lease_heartbeat_at_ms"],
        heartbeat_up_ms=row["lease_heartbeat_up_ms"],
    )


def job_of(row: Row) -> Job:
    schema = row["output_schema_json"]
    return Job(
        id=row["id"],
        name=row["name"],
        status=JobStatus(row["status"]),
        instruction=row["instruction"],
        auto_export=bool(row["auto_export"]),
        settings=settings_from_json(row["settings_json"]),
        output_schema=None if schema is None else json.loads(schema),
        input_headers=tuple(json.loads(row["input_headers_json"])),
        input_path=row["input_csv_path"],
        input_digest=row["input_digest"],
        input_size=row["input_size"],
        output_path=row["output_csv_path"],
        output_is_ours=bool(row["output_is_ours"]),
        counts=JobCounts(row["total"], row["pending"], row["running"], row["completed"], row["failed"]),
        usage=usage_of(row),
        paused_reason=None if row["paused_reason"] is None else PausedReason(row["paused_reason"]),
        last_error=row["last_error"],
        lease=lease_of(row),
        run_started_at_ms=row["run_started_at_ms"],
        run_started_done=row["run_started_done"],
        created_at_ms=row["created_at_ms"],
        updated_at_ms=row["updated_at_ms"],
        started_at_ms=row["started_at_ms"],
        completed_at_ms=row["completed_at_ms"],
    )


def error_class_of(row: Row) -> ErrorClass | None:
    return None if row["error_class"] is None else ErrorClass(row["error_class"])


def item_of(row: Row) -> JobItem:
    return JobItem(
        job_id=row["job_id"],
        item_id=row["item_id"],
        row_index=row["row_index"],
        source_id=row["source_id"],
        row=json.loads(row["row_json"]),
        status=JobItemStatus(row["status"]),
        assigned_thread_id=row["assigned_thread_id"],
        attempt_count=row["attempt_count"],
        result_json=row["result_json"],
        last_error=row["last_error"],
        error_class=error_class_of(row),
        not_before_at_ms=row["not_before_at_ms"],
        created_at_ms=row["created_at_ms"],
        updated_at_ms=row["updated_at_ms"],
        completed_at_ms=row["completed_at_ms"],
        reported_at_ms=row["reported_at_ms"],
    )


def attempt_of(row: Row) -> Attempt:
    return Attempt(
        job_id=row["job_id"],
        item_id=row["item_id"],
        number=row["number"],
        thread_id=row["thread_id"],
        started_at_ms=row["started_at_ms"],
        ended_at_ms=row["ended_at_ms"],
        outcome=AttemptOutcome(row["outcome"]),
        counted=bool(row["counted"]),
        error_class=error_class_of(row),
        error=row["error"],
        raw_answer=row["raw_answer"],
        usage=usage_of(row),
    )
