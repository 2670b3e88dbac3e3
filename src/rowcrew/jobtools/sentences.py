"""Errors as sentences that a model can act on: the hint is always there, in the words of the tools."""

import re

from rowcrew.agent.tools import ToolError
from rowcrew.errors import InvalidRequest, NotFound, RowcrewError

# Hints are written for the command line. What has a counterpart among the tools is said with it; what has
# none stays as it is: a model with a shell can type it, and any other can tell its user.
_WORDS = (
    (
        r"give another `-o PATH`, or `--force` to replace it",
        "give another `output_csv_path`, or remove that file",
    ),
    (r"`-o PATH`", "`output_csv_path`"),
    (r"`rowcrew resume ([\w-]+)`", r"call `run_agent_job` with job_id `\1`"),
    (r", or start another with `--new`", "; it is not started a second time"),
    (r"`rowcrew status ([\w-]+) --follow`", r"call `wait_agent_job` with job_id `\1`"),
    (r"`rowcrew status ([\w-]+)`", r"`get_agent_job_status` with job_id `\1`"),
    (r"`rowcrew export ([\w-]+)(?: -o PATH)?`", r"`export_agent_job_csv` with job_id `\1`"),
    (r", or pass `--allow-unknown-placeholders` to keep it as text", ""),
    (r"try `--delimiter '\\t'`", "give the file a name that ends in .tsv"),
    (r"try `--delimiter '[^`]*'`", "save it comma-separated first"),
    (r"name the encoding that the file was written in, .*", "save the file as UTF-8 first"),
    (r"use --encoding utf-16-le or utf-16-be", "save it as UTF-8 first"),
    (r"^give `-m PROVIDER:MODEL`", "only your user can choose one: `-m PROVIDER:MODEL`"),
    (r"`rowcrew list` shows the jobs", "use the job_id that `spawn_agents_on_csv` answered"),
)
_EXPORT_WORDS = ((r"`output_csv_path`", "`path`"),)


def sentence(error: RowcrewError, *, tool: str | None = None) -> str:
    """What went wrong and what to do about it."""
    hint = error.hint
    if hint is None and isinstance(error, NotFound):
        hint = "use the job_id that `spawn_agents_on_csv` answered"
    message = error.message
    for pattern, words in (*_WORDS, *(_EXPORT_WORDS if tool == "export_agent_job_csv" else ())):
        message = re.sub(pattern, words, message)
        hint = None if hint is None else re.sub(pattern, words, hint)
    return message if hint is None else f"{message}. Hint: {hint}"


def as_tool_error(error: RowcrewError, *, tool: str | None = None) -> ToolError:
    """For the model that called `tool`."""
    return ToolError(sentence(error, tool=tool))


def checked_path(path: str, argument: str) -> str:
    """The path, unless no file can have it. Raises InvalidRequest."""
    if "\0" in path:
        raise InvalidRequest(
            f"`{argument}` holds a NUL character, which no path can", hint="give a real path"
        )
    return path
