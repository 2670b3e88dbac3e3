"""The six job tools as functions over one engine, for whoever talks to the model. It knows no protocol.

A call that is given up (its task cancelled) takes nothing back: a job that was being started is started, and
goes on. Runs belong to the JobTools that started them, whose `close` pauses them and waits.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol, TypeVar

from rowcrew.agent.tools import Arguments, Tool, ToolError, ToolResult
from rowcrew.domain.intake import TableOptions
from rowcrew.domain.job import JobSettings
from rowcrew.domain.schema import compact
from rowcrew.errors import Conflict, RowcrewError
from rowcrew.jobtools import arguments as takes
from rowcrew.jobtools import descriptions as says
from rowcrew.jobtools.answers import GOES_ON, Answer, result_answer, status_answer
from rowcrew.jobtools.reading import ArgumentReader
from rowcrew.jobtools.sentences import as_tool_error, checked_path
from rowcrew.scheduler.creation import JobRequest
from rowcrew.scheduler.progress import Progress
from rowcrew.scheduler.service import CreatedJob, JobService
from rowcrew.scheduler.starting import JobRun
from rowcrew.scheduler.views import progress_of

logger = logging.getLogger(__name__)

T = TypeVar("T")
Listener = Callable[[str, Progress], None]
# How often a wait looks for progress to tell.
LOOK_SECONDS = 1.0


class JobEngine(Protocol):
    """What the tools need of an engine (`rowcrew.engine.Engine` is one)."""

    @property
    def jobs(self) -> JobService: ...

    def job_settings(self, **asked: Any) -> JobSettings: ...


@dataclass(frozen=True, slots=True)
class JobDefaults:
    """What jobs get that no tool argument names. What is None comes from the engine's settings."""

    worker: str | None = None
    model: str | None = None
    base_url: str | None = None
    sandbox_mode: str | None = None


@dataclass(frozen=True, slots=True)
class Caller:
    """Who calls: `thread_id` is set for workers; `on_progress` hears of the job that the call waits for."""

    thread_id: str | None = None
    on_progress: Listener | None = None


@dataclass(frozen=True, slots=True)
class JobToolSpec:
    """One tool: its name, what a model is told, what it takes, what it does.

    `read_only` tools may run side by side. `for_workers` is for the worker of a job item alone.
    """

    name: str
    description: str
    parameters: Mapping[str, Any]
    argument_type: Callable[..., Any]
    run: Callable[["JobTools", Any, Caller], Awaitable[Answer]]
    read_only: bool = False
    for_workers: bool = False
    unchecked: frozenset[str] = frozenset()


class JobTools:
    """The job tools of one engine. Relative paths start at `folder`.

    `max_wait` is how long `spawn_agents_on_csv` waits for its job, in seconds; None is until its end.
    """

    def __init__(
        self,
        engine: JobEngine,
        folder: Path,
        defaults: JobDefaults = JobDefaults(),
        *,
        max_wait: float | None = None,
    ) -> None:
        self._engine = engine
        self._jobs = engine.jobs
        self._folder = folder.absolute()
        self._defaults = defaults
        self._max_wait = max_wait
        self._starting: set[asyncio.Task[Any]] = set()
        self._runs: dict[asyncio.Task[None], JobRun] = {}
        self._closing = False

    @staticmethod
    def specs(*, for_workers: bool = False) -> list[JobToolSpec]:
        """The tools of a root agent, or those of a worker."""
        return [spec for spec in JOB_TOOLS.values() if spec.for_workers == for_workers]

    async def call(
        self,
        name: str,
        arguments: Mapping[str, Any],
        *,
        on_progress: Listener | None = None,
        thread_id: str | None = None,
    ) -> Answer:
        """Carry out one call. Raises ToolError, whose text is a sentence for the model."""
        spec = JOB_TOOLS.get(name)
        if spec is None:
            raise ToolError(f"there is no tool `{name}`; the tools are {', '.join(JOB_TOOLS)}")
        taken = spec.argument_type(**_READERS[name].read(arguments))
        try:
            return await spec.run(self, taken, Caller(thread_id, on_progress))
        except RowcrewError as error:
            raise as_tool_error(error, tool=name) from error

    def agent_tools(self, *, on_progress: Listener | None = None) -> list[Tool]:
        """The tools for an agent of this process. They check their arguments themselves."""
        return [self._agent_tool(spec, on_progress) for spec in self.specs()]

    def _agent_tool(self, spec: JobToolSpec, on_progress: Listener | None) -> Tool:
        async def run(given: Arguments) -> ToolResult:
            return ToolResult(compact(await self.call(spec.name, given.values, on_progress=on_progress)))

        return Tool(
            spec.name,
            spec.description,
            spec.parameters,
            run,
            read_only=spec.read_only,
            unchecked=frozenset(spec.parameters["properties"]),
        )

    async def close(self) -> None:
        """Pause what was started here (`interrupted`), and return when it has let go."""
        self._closing = True
        if self._starting:
            await asyncio.wait(set(self._starting))
        for run in self._runs.values():
            run.interrupt()
        if self._runs:
            await asyncio.wait(set(self._runs))

    def abort(self) -> None:
        """End the workers of what runs here at once, where `close` gives them their grace."""
        for run in self._runs.values():
            run.abort()

    # -- what the tools do --------------------------------------------------------------------------------

    async def spawn(self, given: takes.SpawnAgents, caller: Caller) -> Answer:
        """Create the job, run it, wait."""
        request = self._request(given)
        with _heard(caller.on_progress) as heard:
            created, watch = await self._to_the_end(self._begin(request, heard.tell))
            # Not gather or await: who stops waiting, and what the run ended with, are no matter of the run.
            done, _ = await asyncio.wait({watch}, timeout=self._max_wait)
        answer = result_answer(await self._jobs.result(created.job.id), created.notices)
        return answer if done else {**answer, "next": GOES_ON}

    def _request(self, given: takes.SpawnAgents) -> JobRequest:
        defaults = self._defaults
        settings = self._engine.job_settings(
            worker=defaults.worker,
            model=defaults.model,
            base_url=defaults.base_url,
            max_concurrency=given.max_concurrency,
            max_runtime_seconds=given.max_runtime_seconds,
        )
        settings = replace(
            settings,
            working_folder=str(self._folder),
            sandbox_mode=defaults.sandbox_mode or settings.sandbox_mode,
        )
        output = given.output_csv_path
        return JobRequest(
            input_path=self._path(given.csv_path, "csv_path"),
            instruction=given.instruction,
            table=TableOptions(id_column=given.id_column),
            output_path=None if output is None else self._path(output, "output_csv_path"),
            output_schema=given.output_schema,
            name=given.job_name,
            settings=settings,
            auto_export=given.auto_export,
        )

    async def _begin(self, request: JobRequest, tell: Listener) -> tuple[CreatedJob, asyncio.Task[None]]:
        created = await self._jobs.create_from_table(request)
        return created, await self._start(created.job.id, on_progress=lambda seen: tell(created.job.id, seen))

    async def run_job(self, given: takes.RunJob, caller: Caller) -> Answer:
        """Start or resume; wait for nothing."""
        job = await self._jobs.find(given.job_id)
        started: Answer = {"job_id": job.id, "started": True}
        try:
            await self._to_the_end(
                self._start(job.id, max_concurrency=given.max_concurrency, auto_export=given.auto_export)
            )
        except Conflict as conflict:
            if conflict.state not in ("running_here", "nothing_left"):
                raise
            started |= {"started": False, "reason": str(as_tool_error(conflict))}
        return started | await self._status(job.id)

    async def status(self, given: takes.JobStatusOf, caller: Caller) -> Answer:
        """Where a job stands."""
        return await self._status((await self._jobs.find(given.job_id)).id)

    async def wait(self, given: takes.WaitForJob, caller: Caller) -> Answer:
        """Until the job has ended or stopped, but no longer than asked."""
        job_id = (await self._jobs.find(given.job_id)).id
        loop = asyncio.get_running_loop()
        began, timed_out = loop.time(), True
        while timed_out:
            left = began + given.seconds - loop.time()
            step = left if caller.on_progress is None else min(left, LOOK_SECONDS)
            view, timed_out = await self._jobs.wait(job_id, timeout=max(0.0, step))
            if caller.on_progress is not None:
                caller.on_progress(job_id, progress_of(view, elapsed=loop.time() - began))
            if loop.time() >= began + given.seconds:
                break
        return {"status": await self._status(job_id), "timed_out": timed_out}

    async def export(self, given: takes.ExportJob, caller: Caller) -> Answer:
        """Write the table as it stands."""
        job = await self._jobs.find(given.job_id)
        path = None if given.path is None else self._path(given.path, "path")
        written = await self._jobs.export(job.id, path=path)
        return {"job_id": job.id, "output_csv_path": str(written.path), "row_count": written.row_count}

    async def report(self, given: takes.ReportResult, caller: Caller) -> Answer:
        """Take a worker's result."""
        if caller.thread_id is None:
            raise ToolError("only the worker of a job item may report a result")
        verdict = await self._jobs.report(
            given.job_id, given.item_id, thread_id=caller.thread_id, result=given.result, stop=given.stop
        )
        if verdict.accepted:
            return {"accepted": True}
        return {"accepted": False, "reason": verdict.reason}

    # -- runs ---------------------------------------------------------------------------------------------

    async def _start(self, job_id: str, **options: Any) -> asyncio.Task[None]:
        """Start the run. The task that watches it, which never fails."""
        run = await self._jobs.start(job_id, **options)
        watch = asyncio.create_task(_watch(run), name=f"watch {job_id}")
        self._runs[watch] = run
        watch.add_done_callback(self._runs.pop)
        return watch

    async def _to_the_end(self, work: Coroutine[Any, Any, T]) -> T:
        """Await something that is carried to its end even if its caller gives up."""
        if self._closing:
            work.close()
            raise ToolError("rowcrew is stopping here, and starts no job any more")
        task = asyncio.create_task(work)
        self._starting.add(task)
        task.add_done_callback(self._has_started)
        return await asyncio.shield(task)

    def _has_started(self, task: asyncio.Task[Any]) -> None:
        self._starting.discard(task)
        if not task.cancelled():
            # Looked at, because a caller that gave up will not.
            task.exception()

    async def _status(self, job_id: str) -> Answer:
        view = await self._jobs.view(job_id)
        at_rest = not view.runner_active and view.job.counts.failed > 0
        return status_answer(view, await self._jobs.result(job_id) if at_rest else None)

    def _path(self, path: str, argument: str) -> Path:
        return self._folder / Path(checked_path(path, argument)).expanduser()


async def _watch(run: JobRun) -> None:
    try:
        await run.done()
    except Exception:
        # Nobody may be waiting any more. The store has it too, where it could still be written.
        logger.exception("job %s could not go on", run.job_id)


@dataclass(slots=True)
class _Ear:
    """A listener that can be let go while its run goes on."""

    listener: Listener | None

    def tell(self, job_id: str, progress: Progress) -> None:
        if self.listener is not None:
            self.listener(job_id, progress)


@contextlib.contextmanager
def _heard(listener: Listener | None) -> Iterator[_Ear]:
    ear = _Ear(listener)
    try:
        yield ear
    finally:
        ear.listener = None


_TABLE = (
    JobToolSpec(
        "spawn_agents_on_csv",
        says.SPAWN_AGENTS,
        takes.SPAWN_AGENTS,
        takes.SpawnAgents,
        JobTools.spawn,
        # A schema may also come as JSON text; both are checked where schemas are.
        unchecked=frozenset({"output_schema"}),
    ),
    JobToolSpec(
        "run_agent_job",
        says.RUN_JOB,
        takes.RUN_JOB,
        takes.RunJob,
        JobTools.run_job,
    ),
    JobToolSpec(
        "get_agent_job_status",
        says.JOB_STATUS,
        takes.JOB_STATUS,
        takes.JobStatusOf,
        JobTools.status,
        read_only=True,
    ),
    JobToolSpec(
        "wait_agent_job",
        says.WAIT_FOR_JOB,
        takes.WAIT_FOR_JOB,
        takes.WaitForJob,
        JobTools.wait,
        read_only=True,
    ),
    JobToolSpec(
        "export_agent_job_csv",
        says.EXPORT_JOB,
        takes.EXPORT_JOB,
        takes.ExportJob,
        JobTools.export,
    ),
    JobToolSpec(
        "report_agent_job_result",
        says.REPORT_RESULT,
        takes.REPORT_RESULT,
        takes.ReportResult,
        JobTools.report,
        for_workers=True,
        unchecked=frozenset({"result"}),
    ),
)
JOB_TOOLS: Mapping[str, JobToolSpec] = {spec.name: spec for spec in _TABLE}
_READERS = {
    name: ArgumentReader(name, spec.parameters, unchecked=spec.unchecked) for name, spec in JOB_TOOLS.items()
}
