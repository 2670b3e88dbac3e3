"""The status of one agent, to be read and watched. It decides no status."""

import asyncio
from typing import Self

from rowcrew.domain.events import AgentState, AgentStatus


class StatusCell:
    """Holds the latest status and wakes who watches it."""

    def __init__(self) -> None:
        self.value = AgentStatus(AgentState.PENDING_INIT)
        self.version = 0
        self._changed = asyncio.Event()

    def set(self, value: AgentStatus) -> bool:
        """False when it is the status already."""
        if value == self.value:
            return False
        self.value = value
        self.version += 1
        self._changed.set()
        self._changed = asyncio.Event()
        return True

    async def wait_past(self, version: int) -> None:
        while self.version == version:
            await self._changed.wait()


class StatusWatch:
    """Iterate: the current status first, then each later one. Who reads slowly sees the latest, not each.

    It ends after `shutdown` or `not_found`: nothing can come after those.
    """

    def __init__(self, cell: StatusCell) -> None:
        self._cell = cell
        self._seen: int | None = None
        self._over = False

    @property
    def current(self) -> AgentStatus:
        return self._cell.value

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> AgentStatus:
        if self._over:
            raise StopAsyncIteration
        if self._seen is not None:
            await self._cell.wait_past(self._seen)
        self._seen = self._cell.version
        status = self._cell.value
        self._over = status.state in (AgentState.SHUTDOWN, AgentState.NOT_FOUND)
        return status

    async def final(self) -> AgentStatus:
        """The first final status from now on. The caller bounds the wait."""
        version = self._cell.version
        while not (status := self._cell.value).is_final:
            await self._cell.wait_past(version)
            version = self._cell.version
        return status
