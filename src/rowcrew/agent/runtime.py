"""What all agents of one process share: slots, history, rows, open models. It runs no agent itself.

Discipline: opened once for each engine; `close` ends all agents before it closes what they use.
"""

import asyncio
from typing import Self

from rowcrew.agent.control import AgentControl
from rowcrew.agent.durable import DurableJournal
from rowcrew.agent.ledger import ThreadLedger
from rowcrew.agent.models import ModelChoice, ModelClient
from rowcrew.agent.registry import AgentRegistry
from rowcrew.agent.settling import settle_history, settle_rows
from rowcrew.agent.turn import MAX_TURN_REQUESTS
from rowcrew.bus import Bus
from rowcrew.clock import Clock
from rowcrew.processes import ProcessIdentity, identify, is_alive
from rowcrew.store.database import Database


class AgentRuntime:
    """The agents of one home in this process."""

    def __init__(
        self,
        state: Database,
        history: Database,
        clock: Clock,
        *,
        max_threads: int | None = None,
        max_depth: int = 1,
        max_turn_requests: int = MAX_TURN_REQUESTS,
    ) -> None:
        self.state = state
        self.history = history
        self.clock = clock
        self.owner = identify()
        self.bus = Bus()
        self.ledger = ThreadLedger(state, self.bus, clock, owner=self.owner)
        self.control = AgentControl(
            AgentRegistry(max_threads=max_threads, max_depth=max_depth),
            bus=self.bus,
            journal=DurableJournal(history, owner=self.owner),
            clock=clock,
            max_turn_requests=max_turn_requests,
        )
        self._clients: dict[ModelChoice, ModelClient] = {}
        self._opening = asyncio.Lock()

    async def open(self) -> Self:
        """Put right what dead processes left, in both files, and begin to keep the rows."""
        await settle_history(self.history, self.clock)
        await settle_rows(self.state)
        self.ledger.open()
        return self

    def is_dead(self, owner: ProcessIdentity) -> bool:
        """Whether the process that a row names as its owner is gone."""
        return owner != self.owner and not is_alive(owner)

    async def client(self, choice: ModelChoice) -> ModelClient:
        """The model that is asked for, opened once and closed with the runtime. Raises InvalidRequest."""
        async with self._opening:
            if choice not in self._clients:
                self._clients[choice] = await ModelClient.open(choice)
            return self._clients[choice]

    async def close(self) -> None:
        """End all agents, bounded, and give back what they used."""
        await self.control.aclose()
        await self.ledger.close()
        self.bus.close()
        for client in self._clients.values():
            await client.close()
        self._clients.clear()
