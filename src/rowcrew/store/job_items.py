"""The job items of the state file and their attempts. A synchronous view over one connection's transaction.

Every move is one guarded statement on the job item and one on its attempt. Moves of a runner carry the epoch
of its lease and raise LeaseLost when another process has taken the job.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

import apsw

from rowcrew.domain.attempt import Attempt, AttemptOutcome, Usage
from rowcrew.domain.ids import new_id
from rowcrew.domain.item import JobItem, JobItemSpec, JobItemStatus
from rowcrew.errors import LeaseLost, NotFound
from rowcrew.processes import ProcessIdentity
from rowcrew.store.endings import NO_USAGE, AttemptEnd, ItemReport, ReportOutcome
from rowcrew.store.queries import load
from rowcrew.store.rows import USAGE_COLUMNS, attempt_of, dump, item_of, mappings

queries = load("job_items")


@dataclass(frozen=True, slots=True)
class Leftover:
    """A job item that a dead engine left running, and its worker's process where it had one."""

    item: JobItem
    process: ProcessIdentity | None


class JobItemStore:
    """Job items, seen through one connection."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection

    def insert_all(
        self, job_id: str, headers: Sequence[str], items: Iterable[JobItemSpec], *, now: int
    ) -> int:
        """Store the rows as they come; none is held. Returns how many."""
        count = 0
        encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode

        def rows() -> Iterator[tuple[Any, ...]]:
            nonlocal count
            for item in items:
                count += 1
                row = encode(dict(zip(headers, item.cells, strict=True)))
                yield (job_id, item.item_id, item.row_index, item.source_id, row, now, now)

        self._connection.executemany(queries.insert, rows())
        return count

    # -- looking ----------------------------------------------------------------------------------------

    def get(self, job_id: str, item_id: str) -> JobItem:
        """Raises NotFound."""
        rows = mappings(self._connection.execute(queries.get, {"job_id": job_id, "item_id": item_id}))
        if not rows:
            raise NotFound(f"job {job_id} has no item {item_id!r}")
        return item_of(rows[0])

    def list_attempts(self, job_id: str, item_id: str) -> list[Attempt]:
        """Oldest first."""
        cursor = self._connection.execute(queries.list_attempts, {"job_id": job_id, "item_id": item_id})
        return [attempt_of(row) for row in mappings(cursor)]

    def list_page(
        self, job_id: str, *, status: JobItemStatus | None, offset: int, limit: int
    ) -> list[JobItem]:
        """In row order."""
        values: dict[str, Any] = {"job_id": job_id, "offset": offset, "limit": limit}
        query = queries.list_page
        if status is not None:
            values["status"] = str(status)
            query = queries.list_page_with_status
        return [item_of(row) for row in mappings(self._connection.execute(query, values))]

    def list_failures(self, job_id: str, *, limit: int) -> list[tuple[str, str | None, str | None]]:
        """(item_id, source_id, last_error) of the first failed job items."""
        rows: Iterator[Any] = self._connection.execute(
            queries.list_failures, {"job_id": job_id, "limit": limit}
        )
        return list(rows)

    def list_running(self, job_id: str) -> dict[str, str | None]:
        """item_id → assigned thread of what the store shows as running."""
        rows: Iterator[Any] = self._connection.execute(queries.list_running, {"job_id": job_id})
        return dict(rows)

    def next_ready_at(self, job_id: str) -> int | None:
        """The earliest time in Unix milliseconds at which a pending job item may be claimed."""
        row = self._connection.execute(queries.next_ready_at, {"job_id": job_id}).fetchone()
        return None if row is None else row[0]

    def iterate(self, job_id: str) -> Iterator[JobItem]:
        """All job items in row order, streamed."""
        cursor = self._connection.cursor()
        names: list[str] | None = None
        for row in cursor.execute(queries.iterate, {"job_id": job_id}):
            if names is None:
                names = [column[0] for column in cursor.get_description()]
            yield item_of(dict(zip(names, row, strict=True)))

    def leftovers(self, job_id: str) -> list[Leftover]:
        """What is running in the store, for rescue."""
        found = []
        for row in mappings(self._connection.execute(queries.leftovers, {"job_id": job_id})):
            pid = row["pid"]
            process = None if pid is None else ProcessIdentity(pid, row["pid_started"], row["boot_id"])
            found.append(Leftover(item_of(row), process))
        return found

    def lingering(self, job_id: str, *, owner: str) -> list[tuple[ProcessIdentity, str]]:
        """(process, thread) of workers that may have outlived both their attempt and this dead owner."""
        rows: Iterator[Any] = self._connection.execute(queries.lingering, {"job_id": job_id, "owner": owner})
        return [(ProcessIdentity(pid, started, boot), thread) for thread, pid, started, boot in rows]

    # -- moves of a runner ------------------------------------------------------------------------------

    def fence(self, job_id: str, epoch: int) -> None:
        """Raises LeaseLost when the lease is no longer this runner's."""
        row = self._connection.execute(queries.fenced, {"job_id": job_id, "epoch": epoch}).fetchone()
        if row is None:
            raise LeaseLost(f"another process runs job {job_id} now; this one writes nothing more")

    def claim(self, job_id: str, *, limit: int, epoch: int, now: int) -> list[JobItem]:
        """pending → running, lowest row first, at most `limit`. Nothing when the job does not run."""
        return [
            item for item, _ in self._claim(job_id, with_attempts=False, limit=limit, epoch=epoch, now=now)
        ]

    def claim_assigned(
        self, job_id: str, *, limit: int, epoch: int, now: int
    ) -> list[tuple[JobItem, str, int]]:
        """Claim, and assign each to a thread with a new id. (job item as claimed, thread id, attempt)."""
        taken = self._claim(job_id, with_attempts=True, limit=limit, epoch=epoch, now=now)
        return [(item, thread_id, item.attempt_count + 1) for item, thread_id in taken]

    def _claim(
        self, job_id: str, *, with_attempts: bool, limit: int, epoch: int, now: int
    ) -> list[tuple[JobItem, str]]:
        """Each with a new thread id, which is stored with its attempt where that begins now."""
        given = {"job_id": job_id, "limit": limit, "epoch": epoch, "now": now}
        [[rows_json]] = self._connection.execute(queries.claimable, given)
        rows = json.loads(str(rows_json))
        if not rows:
            return []
        rows.sort(key=itemgetter("row_index"))
        thread_ids = [new_id() for _ in rows]
        claimed = [
            {"rowid": row["rowid"], "thread_id": thread_id if with_attempts else None}
            for row, thread_id in zip(rows, thread_ids, strict=True)
        ]
        values = {"claimed_json": dump(claimed), "now": now}
        self._connection.execute(queries.claim_all, values)
        if with_attempts:
            self._connection.execute(queries.insert_attempts, values)
        return [(item_of(row), thread_id) for row, thread_id in zip(rows, thread_ids, strict=True)]

    def assign(
        self,
        job_id: str,
        item_id: str,
        *,
        thread_id: str,
        process: ProcessIdentity | None,
        epoch: int,
        now: int,
    ) -> int | None:
        """Count and store the attempt. Its number, or None when the job item left `running` meanwhile."""
        self.fence(job_id, epoch)
        row = self._connection.execute(
            queries.assign, {"job_id": job_id, "item_id": item_id, "thread_id": thread_id, "now": now}
        ).fetchone()
        if row is None:
            return None
        self._connection.execute(
            queries.insert_attempt,
            {
                "job_id": job_id,
                "item_id": item_id,
                "thread_id": thread_id,
                "number": row[0],
                "now": now,
                "pid": process.pid if process else None,
                "pid_started": process.started if process else None,
                "boot_id": process.boot_id if process else None,
            },
        )
        return int(row[0])

    def fail(
        self, job_id: str, item_id: str, *, thread_id: str | None, end: AttemptEnd, epoch: int, now: int
    ) -> bool:
        """running → failed. False when the job item is no longer this thread's."""
        return self._end_badly(queries.fail, job_id, item_id, thread_id, end, epoch=epoch, now=now)

    def retry(
        self,
        job_id: str,
        item_id: str,
        *,
        thread_id: str | None,
        end: AttemptEnd,
        not_before: int,
        epoch: int,
        now: int,
    ) -> bool:
        """running → pending, the attempt counted. False when the job item is no longer this thread's."""
        return self._end_badly(
            queries.retry, job_id, item_id, thread_id, end, epoch=epoch, now=now, not_before=not_before
        )

    def _end_badly(
        self,
        query: str,
        job_id: str,
        item_id: str,
        thread_id: str | None,
        end: AttemptEnd,
        *,
        epoch: int,
        now: int,
        **values: int,
    ) -> bool:
        self.fence(job_id, epoch)
        self._connection.execute(
            query,
            {
                "job_id": job_id,
                "item_id": item_id,
                "thread_id": thread_id,
                "error": end.error,
                "error_class": str(end.error_class),
                "now": now,
                **values,
            },
        )
        moved = self._connection.changes() > 0
        if thread_id is not None:
            self._end_attempt(thread_id, AttemptOutcome.FAILED, now=now, end=end)
            self.add_usage(job_id, thread_id, end.usage)
        return moved

    def release(
        self,
        job_id: str,
        item_id: str,
        *,
        thread_id: str | None,
        epoch: int,
        now: int,
        not_before: int = 0,
        end: AttemptEnd | None = None,
    ) -> bool:
        """running → pending, the attempt (if there was one) uncounted. `end` says why, where it is known."""
        self.fence(job_id, epoch)
        self._connection.execute(
            queries.release,
            {
                "job_id": job_id,
                "item_id": item_id,
                "thread_id": thread_id,
                "not_before": not_before,
                "now": now,
            },
        )
        moved = self._connection.changes() > 0
        if thread_id is not None:
            self._end_attempt(thread_id, AttemptOutcome.RELEASED, now=now, end=end)
            if end is not None:
                self.add_usage(job_id, thread_id, end.usage)
        return moved

    # -- moves of others --------------------------------------------------------------------------------

    def report(self, report: ItemReport) -> ReportOutcome:
        """running → completed, only for the assigned thread."""
        if self.report_all([report]):
            return "accepted"
        key = {"job_id": report.job_id, "item_id": report.item_id}
        rows = mappings(self._connection.execute(queries.get, key))
        if not rows:
            return "unknown_item"
        given = self._connection.execute(
            queries.thread_of_attempt, {"thread_id": report.thread_id}
        ).fetchone()
        if given != (report.job_id, report.item_id):
            return "other_thread"
        return "already_reported" if rows[0]["status"] == JobItemStatus.COMPLETED else "too_late"

    def report_all(self, reports: Sequence[ItemReport]) -> bool:
        """As `report`, for many, in as few statements as for one. False when one of them is not accepted.

        Then some may be stored all the same: the caller rolls back, and asks `report` about each.
        """
        values = {"reports_json": dump([report.columns() for report in reports])}
        self._connection.execute(queries.report_all, values)
        if self._connection.changes() != len(reports):
            return False
        self._connection.execute(queries.end_reported, values)
        spent: dict[str, Usage] = {}
        for report in reports:
            spent[report.job_id] = spent.get(report.job_id, NO_USAGE) + report.usage
        for job_id, usage in spent.items():
            self._add_to_totals(job_id, usage)
        return True

    def note_invalid_report(
        self, job_id: str, item_id: str, *, thread_id: str, error: str, raw_answer: str
    ) -> int | None:
        """How many of its reports were invalid now; None when the attempt has ended or was another's."""
        row = self._connection.execute(
            queries.note_invalid_report,
            {
                "job_id": job_id,
                "item_id": item_id,
                "thread_id": thread_id,
                "error": error,
                "raw_answer": raw_answer,
            },
        ).fetchone()
        return None if row is None else int(row[0])

    def count_invalid_reports(self, thread_id: str) -> int:
        """How many of an attempt's reports were invalid; 0 where there is no such attempt."""
        row = self._connection.execute(queries.count_invalid_reports, {"thread_id": thread_id}).fetchone()
        return 0 if row is None else int(row[0])

    def find_invalid_report(self, thread_id: str) -> tuple[str, str | None] | None:
        """(what was wrong, the raw answer) of the last invalid report of an attempt, if it made one."""
        row: tuple[str, str | None] | None = self._connection.execute(
            queries.invalid_report_of, {"thread_id": thread_id}
        ).fetchone()
        return row

    def retry_failed(self, job_id: str, item_id: str | None, *, now: int) -> int:
        """failed → pending, one job item or all of the job. How many moved."""
        self._connection.execute(queries.retry_failed, {"job_id": job_id, "item_id": item_id, "now": now})
        return self._connection.changes()

    def add_usage(self, job_id: str, thread_id: str, usage: Usage) -> None:
        """Add to what the attempt and the job have cost."""
        if usage != NO_USAGE:
            values = {name: getattr(usage, name) for name in USAGE_COLUMNS}
            self._connection.execute(queries.add_usage_to_attempt, {"thread_id": thread_id, **values})
            self._add_to_totals(job_id, usage)

    def _add_to_totals(self, job_id: str, usage: Usage) -> None:
        if usage != NO_USAGE:
            values = {name: getattr(usage, name) for name in USAGE_COLUMNS}
            self._connection.execute(queries.add_usage, {"job_id": job_id, **values})

    def _end_attempt(
        self, thread_id: str, outcome: AttemptOutcome, *, now: int, end: AttemptEnd | None = None
    ) -> None:
        self._connection.execute(
            queries.end_attempt,
            {
                "thread_id": thread_id,
                "now": now,
                "outcome": str(outcome),
                "counted": int(outcome is not AttemptOutcome.RELEASED),
                "error_class": str(end.error_class) if end else None,
                "error": end.error if end else None,
                "raw_answer": end.raw_answer if end else None,
            },
        )
