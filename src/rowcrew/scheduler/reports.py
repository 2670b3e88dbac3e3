"""What happens to a report, whoever brings it: the check, the store, the answer. It ends no worker."""

from collections.abc import Sequence
from dataclasses import dataclass

from rowcrew.domain.attempt import Usage
from rowcrew.domain.schema import InvalidResult, OutputSchema, check_result, compact
from rowcrew.store.database import Connection, Database, NotTogether
from rowcrew.store.endings import MAX_RAW_ANSWER, NO_USAGE, ItemReport, ReportOutcome
from rowcrew.store.job_items import JobItemStore
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
    checked = _Checked(report, result_json, now)
    outcome = await database.write_with_others(_store_all, checked)
    if outcome == "accepted":
        return Verdict(accepted=True)
    return Verdict(accepted=False, reason=REFUSALS[outcome])


@dataclass(frozen=True, slots=True)
class _Checked:
    report: Report
    result_json: str
    now: int

    def as_stored(self) -> ItemReport:
        report = self.report
        return ItemReport(
            report.job_id, report.item_id, report.thread_id, self.result_json, report.usage, self.now
        )


def _store_all(connection: Connection, checked: Sequence[_Checked]) -> list[ReportOutcome]:
    if len(checked) == 1:
        return [_store(connection, checked[0])]
    items = JobItemStore(connection)
    for job_id, epoch in {(one.report.job_id, one.report.epoch) for one in checked}:
        if epoch is None:
            raise NotTogether
        items.fence(job_id, epoch)
    if any(one.report.stop for one in checked) or not items.report_all([one.as_stored() for one in checked]):
        raise NotTogether
    return ["accepted"] * len(checked)


def _store(connection: Connection, checked: _Checked) -> ReportOutcome:
    items, report = JobItemStore(connection), checked.report
    if report.epoch is not None:
        items.fence(report.job_id, report.epoch)
    elif items.count_invalid_reports(report.thread_id) >= MAX_INVALID_REPORTS:
        # Inside the engine the worker is ended; one in another process goes on by itself.
        return "too_often_invalid"
    outcome = items.report(checked.as_stored())
    if outcome != "accepted":
        # What was refused was paid for all the same.
        items.add_usage(report.job_id, report.thread_id, report.usage)
    elif report.stop:
        JobStore(connection).stop(report.job_id, now=checked.now)
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
