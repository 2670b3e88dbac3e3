"""What happens to a report, whoever brings it: the check, the store, the answer. It ends no worker."""

from dataclasses import dataclass

from rowcrew.domain.attempt import Usage
from rowcrew.domain.schema import InvalidResult, OutputSchema, check_result, compact
from rowcrew.store.database import Connection, Database
from rowcrew.store.job_items import MAX_RAW_ANSWER, NO_USAGE, JobItemStore, ReportOutcome
from rowcrew.store.jobs import JobStore
from rowcrew.workers.contract import Verdict

# After so many invalid reports of one attempt, mending is not going to work.
MAX_INVALID_REPORTS = 3

REFUSALS: dict[ReportOutcome, str] = {
    "unknown_item": "this job has no such item",
    "other_thread": "this item is not assigned to you: report the item id that you were given",
    "already_reported": "this item has been reported already; the first report stands",
    "too_often_invalid": "this attempt has broken the rules in too many reports; it is not heard any more",
    "too_late": "this attempt is over (it ran out of time, or was stopped); its item is no longer yours",
}


@dataclass(frozen=True, slots=True)
class Report:
    """One report on its way. `epoch` is the runner's lease, None when it comes from another process."""

    job_id: str
    item_id: str
    thread_id: str
    result: object
    stop: bool = False
    usage: Usage = NO_USAGE
    epoch: int | None = None


def readable(result: object) -> str:
    """A result that could not be accepted, as text to keep."""
    try:
        text = compact(result)
    except (ValueError, TypeError, RecursionError):
        try:
            text = repr(result)
        except Exception:  # too deep, or with an integer too long, for Python's own text too
            text = f"({type(result).__name__} that cannot be shown)"
    return text[:MAX_RAW_ANSWER].encode("utf-8", "replace").decode()


async def take(database: Database, report: Report, schema: OutputSchema | None, *, now: int) -> Verdict:
    """Check the report and store it. Raises only what the store raises (LeaseLost, DiskFull …)."""
    try:
        result_json = compact(check_result(report.result, schema))
    except InvalidResult as error:
        return await _refuse_invalid(database, report, str(error))
    outcome = await database.write(lambda connection: _store(connection, report, result_json, now))
    if outcome == "accepted":
        return Verdict(accepted=True)
    return Verdict(accepted=False, reason=REFUSALS[outcome])


def _store(connection: Connection, report: Report, result_json: str, now: int) -> ReportOutcome:
    items = JobItemStore(connection)
    if report.epoch is not None:
        items.fence(report.job_id, report.epoch)
    elif items.count_invalid_reports(report.thread_id) >= MAX_INVALID_REPORTS:
        # Inside the engine the worker is ended; one in another process goes on by itself.
        return "too_often_invalid"
    outcome = items.report(
        report.job_id,
        report.item_id,
        thread_id=report.thread_id,
        result_json=result_json,
        usage=report.usage,
        now=now,
    )
    if outcome != "accepted":
        # What was refused was paid for all the same.
        items.add_usage(report.job_id, report.thread_id, report.usage)
    elif report.stop:
        JobStore(connection).stop(report.job_id, now=now)
    return outcome


async def _refuse_invalid(database: Database, report: Report, reason: str) -> Verdict:
    def note(connection: Connection) -> int | None:
        items = JobItemStore(connection)
        items.add_usage(report.job_id, report.thread_id, report.usage)
        return items.note_invalid_report(
            report.job_id,
            report.item_id,
            thread_id=report.thread_id,
            error=reason,
            raw_answer=readable(report.result),
        )

    count = await database.write(note)
    mendable = count is not None and count < MAX_INVALID_REPORTS
    return Verdict(accepted=False, reason=reason, mendable=mendable)
