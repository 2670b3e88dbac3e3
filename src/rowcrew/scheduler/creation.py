"""From a request to a stored job: check everything that can be known before row 1, then store it whole."""

import asyncio
import hashlib
import json
import stat
import threading
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from rowcrew.clock import Clock
from rowcrew.domain.dialect import default_delimiter
from rowcrew.domain.ids import new_id, short
from rowcrew.domain.intake import Table, TableOptions
from rowcrew.domain.job import JobSettings
from rowcrew.domain.json_text import is_clean
from rowcrew.domain.prompt import Template, worker_prompt
from rowcrew.domain.schema import OutputSchema
from rowcrew.errors import Conflict, Interrupted, InvalidRequest
from rowcrew.scheduler.exporter import check_target, default_target
from rowcrew.scheduler.tables import absolute
from rowcrew.store.database import Connection, Database
from rowcrew.store.jobs import JobStore, NewJob

T = TypeVar("T")

CHUNK = 1 << 18
_NEVER_SECONDS = 10**9  # thirty years
_TEXT_SHOWN = 200


@dataclass(frozen=True, slots=True)
class JobRequest:
    """A job as asked for. `new`: start another although the same one is unfinished."""

    input_path: Path
    instruction: str
    table: TableOptions = TableOptions()
    output_path: Path | None = None
    force: bool = False
    output_schema: str | dict[str, Any] | None = None
    name: str | None = None
    settings: JobSettings = JobSettings()
    auto_export: bool = True
    allow_unknown_placeholders: bool = False
    new: bool = False


@dataclass(frozen=True, slots=True)
class Prepared:
    """A request that has been checked against its file, and nothing stored yet."""

    table: Table
    template: Template
    schema: OutputSchema | None
    input_path: Path
    # Set when nobody waits for the job any more: what still reads the table stops.
    gone: threading.Event


async def in_thread(work: Callable[[threading.Event], T]) -> T:
    """Run what reads a table in a thread. Its event is set when the caller is cancelled."""
    gone = threading.Event()
    try:
        return await asyncio.to_thread(work, gone)
    except asyncio.CancelledError:
        gone.set()
        raise


def read_chunks(path: Path, gone: threading.Event | None = None) -> Iterator[bytes]:
    """The file's bytes, in pieces. Raises Interrupted when `gone` is set."""
    with path.open("rb") as file:
        while chunk := file.read(CHUNK):
            if gone is not None and gone.is_set():
                raise Interrupted(f"{path} was not read to its end")
            yield chunk


def prepare(request: JobRequest, gone: threading.Event | None = None) -> Prepared:
    """Read the whole file once and check it with everything else. Raises InvalidRequest."""
    gone = gone or threading.Event()
    path = find_input(request.input_path)
    _check_text(request, path)
    check_settings(request.settings)
    schema = None if request.output_schema is None else OutputSchema.parse(request.output_schema)
    try:
        table = Table.survey(lambda: read_chunks(path, gone), table_options(request.table, path))
    except OSError as error:
        raise InvalidRequest(f"cannot read {path}: {error.strerror or error}") from error
    template = Template.parse(
        request.instruction, table.headers, allow_unknown=request.allow_unknown_placeholders
    )
    return Prepared(table, template, schema, path, gone)


def table_options(options: TableOptions, path: Path) -> TableOptions:
    """With the delimiter that the file's name stands for, where none was asked for."""
    if options.delimiter is not None:
        return options
    return replace(options, delimiter=default_delimiter(path.name))


def find_input(path: Path) -> Path:
    """The whole path of a table. Raises InvalidRequest where there is none that can be read twice."""
    full = absolute(path)
    try:
        mode = full.stat().st_mode
    except (FileNotFoundError, NotADirectoryError, ValueError):  # ValueError: a NUL character
        raise InvalidRequest(f"there is no file {path}", hint=f"looked in {full.parent}") from None
    except OSError as error:
        raise InvalidRequest(f"cannot read {path}: {error.strerror}", hint="name another file") from error
    if stat.S_ISDIR(mode):
        raise InvalidRequest(f"{path} is a folder", hint="give the table's file")
    if not stat.S_ISREG(mode):
        raise InvalidRequest(
            f"{path} is not a regular file, and a table is read twice", hint="save it to a file first"
        )
    return full


def _check_text(request: JobRequest, path: Path) -> None:
    """What is given on a command line or as a file's name may be no UTF-8; a job's own words must be."""
    settings = request.settings
    for what, text in (
        ("the instruction", request.instruction),
        ("the name of the job", request.name),
        ("the path of the table", path),
        ("the path of the output", request.output_path),
        ("the folder that the job starts from", settings.working_folder),
        ("the worker", settings.worker),
        ("the model", settings.model),
        ("the base URL", settings.base_url),
    ):
        if text is not None and not is_clean(str(text)):
            shown = str(text).encode("utf-8", "backslashreplace").decode()
            raise InvalidRequest(
                f"{what} is not UTF-8 text: {shown[:_TEXT_SHOWN]}",
                hint="a job keeps it as text: rename what it names, or write it in UTF-8",
            )


def check_settings(settings: JobSettings) -> None:
    """Numbers that make no sense are refused here, for all doors. Raises InvalidRequest."""
    if settings.max_concurrency is not None and settings.max_concurrency < 1:
        raise InvalidRequest(f"max concurrency is {settings.max_concurrency}, it must be at least 1")
    seconds = settings.max_runtime_seconds
    if not 0 < seconds < _NEVER_SECONDS:
        raise InvalidRequest(
            f"max runtime is {seconds:g} seconds, it must be greater than 0 and less than {_NEVER_SECONDS:,}"
        )
    if settings.retry.max_attempts < 1:
        raise InvalidRequest(f"max attempts is {settings.retry.max_attempts}, it must be at least 1")


def preview(request: JobRequest, count: int, gone: threading.Event | None = None) -> list[tuple[str, str]]:
    """(item id, whole worker prompt) of the first rows. Stores nothing."""
    prepared = prepare(request, gone)
    shown: list[tuple[str, str]] = []
    for item in prepared.table.items():
        if len(shown) == count:
            break
        row = dict(zip(prepared.table.headers, item.cells, strict=True))
        prompt = worker_prompt(
            job_id="(not created yet)",
            item_id=item.item_id,
            instruction=prepared.template.render(row),
            row=row,
            output_schema=prepared.schema.document if prepared.schema else None,
            previous_error=None,
            reports_by_tool=request.settings.worker != "oneshot",
        )
        shown.append((item.item_id, prompt))
    return shown


def _output_path(request: JobRequest, prepared: Prepared, job_id: str) -> Path:
    if request.output_path is None:
        return default_target(prepared.input_path, job_id, request.settings.output_format)
    return absolute(request.output_path)


def fingerprint(request: JobRequest, digest: str, schema: OutputSchema | None) -> str:
    """Equal for jobs that would pay for the same work: how many workers do it makes no difference."""
    settings = asdict(replace(request.settings, max_concurrency=None))
    parts = [digest, request.instruction, settings, schema.document if schema else None]
    parts.append(asdict(table_options(request.table, request.input_path)))
    text = json.dumps(parts, sort_keys=True, default=str)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


async def store(database: Database, clock: Clock, request: JobRequest, prepared: Prepared) -> str:
    """Store the job and all its rows in one transaction. Its id.

    Raises Conflict with the other job's id as state when the same job is unfinished (unless `new`), and
    InvalidRequest when another unfinished job writes the same output. Cancelled, it leaves no job behind.
    """
    job_id = new_id()
    output = _output_path(request, prepared, job_id)
    if request.auto_export or request.output_path is not None:
        await asyncio.to_thread(check_target, output, prepared.input_path, force=request.force)
    print_of_job = fingerprint(request, prepared.table.digest, prepared.schema)
    job = NewJob(
        id=job_id,
        name=request.name or f"agent-job-{short(job_id)}",
        instruction=request.instruction,
        auto_export=request.auto_export,
        settings=request.settings,
        output_schema=prepared.schema.document if prepared.schema else None,
        input_headers=prepared.table.headers,
        input_path=str(prepared.input_path),
        input_digest=prepared.table.digest,
        input_size=prepared.table.size,
        output_path=str(output),
        output_is_ours=request.force,
        fingerprint=print_of_job,
    )

    def create(connection: Connection) -> None:
        jobs = JobStore(connection)
        twin = None if request.new else jobs.find_unfinished_twin(print_of_job)
        if twin is not None:
            raise Conflict(
                f"the same job is unfinished: {short(twin)} has the same input, instruction and settings",
                state=twin,
                hint=f"go on with it: `rowcrew resume {short(twin)}`, or start another with `--new`",
            )
        other = jobs.find_writing_to(str(output))
        if other is not None:
            raise InvalidRequest(
                f"job {short(other)} is unfinished and will write {output} too",
                hint="give another `-o PATH`",
            )
        jobs.create(job, prepared.table.items(), now=clock.now_ms())

    writing = asyncio.ensure_future(database.write(create))
    try:
        await asyncio.shield(writing)
    except asyncio.CancelledError:
        # Whoever gives up has made nothing: neither a part of a job nor one that nobody knows of.
        prepared.gone.set()
        await asyncio.wait({writing})
        if writing.exception() is None:
            await database.write(lambda connection: JobStore(connection).delete(job_id))
        raise
    return job_id
