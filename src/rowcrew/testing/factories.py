"""Values that tests need and do not care about: every field has a default. It stores nothing."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rowcrew.domain.attempt import Usage
from rowcrew.workers.contract import Verdict, WorkOrder


@dataclass(frozen=True, slots=True)
class Reported:
    """One call of the reporter."""

    result: object
    stop: bool
    usage: Usage | None


@dataclass(slots=True)
class RecordingReporter:
    """A `Reporter` that keeps what it is told and answers as scripted, then accepts everything."""

    verdicts: Sequence[Verdict] = ()
    reports: list[Reported] = field(default_factory=list)

    async def __call__(self, result: object, *, stop: bool = False, usage: Usage | None = None) -> Verdict:
        self.reports.append(Reported(result, stop, usage))
        place = len(self.reports) - 1
        return self.verdicts[place] if place < len(self.verdicts) else Verdict(accepted=True)


def make_order(
    *,
    report: RecordingReporter,
    job_id: str = "job-1",
    item_id: str = "row-1",
    attempt: int = 1,
    thread_id: str = "thread-1",
    instruction: str = "Say what this is.",
    row: Mapping[str, str] | None = None,
    output_schema: dict[str, Any] | None = None,
    prompt: str = "Say what this is.",
    max_runtime_seconds: float = 60.0,
    home: Path = Path("home"),
) -> WorkOrder:
    """A work order for one attempt."""
    return WorkOrder(
        job_id=job_id,
        item_id=item_id,
        attempt=attempt,
        thread_id=thread_id,
        instruction=instruction,
        row={"name": "apple"} if row is None else row,
        output_schema=output_schema,
        prompt=prompt,
        max_runtime_seconds=max_runtime_seconds,
        home=home,
        report=report,
    )
