"""The jobs of the state file: create, start, end, lease. A synchronous view over one transaction.

Losing a race is a value: a move that the current state forbids returns False and changes nothing.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import apsw

from rowcrew.domain.item import JobItemSpec
from rowcrew.domain.job import Job, JobCounts, JobSettings, JobStatus, Lease, PausedReason
from rowcrew.errors import NotFound
from rowcrew.processes import ProcessIdentity
from rowcrew.store.job_items import JobItemStore
from rowcrew.store.queries import load
from rowcrew.store.rows import dump, job_of, lease_of, mappings, settings_to_json

queries = load("jobs")


@dataclass(frozen=True, slots=True)
class NewJob:
    """A job on its way into the store. `fingerprint` is equal for equal input, instruction and settings."""

    id: str
    name: str
    instruction: str
    auto_export: bool
    settings: JobSettings
    output_schema: dict[str, Any] | None
    input_headers: tuple[str, ...]
    input_path: str
    input_digest: str
    input_size: int
    output_path: str
    output_is_ours: bool
    fingerprint: str


@dataclass(frozen=True, slots=True)
class LeaseClaim:
    """Who asks for a lease. `up_ms` is the machine's monotonic clock."""

    owner: str
    host: str
    process: ProcessIdentity
    up_ms: int


@dataclass(frozen=True, slots=True)
class JobState:
    """What the runner looks at many times a second."""

    status: JobStatus
    lease_epoch: int
    counts: JobCounts


class JobStore:
    """Jobs, seen through one connection. Guards stand in the queries; the moves in domain/lifecycle.py."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection

    def create(self, job: NewJob, items: Iterable[JobItemSpec], *, now: int) -> int:
        """Store the job with all its job items, streamed. Returns how many there are."""
        self._connection.execute(
            queries.insert,
            {
                "id": job.id,
                "name": job.name,
                "instruction": job.instruction,
                "auto_export": int(job.auto_export),
                "max_runtime_seconds": float(job.settings.max_runtime_seconds),
                "output_schema_json": None if job.output_schema is None else dump(job.output_schema),
                "input_headers_json": dump(job.input_headers),
                "input_csv_path": job.input_path,
                "output_csv_path": job.output_path,
                "output_is_ours": int(job.output_is_ours),
                "now": now,
                "settings_json": settings_to_json(job.settings),
                "fingerprint": job.fingerprint,
                "input_digest": job.input_digest,
                "input_size": job.input_size,
            },
        )
        total = JobItemStore(self._connection).insert_all(job.id, job.input_headers, items, now=now)
        self._connection.execute(queries.insert_totals, {"job_id": job.id, "total": total})
        return total

    # -- looking ----------------------------------------------------------------------------------------

    def get(self, job_id: str) -> Job:
        """Raises NotFound."""
        rows = mappings(self._connection.execute(queries.get, {"job_id": job_id}))
        if not rows:
            raise NotFound(f"there is no job {job_id}", hint="`rowcrew list` shows the jobs")
        return job_of(rows[0])

    def list_all(self) -> list[Job]:
        """All jobs, the newest first."""
        return [job_of(row) for row in mappings(self._connection.execute(queries.list_all))]

    def status_of(self, job_id: str) -> JobState:
        """Raises NotFound."""
        row = self._connection.execute(queries.status_of, {"job_id": job_id}).fetchone()
        if row is None:
            raise NotFound(f"there is no job {job_id}", hint="`rowcrew list` shows the jobs")
        status, epoch, *counts = row
        return JobState(JobStatus(status), epoch, JobCounts(*counts))

    def list_ids_like(self, prefix: str) -> list[str]:
        """At most six ids that begin with `prefix`."""
        return self._ids(queries.list_ids_like, prefix=prefix)

    def latest_id(self, *, unfinished: bool) -> str | None:
        """The newest job, or the newest with something left to do."""
        found = self._ids(queries.latest_unfinished_id if unfinished else queries.latest_id)
        return found[0] if found else None

    def find_unfinished_twin(self, fingerprint: str) -> str | None:
        """A job with the same fingerprint that has something left to do."""
        return next(iter(self._ids(queries.find_unfinished_twin, fingerprint=fingerprint)), None)

    def find_writing_to(self, path: str) -> str | None:
        """An unfinished job whose output is `path`."""
        return next(iter(self._ids(queries.find_writing_to, path=path)), None)

    def _ids(self, query: str, **values: str) -> list[str]:
        rows: Iterator[Any] = iter(self._connection.execute(query, values))
        return [row[0] for row in rows]

    # -- the lease --------------------------------------------------------------------------------------

    def take_lease(
        self, job_id: str, claim: LeaseClaim, *, now: int, is_dead: Callable[[Lease], bool]
    ) -> int | Lease:
        """The new epoch, or the lease of the owner who is not dead. Raises NotFound."""
        rows = mappings(self._connection.execute(queries.get, {"job_id": job_id}))
        if not rows:
            raise NotFound(f"there is no job {job_id}", hint="`rowcrew list` shows the jobs")
        held = lease_of(rows[0])
        if held is not None and not is_dead(held):
            return held
        row = self._connection.execute(
            queries.take_lease,
            {
                "job_id": job_id,
                "owner": claim.owner,
                "host": claim.host,
                "pid": claim.process.pid,
                "pid_started": claim.process.started,
                "boot_id": claim.process.boot_id,
                "now": now,
                "up": claim.up_ms,
            },
        ).fetchone()
        return int(row[0]) if row else 0

    def heartbeat(self, job_id: str, *, epoch: int, owner: str, now: int, up: int) -> bool:
        """False when the lease was lost."""
        return self._changed(queries.heartbeat, job_id=job_id, epoch=epoch, owner=owner, now=now, up=up)

    def release_lease(self, job_id: str, *, epoch: int, now: int) -> bool:
        return self._changed(queries.release_lease, job_id=job_id, epoch=epoch, now=now)

    # -- moves ------------------------------------------------------------------------------------------

    def start(self, job_id: str, *, now: int) -> bool:
        """→ running, also a final job with pending job items. False when nothing is left to do."""
        return self._changed(queries.start, job_id=job_id, now=now)

    def complete(self, job_id: str, *, epoch: int, now: int) -> bool:
        return self._changed(queries.complete, job_id=job_id, epoch=epoch, now=now)

    def fail(self, job_id: str, *, message: str, now: int) -> bool:
        return self._changed(queries.fail, job_id=job_id, message=message, now=now)

    def cancel(self, job_id: str, *, message: str, now: int) -> bool:
        return self._changed(queries.cancel, job_id=job_id, message=message, now=now)

    def stop(self, job_id: str, *, now: int) -> bool:
        """→ cancelled on a worker's word."""
        return self._changed(queries.stop, job_id=job_id, now=now)

    def pause(self, job_id: str, *, reason: PausedReason, message: str, now: int) -> bool:
        return self._changed(queries.pause, job_id=job_id, reason=str(reason), message=message, now=now)

    def set_auto_export(self, job_id: str, *, auto_export: bool, now: int) -> bool:
        return self._changed(queries.set_auto_export, job_id=job_id, auto_export=int(auto_export), now=now)

    def set_output_is_ours(self, job_id: str) -> bool:
        """The file at the output path was written by this job; it may be replaced from now on."""
        return self._changed(queries.set_output_is_ours, job_id=job_id)

    def delete(self, job_id: str) -> bool:
        """False when someone holds the lease, or there is no such job."""
        return self._changed(queries.delete, job_id=job_id)

    def _changed(self, query: str, **values: Any) -> bool:
        self._connection.execute(query, values)
        return self._connection.changes() > 0
