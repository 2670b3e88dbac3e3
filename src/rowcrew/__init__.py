"""rowcrew runs one agent over every row of a table, as a durable job.

The public names are loaded when they are first used: `rowcrew --help` must not pay for a database.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rowcrew.api import run, run_sync
    from rowcrew.config import Settings
    from rowcrew.domain.intake import TableOptions
    from rowcrew.domain.job import Job, JobSettings, JobStatus
    from rowcrew.engine import Engine
    from rowcrew.errors import RowcrewError
    from rowcrew.scheduler.creation import JobRequest
    from rowcrew.scheduler.progress import Progress
    from rowcrew.scheduler.service import JobService
    from rowcrew.scheduler.views import JobResult, JobView

__all__ = [
    "Engine",
    "Job",
    "JobRequest",
    "JobResult",
    "JobService",
    "JobSettings",
    "JobStatus",
    "JobView",
    "Progress",
    "RowcrewError",
    "Settings",
    "TableOptions",
    "run",
    "run_sync",
]

_MODULES = {
    "Engine": "rowcrew.engine",
    "Job": "rowcrew.domain.job",
    "JobRequest": "rowcrew.scheduler.creation",
    "JobResult": "rowcrew.scheduler.views",
    "JobService": "rowcrew.scheduler.service",
    "JobSettings": "rowcrew.domain.job",
    "JobStatus": "rowcrew.domain.job",
    "JobView": "rowcrew.scheduler.views",
    "Progress": "rowcrew.scheduler.progress",
    "RowcrewError": "rowcrew.errors",
    "Settings": "rowcrew.config",
    "TableOptions": "rowcrew.domain.intake",
    "run": "rowcrew.api",
    "run_sync": "rowcrew.api",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'rowcrew' has no attribute {name!r}")
    value = getattr(import_module(_MODULES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
