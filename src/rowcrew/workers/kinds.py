"""Which module makes which kind of worker. Modules are loaded when a job needs them: some are heavy."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rowcrew.domain.job import JobSettings
from rowcrew.errors import InvalidRequest
from rowcrew.store.backlog import Backlog
from rowcrew.workers.contract import WorkerKind

if TYPE_CHECKING:
    from rowcrew.agent.runtime import AgentRuntime

KINDS = ("agent", "oneshot", "command:<words>", "python:<module>:<function>")


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a kind may need of the process it runs in.

    `agents` gives what all agents of the process share; without it a kind keeps no history. `prices` are the
    user's own, by names of models. `backlog` is that of the reports.
    """

    home: Path
    concurrency: int
    model_providers: Mapping[str, Mapping[str, Any]]
    max_threads: int | None
    max_depth: int
    agents: "Callable[[], Awaitable[AgentRuntime]] | None" = None
    prices: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    backlog: Backlog | None = None


async def open_kind(settings: JobSettings, surroundings: Surroundings) -> WorkerKind:
    """Get a kind of worker ready. Raises InvalidRequest for what can be known to be wrong before row 1."""
    name, _, rest = settings.worker.partition(":")
    folder = Path(settings.working_folder)
    kind: WorkerKind
    match name:
        case "command":
            command = import_module("rowcrew.workers.command")
            kind = command.open_command(rest, command_input=settings.command_input, folder=folder)
        case "python":
            kind = import_module("rowcrew.workers.function").open_function(rest, folder)
        case "oneshot" if not rest:
            kind = await import_module("rowcrew.workers.oneshot").open_for_job(settings, surroundings)
        case "agent" if not rest:
            kind = await import_module("rowcrew.workers.agent").open_for_job(settings, surroundings)
        case _:
            raise InvalidRequest(
                f"there is no kind of worker called {settings.worker!r}",
                hint="use one of " + ", ".join(KINDS),
            )
    return kind
