"""Jobs, job items and progress as text for people. Plain strings; it prints nothing."""

from collections.abc import Sequence

from rowcrew.cli.shapes import rfc3339
from rowcrew.cli.terminal import one_line, printable
from rowcrew.domain.attempt import Attempt, Usage
from rowcrew.domain.ids import short
from rowcrew.domain.item import JobItem
from rowcrew.domain.job import JobCounts, JobStatus, PausedReason
from rowcrew.domain.json_text import indented, read
from rowcrew.domain.price import NANOS
from rowcrew.scheduler.progress import Progress
from rowcrew.scheduler.views import JobResult, JobView

BEFORE_RESUME = {
    PausedReason.ACCOUNT: "Put the key or the credit right, then go on with",
    PausedReason.DISK_FULL: "Free some space, then go on with",
    PausedReason.BUDGET: "Raise the budget, then go on with",
    PausedReason.QUOTA: "When there is quota again, go on with",
}


def rows(count: int) -> str:
    """A count of rows in words."""
    return "1 row" if count == 1 else f"{count:,} rows"


def tally(counts: JobCounts) -> str:
    """How many rows ended how."""
    text = f"{counts.completed:,} of {rows(counts.total)} completed, {counts.failed:,} failed"
    left = counts.pending + counts.running
    return f"{text}, {left:,} left" if left else text


def duration(seconds: float) -> str:
    """A time span as one would say it."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02} min"


def moment(milliseconds: int | None) -> str:
    """A time for people, to the second, UTC."""
    text = rfc3339(milliseconds)
    return "" if text is None else f"{text[:10]} {text[11:19]} UTC"


def progress_line(progress: Progress) -> str:
    """One line that says where a run stands."""
    done = progress.completed + progress.failed
    parts = [f"{done:,}/{progress.total:,} rows done"]
    if progress.failed:
        parts.append(f"{progress.failed:,} failed")
    parts.append(f"{progress.running:,} running")
    if progress.rate is not None:
        parts.append(f"{progress.rate:.1f} rows/s")
    if progress.eta_seconds:
        parts.append(f"about {duration(progress.eta_seconds)} left")
    if progress.held_by is not None:
        parts.append(f"waiting: {progress.held_by}")
    return ", ".join(parts)


def table(
    header: Sequence[str], lines: Sequence[Sequence[str]], *, right: frozenset[int] = frozenset()
) -> str:
    """Columns side by side. `right` names those that are set to the right."""
    widths = [max(len(line[column]) for line in (header, *lines)) for column in range(len(header))]

    def row(cells: Sequence[str]) -> str:
        return "  ".join(
            cell.rjust(width) if column in right else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(cells, widths, strict=True))
        ).rstrip()

    return "\n".join(row(line) for line in (header, *lines))


def fields(pairs: Sequence[tuple[str, str]]) -> str:
    """Names and values below each other; what has no value is left out."""
    width = max(len(name) for name, _ in pairs)
    return "\n".join(f"  {name.ljust(width)}  {value}" for name, value in pairs if value)


def job_table(views: Sequence[JobView]) -> str:
    """The jobs of `rowcrew list`."""
    header = ("JOB", "STATUS", "ROWS", "DONE", "FAILED", "CREATED", "NAME")
    lines = [
        (
            short(view.job.id),
            _status_word(view),
            str(view.job.counts.total),
            str(view.job.counts.completed),
            str(view.job.counts.failed),
            moment(view.job.created_at_ms)[:16],
            one_line(view.job.name, 60),
        )
        for view in views
    ]
    return table(header, lines, right=frozenset({2, 3, 4}))


def _status_word(view: JobView) -> str:
    if view.job.status is JobStatus.RUNNING and not view.runner_active:
        return "stopped"
    return str(view.job.status)


def usage_text(usage: Usage) -> str:
    """Requests and tokens, with the parts that are cheaper or not seen. Empty where nothing was asked."""
    if not usage.requests:
        return ""
    cached = f" ({usage.cached_input_tokens:,} cached)" if usage.cached_input_tokens else ""
    reasoning = f" ({usage.reasoning_tokens:,} reasoning)" if usage.reasoning_tokens else ""
    requests = "1 request" if usage.requests == 1 else f"{usage.requests:,} requests"
    return f"{requests}, {usage.input_tokens:,} tokens in{cached}, {usage.output_tokens:,} out{reasoning}"


def cost_text(usage: Usage) -> str:
    """What it cost, where that is known; empty where nothing is."""
    known = usage.known_cost_nanos
    if known is None:
        return ""
    # Cents say nothing about a row, and four more digits nothing about a job.
    text = f"${known / NANOS:,.{2 if known >= 100 * NANOS else 6}f}"
    if usage.unpriced_requests:
        return f"{text} and {usage.unpriced_requests:,} of {usage.requests:,} requests at an unknown price"
    return text


def job_text(view: JobView) -> str:
    """Everything about one job that people ask for."""
    job, counts, usage = view.job, view.job.counts, view.job.usage
    done = counts.completed + counts.failed
    status = _status_word(view)
    if job.paused_reason is not None:
        status += f" ({job.paused_reason})"
    if status == "stopped":
        status = "stopped: it was running, and its process is gone"
    total = f"{counts.total:,} = {counts.completed:,} completed + {counts.failed:,} failed"
    total += f" + {counts.running:,} running + {counts.pending:,} pending"
    pace = f"{100 * done // counts.total} %" if counts.total else ""
    if view.rate is not None:
        pace += f", {view.rate:.1f} rows/s"
    if view.eta_seconds is not None:
        pace += f", about {duration(view.eta_seconds)} left"
    runner = (
        f"process {job.lease.process.pid} on {job.lease.host}" if job.lease and view.runner_active else ""
    )
    model = f", model {job.settings.model}" if job.settings.model else ""
    pairs = [
        ("status", status),
        ("rows", total),
        ("progress", pace),
        ("said", printable(job.last_error or "")),
        ("runner", runner),
        ("worker", printable(job.settings.worker) + model),
        ("input", printable(job.input_path)),
        ("output", printable(job.output_path)),
        ("created", moment(job.created_at_ms)),
        ("started", moment(job.started_at_ms)),
        ("completed", moment(job.completed_at_ms)),
        ("usage", usage_text(usage)),
        ("cost", cost_text(usage)),
    ]
    return f"Job {job.id} ({one_line(job.name, 80)})\n{fields(pairs)}"


def failure_lines(result: JobResult) -> list[str]:
    """The first failed rows of a result, a line each."""
    return [
        f"  {one_line(str(failure['item_id']), 60)}: {one_line(failure['last_error'] or 'failed')}"
        for failure in result.failed_item_errors
    ]


def next_steps(view: JobView) -> list[str]:
    """What to type next, for the state that the job is in. Empty when all is done."""
    job, name = view.job, short(view.job.id)
    steps: list[str] = []
    if job.status is JobStatus.FAILED:
        steps.append(f"Write its table elsewhere with: rowcrew export {name} -o PATH")
    if job.counts.pending + job.counts.running and not view.runner_active:
        before = BEFORE_RESUME.get(job.paused_reason, "Go on with") if job.paused_reason else "Go on with"
        steps.append(f"{before}: rowcrew resume {name}")
    elif view.runner_active:
        steps.append(f"Watch it with: rowcrew status {name} --follow")
    if job.counts.failed and not view.runner_active:
        steps.append(f"Run the failed rows again with: rowcrew retry {name}")
        steps.append(f"Look at them with: rowcrew show {name}")
    return steps


def item_text(item: JobItem, attempts: Sequence[Attempt]) -> str:
    """One job item: where it stands, its row, its attempts, its result."""
    pairs = [
        ("status", str(item.status)),
        ("error", printable(item.last_error or "")),
        ("reported", moment(item.reported_at_ms)),
    ]
    blocks = [f"Job item {printable(item.item_id)} of job {item.job_id}", fields(pairs)]
    blocks += ["Row", fields([(printable(name), one_line(cell)) for name, cell in item.row.items()])]
    if attempts:
        blocks += ["Attempts", _attempt_table(attempts)]
    raw = next((tried.raw_answer for tried in reversed(attempts) if tried.raw_answer), None)
    if raw is not None:
        blocks += ["Last answer that could not be used", _indented(printable(raw))]
    if item.result_json is not None:
        blocks += ["Result", _indented(printable(indented(read(item.result_json))))]
    return "\n".join(blocks)


def _attempt_table(attempts: Sequence[Attempt]) -> str:
    columns: list[tuple[str, list[str]]] = [
        ("#", [str(tried.number) for tried in attempts]),
        ("OUTCOME", [str(tried.outcome) for tried in attempts]),
        ("CLASS", [str(tried.error_class or "") for tried in attempts]),
        ("STARTED", [moment(tried.started_at_ms) for tried in attempts]),
        ("TOOK", [_took(tried) for tried in attempts]),
        ("THREAD", [short(tried.thread_id) for tried in attempts]),
        ("USED", [_used(tried.usage) for tried in attempts]),
        ("ERROR", [one_line(tried.error or "", 100) for tried in attempts]),
    ]
    # Commands and functions use no model that rowcrew could count.
    columns = [column for column in columns if column[0] != "USED" or any(column[1])]
    header = [name for name, _ in columns]
    lines = [list(line) for line in zip(*(cells for _, cells in columns), strict=True)]
    return _indented(table(header, lines, right=frozenset({0, 4})))


def _took(attempt: Attempt) -> str:
    if attempt.ended_at_ms is None:
        return ""
    return duration((attempt.ended_at_ms - attempt.started_at_ms) / 1000)


def _used(usage: Usage) -> str:
    return "; ".join(part for part in (usage_text(usage), cost_text(usage)) if part)


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.splitlines())


def item_table(items: Sequence[JobItem]) -> str:
    """Job items, a line each: what was answered, or what went wrong."""
    header = ("ITEM", "STATUS", "TRIES", "RESULT OR ERROR")
    lines = [
        (
            one_line(item.item_id, 40),
            str(item.status),
            str(item.attempt_count),
            one_line(item.result_json or item.last_error or "", 120),
        )
        for item in items
    ]
    return table(header, lines, right=frozenset({2}))
