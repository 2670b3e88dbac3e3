"""What each job tool takes: a type, and the JSON Schema that a model reads. It looks at no job."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

DEFAULT_WAIT_MS = 30_000
MIN_WAIT_MS = 1_000
MAX_WAIT_MS = 300_000


@dataclass(frozen=True, slots=True)
class SpawnAgents:
    csv_path: str
    instruction: str
    id_column: str | None = None
    job_name: str | None = None
    output_csv_path: str | None = None
    output_schema: dict[str, Any] | str | None = None
    max_concurrency: int | None = None
    max_runtime_seconds: float | None = None
    auto_export: bool = True


@dataclass(frozen=True, slots=True)
class RunJob:
    job_id: str
    max_concurrency: int | None = None
    auto_export: bool | None = None


@dataclass(frozen=True, slots=True)
class JobStatusOf:
    job_id: str


@dataclass(frozen=True, slots=True)
class WaitForJob:
    job_id: str
    timeout_ms: int = DEFAULT_WAIT_MS

    @property
    def seconds(self) -> float:
        """The wait, brought into the bounds."""
        return min(max(self.timeout_ms, MIN_WAIT_MS), MAX_WAIT_MS) / 1000


@dataclass(frozen=True, slots=True)
class ExportJob:
    job_id: str
    path: str | None = None


@dataclass(frozen=True, slots=True)
class ReportResult:
    job_id: str
    item_id: str
    # Checked where results are checked, which has the better sentence for what is no object.
    result: Any
    stop: bool = False


# Names that mean another argument. Both are in the schema, so that a model may use either.
ALIASES = {"max_workers": "max_concurrency"}


def _object(required: tuple[str, ...], **properties: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(required),
        "additionalProperties": False,
    }


def _text(description: str) -> dict[str, Any]:
    return {"type": "string", "minLength": 1, "description": description}


_CONCURRENCY: dict[str, Any] = {
    "type": "integer",
    "minimum": 1,
    "description": "How many rows are worked on at a time (default 64). 1 is one after the other.",
}
_MAX_WORKERS: dict[str, Any] = {
    "type": "integer",
    "minimum": 1,
    "description": "Another name for max_concurrency. Give one of them.",
}
_AUTO_EXPORT = "Whether the output CSV is written when the job ends or stops"
_JOB_ID = _text("The job_id that spawn_agents_on_csv answered.")

SPAWN_AGENTS = _object(
    ("csv_path", "instruction"),
    csv_path=_text(
        "The CSV file, with a header line. Relative paths start at the working folder."
        " .tsv files are tab-separated."
    ),
    instruction=_text(
        "What each worker does with its row. {column} is replaced by that row's cell, {{column}} is kept as"
        " {column}. The worker sees the whole row too. Say what its result must hold."
    ),
    id_column=_text("The column whose values name the rows (default: row-1, row-2 …)."),
    job_name=_text("A name for the job, to recognise it by."),
    output_csv_path=_text(
        "Where the output CSV is written (default: beside the input). It must not exist yet."
    ),
    output_schema={
        "type": "object",
        "description": "A JSON Schema of type object that each result must fit. Each of its top-level"
        " properties becomes a column result.<property> of the output.",
    },
    max_concurrency=_CONCURRENCY,
    max_workers=_MAX_WORKERS,
    max_runtime_seconds={
        "type": "number",
        "exclusiveMinimum": 0,
        "description": "Time for one attempt at one row, in seconds (default 1800).",
    },
    auto_export={"type": "boolean", "default": True, "description": f"{_AUTO_EXPORT} (default true)."},
)
RUN_JOB = _object(
    ("job_id",),
    job_id=_JOB_ID,
    max_concurrency=_CONCURRENCY,
    max_workers=_MAX_WORKERS,
    auto_export={"type": "boolean", "description": f"{_AUTO_EXPORT} (default: as the job has it)."},
)
JOB_STATUS = _object(("job_id",), job_id=_JOB_ID)
WAIT_FOR_JOB = _object(
    ("job_id",),
    job_id=_JOB_ID,
    timeout_ms={
        "type": "integer",
        "minimum": 1,
        "default": DEFAULT_WAIT_MS,
        "description": "How long to wait at most, in milliseconds (default 30000; less than 1000 counts as"
        " 1000, more than 300000 as 300000). Stay below the time that your client gives one tool call.",
    },
)
EXPORT_JOB = _object(
    ("job_id",),
    job_id=_JOB_ID,
    path=_text("Where to write the CSV (default: the job's own output path)."),
)
REPORT_RESULT = _object(
    ("job_id", "item_id", "result"),
    job_id=_text("The job id that you were given."),
    item_id=_text("The item id that you were given."),
    result={"type": "object", "description": "Your result, as a JSON object."},
    stop={
        "type": "boolean",
        "default": False,
        "description": "True only if the whole job should end now, with its other items undone.",
    },
)
