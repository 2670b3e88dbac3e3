"""How a command ends: exit codes, which error has which, and what to type next. It prints nothing."""

from dataclasses import dataclass

from rowcrew import errors

OK = 0
ERROR = 1
USAGE = 2
STOPPED = 75
SOME_FAILED = 100
SIGNALLED = 128


@dataclass(frozen=True, slots=True)
class Ending:
    """An exit code, and what to type next where the error itself does not say."""

    code: int
    hint: str


DOCTOR = "`rowcrew doctor` looks at the database files and shows paths and versions"
LATER = "try again in a moment; `rowcrew status` shows where the job stands"

# One entry for each class of errors.py, so that a new one is thought about (a test holds it complete).
ENDINGS: dict[type[errors.RowcrewError], Ending] = {
    errors.RowcrewError: Ending(ERROR, DOCTOR),
    errors.InvalidRequest: Ending(
        USAGE, "`rowcrew --help` shows the commands, and COMMAND --help its options"
    ),
    errors.NotFound: Ending(USAGE, "`rowcrew list` shows the jobs, `rowcrew show JOB --status all` its rows"),
    errors.Conflict: Ending(STOPPED, "`rowcrew status` shows where the job stands"),
    errors.LimitReached: Ending(STOPPED, LATER),
    errors.Interrupted: Ending(SIGNALLED + 2, "`rowcrew resume` goes on"),
    errors.ModelError: Ending(ERROR, "mend what it names, then `rowcrew resume` goes on"),
    errors.StoreError: Ending(ERROR, DOCTOR),
    errors.StoreBusy: Ending(STOPPED, LATER),
    errors.StoreDamaged: Ending(ERROR, DOCTOR),
    errors.DiskFull: Ending(ERROR, "free some space, then `rowcrew resume` goes on"),
    errors.LeaseLost: Ending(STOPPED, "`rowcrew status --follow` watches it"),
}

# Waiting does not help against these: the job is over.
_OVER = frozenset({"completed", "failed", "cancelled"})


def ending_of(error: errors.RowcrewError) -> Ending:
    """The exit code and the hint for an error that ends a command."""
    known = next(ENDINGS[kind] for kind in type(error).__mro__ if kind in ENDINGS)
    over = isinstance(error, errors.Conflict) and error.state in _OVER
    return Ending(ERROR if over else known.code, error.hint or known.hint)


def code_of_job(status: str, failed_items: int) -> int:
    """The exit code of a command that ran or awaited a job."""
    if status == "completed":
        return SOME_FAILED if failed_items else OK
    return ERROR if status == "failed" else STOPPED
