"""The composition root: opens the stores of one home, holds the services. Doors get everything from here."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rowcrew.clock import Clock, SystemClock
from rowcrew.config import Settings
from rowcrew.domain.job import DEFAULT_MAX_RUNTIME_SECONDS, JobSettings, RetryPolicy
from rowcrew.domain.json_text import is_clean
from rowcrew.errors import InvalidRequest, RowcrewError, StoreError
from rowcrew.scheduler.catalog import JobCatalog
from rowcrew.scheduler.progress import Progress
from rowcrew.store.database import Connection, Database, Kind, Phase
from rowcrew.store.migrate import version

if TYPE_CHECKING:
    from rowcrew.agent.catalog import ThreadCatalog
    from rowcrew.agent.control import AgentControl
    from rowcrew.agent.runtime import AgentRuntime
    from rowcrew.agent.service import ThreadService
    from rowcrew.agent.setup import LiveThread
    from rowcrew.agent.tools import Tool
    from rowcrew.domain.history import Turn
    from rowcrew.scheduler.service import JobService

FILES: dict[Kind, str] = {
    "state": "state_1.sqlite",
    "queue": "queue_1.sqlite",
    "history": "history_1.sqlite",
}
# SQLite's locks cannot be trusted on these; a lease and a WAL file need them.
NETWORK_FILE_SYSTEMS = {"nfs", "nfs4", "cifs", "smb3", "smbfs", "afs", "ceph", "fuse.sshfs", "9p", "afpfs"}


@dataclass(frozen=True, slots=True)
class FileDiagnosis:
    """One database file. `integrity` is "ok", "not created yet", or what is wrong."""

    path: Path
    kind: str
    exists: bool
    integrity: str
    schema_version: int | None
    size: int
    phases: tuple[Phase, ...]


class Engine:
    """Everything of one home in this process. Made by `Engine.open`."""

    def __init__(self, settings: Settings, clock: Clock, state: Database) -> None:
        self.settings = settings
        self.home = settings.home
        self.clock = clock
        self.state = state
        self.job_catalog = JobCatalog(state, clock)
        self._jobs: JobService | None = None
        self._opened: dict[Kind, Database] = {"state": state}
        self._opening: dict[str, asyncio.Lock] = {}
        self._agents: AgentRuntime | None = None
        self._threads: ThreadService | None = None
        # Told of the job that a thread's tool call waits for: (thread id, job id, progress).
        self.job_listeners: list[Callable[[str, str, Progress], None]] = []

    @classmethod
    @asynccontextmanager
    async def open(cls, settings: Settings, *, clock: Clock | None = None) -> AsyncIterator["Engine"]:
        """Open the home, making it where it is missing. Jobs that run here are interrupted at the end.

        Raises InvalidRequest for a home that cannot be used, StoreError for a file that cannot.
        """
        prepare_home(settings.home, allow_network=settings.allow_network_home)
        state = await Database.open(settings.home / FILES["state"], kind="state")
        engine = cls(settings, clock or SystemClock(), state)
        try:
            yield engine
        finally:
            if engine._jobs is not None:
                await engine._jobs.close()
            if engine._agents is not None:
                await engine._agents.close()
            for database in engine._opened.values():
                await database.close()

    def job_settings(
        self,
        *,
        worker: str | None = None,
        model: str | None = None,
        base_url: str | None = None,
        max_runtime_seconds: float | None = None,
        max_attempts: int | None = None,
        **others: Any,
    ) -> JobSettings:
        """A job's settings from what a caller asked for, completed from this engine's settings.

        `others` are further fields of JobSettings. Raises InvalidRequest when a model is needed and none is
        named anywhere.
        """
        settings = self.settings
        model = model or settings.model
        worker = worker or self.default_worker(model)
        if worker in ("agent", "oneshot") and model is None:
            raise InvalidRequest(
                f"the worker {worker!r} needs a model and none is named",
                hint="give `-m PROVIDER:MODEL` (`rowcrew models list` shows how), `-m local` for the embedded"
                " one, or set `model` in rowcrew.toml",
            )
        seconds = (
            settings.agents.job_max_runtime_seconds if max_runtime_seconds is None else max_runtime_seconds
        )
        return JobSettings(
            worker=worker,
            model=model if worker in ("agent", "oneshot") else None,
            base_url=(base_url or settings.base_url) if worker in ("agent", "oneshot") else None,
            max_runtime_seconds=DEFAULT_MAX_RUNTIME_SECONDS if seconds is None else seconds,
            retry=RetryPolicy() if max_attempts is None else RetryPolicy(max_attempts=max_attempts),
            sandbox_mode=settings.sandbox_mode,
            working_folder=str(Path.cwd()),
            **others,
        )

    def default_worker(self, model: str | None = None) -> str:
        """The kind of worker where none is named: the embedded model is too small for tools."""
        name = model or self.settings.model
        return "oneshot" if name is not None and name.partition(":")[0] == "local" else "agent"

    def abort(self) -> None:
        """End all workers and agents of this process at once, with no grace. What was reported is kept."""
        if self._jobs is not None:
            self._jobs.abort()
        if self._agents is not None:
            self._agents.control.abort()

    async def database(self, kind: Kind) -> Database:
        """The database of a kind, opened when it is first asked for."""
        async with self._once(kind):
            if kind not in self._opened:
                self._opened[kind] = await Database.open(self.home / FILES[kind], kind=kind)
            return self._opened[kind]

    async def list_turns(self, thread_id: str) -> "list[Turn]":
        """The turns of a thread, the oldest first; none where no history was ever kept."""
        if not (self.home / FILES["history"]).exists():
            return []
        return await (await self.thread_catalog()).list_turns(thread_id)

    async def remove_job(self, job_id: str) -> None:
        """Delete a job, its rows and what its agents said. Raises NotFound, and Conflict while it runs."""
        await self.jobs.remove(job_id)
        await self._settling().sweep_orphans(self.state, partial(self.database, "history"))

    # What runs jobs, and what knows threads or models, is loaded when it is first asked for: a command that
    # only looks at jobs must not pay for it.

    @property
    def jobs(self) -> "JobService":
        """The use cases around jobs."""
        if self._jobs is None:
            service: JobService = import_module("rowcrew.scheduler.service").JobService(
                self.state,
                self.clock,
                self.home,
                max_threads=self.settings.agents.max_threads,
                max_depth=self.settings.agents.max_depth,
                model_providers=self.settings.model_providers,
                agents=self.agents,
                prices=self.settings.prices,
            )
            self._jobs = service
        return self._jobs

    def _settling(self) -> Any:
        return import_module("rowcrew.agent.settling")

    async def agents(self) -> "AgentRuntime":
        """What all agents of this process share, of jobs and of threads."""
        async with self._once("agents"):
            if self._agents is None:
                runtime: AgentRuntime = import_module("rowcrew.agent.runtime").AgentRuntime(
                    self.state,
                    await self.database("history"),
                    self.clock,
                    max_threads=self.settings.agents.max_threads,
                    max_depth=self.settings.agents.max_depth,
                    max_turn_requests=self.settings.agents.max_turn_requests,
                )
                self._agents = await runtime.open()
            return self._agents

    async def control(self) -> "AgentControl":
        """Starts and ends the agents of this process."""
        return (await self.agents()).control

    async def thread_catalog(self) -> "ThreadCatalog":
        """The threads as they are stored, for who only looks: nothing that knows models is loaded for it."""
        if self._threads is not None:
            return self._threads
        await self._settling().settle_rows(self.state)
        catalog: ThreadCatalog = import_module("rowcrew.agent.catalog").ThreadCatalog(
            self.state, self._settled_history, self.clock
        )
        return catalog

    async def _settled_history(self) -> Database:
        history = await self.database("history")
        await self._settling().settle_history(history, self.clock)
        return history

    async def threads(self) -> "ThreadService":
        """The use cases around threads and their turns."""
        runtime = await self.agents()
        if self._threads is None:
            service: ThreadService = import_module("rowcrew.agent.service").ThreadService(
                runtime, self.settings, partial(self.database, "queue"), more_tools=[self._more_tools]
            )
            self._threads = service
        return self._threads

    def _more_tools(self, live: "LiveThread") -> "list[Tool]":
        """The agent tools where an agent may have agents, and the job tools for a root."""
        tools: list[Tool] = []
        if not live.setup.collab or self._threads is None:
            return tools
        if live.depth < self.settings.agents.max_depth:
            tools += import_module("rowcrew.agent.collab").CollabTools(self._threads, live).tools()
        if live.depth == 0:
            tools += import_module("rowcrew.jobtools.confined").job_tools_of(self, live, self._tell_progress)
        return tools

    def _tell_progress(self, thread_id: str, job_id: str, progress: Progress) -> None:
        for listener in tuple(self.job_listeners):
            listener(thread_id, job_id, progress)

    def _once(self, what: str) -> asyncio.Lock:
        """Held while something is opened, so that nobody opens it twice."""
        return self._opening.setdefault(what, asyncio.Lock())


def prepare_home(home: Path, *, allow_network: bool) -> None:
    """Make the folder, and refuse one where SQLite's locks do not hold. Raises InvalidRequest."""
    if not is_clean(str(home)):
        shown = str(home).encode("utf-8", "backslashreplace").decode()
        raise InvalidRequest(
            f"the name of the home {shown} is not UTF-8 text",
            hint="set ROWCREW_HOME to a folder whose name is",
        )
    try:
        home.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        why = "it is a link that leads nowhere" if home.is_symlink() else error.strerror
        raise InvalidRequest(
            f"the home {home} cannot be made: {why}", hint="set ROWCREW_HOME to a folder of yours"
        ) from error
    if not os.access(home, os.W_OK | os.X_OK):
        raise InvalidRequest(
            f"the home {home} cannot be written", hint="set ROWCREW_HOME to a folder of yours"
        )
    kind = file_system(home)
    if kind in NETWORK_FILE_SYSTEMS and not allow_network:
        raise InvalidRequest(
            f"the home {home} is on a network file system ({kind}), where SQLite's locks cannot be trusted",
            hint="set ROWCREW_HOME to a local folder, or ROWCREW_ALLOW_NETWORK_HOME=1 if only one machine"
            " ever uses it",
        )


def file_system(path: Path, mounts: Path = Path("/proc/self/mounts")) -> str | None:
    """The type of the file system that holds `path`, where the system tells; else None."""
    try:
        lines = mounts.read_text("utf-8", "replace").splitlines()
    except OSError:
        return None
    real = path.resolve()
    best: tuple[int, str | None] = (-1, None)
    for line in lines:
        fields = line.split()
        if len(fields) < 3:
            continue
        mount = Path(fields[1].replace("\\040", " "))
        if real.is_relative_to(mount) and len(mount.parts) >= best[0]:
            best = (len(mount.parts), fields[2])
    return best[1]


async def diagnose(home: Path) -> list[FileDiagnosis]:
    """Look at each database file of a home: does it open, is it whole. Repairs nothing."""
    return [await _diagnose_file(home / name, kind) for kind, name in FILES.items()]


async def _diagnose_file(path: Path, kind: Kind) -> FileDiagnosis:
    size = _size(path)
    if size is None:
        return FileDiagnosis(path, kind, False, "not created yet", None, 0, ())
    try:
        database = await Database.open(path, kind=kind)
    except StoreError as error:
        return FileDiagnosis(path, kind, True, error.message, None, size, ())
    try:
        integrity, number = await database.read(_check)
    except RowcrewError as error:
        integrity, number = error.message, None
    finally:
        await database.close()
    return FileDiagnosis(path, kind, True, integrity, number, size, database.phases)


def _size(path: Path) -> int | None:
    return path.stat().st_size if path.exists() else None


def _check(connection: Connection) -> tuple[str, int | None]:
    rows = [str(row[0]) for row in connection.execute("PRAGMA integrity_check(5)")]
    broken = list(connection.execute("PRAGMA foreign_key_check"))
    if broken:
        rows.append(f"{len(broken)} rows refer to something that is not there")
    problems = [row for row in rows if row != "ok"]
    return ("; ".join(problems) or "ok"), version(connection)
