"""What the methods work with: the engine's services, and a way to tell all clients. It decides nothing."""

from collections.abc import Callable
from dataclasses import dataclass

from rowcrew.agent.dispatcher import Dispatcher
from rowcrew.agent.queueing import TurnQueue
from rowcrew.agent.service import ThreadService
from rowcrew.appserver.entities import Wire
from rowcrew.appserver.job_runs import JobRuns
from rowcrew.engine import Engine

Announce = Callable[[str, Wire], None]


@dataclass(frozen=True, slots=True)
class Services:
    """The engine's services for one server. `announce` tells every client that is connected."""

    engine: Engine
    threads: ThreadService
    queue: TurnQueue
    dispatcher: Dispatcher
    runs: JobRuns
    announce: Announce
