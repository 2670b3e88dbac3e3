"""`rowcrew.run` and `rowcrew.run_sync`: a table in, a table out, from Python. It adds no rule of its own."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rowcrew.config import Settings
from rowcrew.domain.intake import TableOptions
from rowcrew.engine import Engine
from rowcrew.errors import InvalidRequest
from rowcrew.scheduler.creation import JobRequest
from rowcrew.scheduler.progress import Progress
from rowcrew.scheduler.views import JobResult


async def run(
    table_path: str | Path,
    instruction: str,
    *,
    worker: str | Callable[..., Any] | None = None,
    model: str | None = None,
    base_url: str | None = None,
    output_path: str | Path | None = None,
    output_schema: dict[str, Any] | str | type | None = None,
    table: TableOptions | None = None,
    name: str | None = None,
    max_concurrency: int | None = None,
    max_runtime_seconds: float | None = None,
    max_attempts: int | None = None,
    force: bool = False,
    new: bool = False,
    on_progress: Callable[[Progress], None] | None = None,
    settings: Settings | None = None,
) -> JobResult:
    """Run an instruction over every row of a table, and wait for the end.

    `worker` is named as on the command line, or is a function of a module (it is called with the row as a
    dict). `output_schema` is a JSON Schema or a pydantic model. Interrupting or cancelling the call leaves a
    paused job that `rowcrew resume` goes on with.

    Raises InvalidRequest for what can be known to be wrong before row 1, and Conflict when the same job is
    unfinished (its id is the error's `state`).
    """
    loaded = Settings.load() if settings is None else settings
    path = Path(table_path)
    async with Engine.open(loaded) as engine:
        request = JobRequest(
            input_path=path,
            instruction=instruction,
            table=table or TableOptions(),
            output_path=None if output_path is None else Path(output_path),
            force=force,
            output_schema=schema_document(output_schema),
            name=name,
            settings=engine.job_settings(
                worker=worker_name(worker),
                model=model,
                base_url=base_url,
                max_concurrency=max_concurrency,
                max_runtime_seconds=max_runtime_seconds,
                max_attempts=max_attempts,
            ),
            new=new,
        )
        created = await engine.jobs.create_from_table(request)
        run_here = await engine.jobs.start(created.job.id, on_progress=on_progress)
        return await run_here.done()


def run_sync(table_path: str | Path, instruction: str, **options: Any) -> JobResult:
    """`run` for programs without an event loop of their own; the same arguments."""
    return asyncio.run(run(table_path, instruction, **options))


def schema_document(schema: dict[str, Any] | str | type | None) -> dict[str, Any] | str | None:
    """A JSON Schema from a pydantic model; other schemas as they are. Raises InvalidRequest."""
    if schema is None or isinstance(schema, dict | str):
        return schema
    from_model = getattr(schema, "model_json_schema", None)
    if from_model is None:
        raise InvalidRequest(
            f"{schema!r} is no output schema", hint="give a JSON Schema (dict or text) or a pydantic model"
        )
    document: dict[str, Any] = from_model()
    return document


def worker_name(worker: str | Callable[..., Any] | None) -> str | None:
    """`python:<module>:<function>` for a function. Raises InvalidRequest for one that has no such name."""
    if worker is None or isinstance(worker, str):
        return worker
    module, name = getattr(worker, "__module__", None), getattr(worker, "__qualname__", "")
    if module in (None, "__main__") or not name or "<" in name:
        raise InvalidRequest(
            f"the function {name or worker!r} cannot be found again by name, which a resume needs",
            hint="put it into a module of its own, at the top level, and import it from there",
        )
    return f"python:{module}:{name}"
