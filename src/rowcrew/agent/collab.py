"""The tools with which an agent has agents of its own: spawn_agent, send_input, wait, close_agent.

They start and end nothing themselves; the thread service does. An agent reaches only what it spawned, and
what that spawned; one at the greatest depth has no such tools at all.
"""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from rowcrew.agent.service import ThreadService
from rowcrew.agent.setup import LiveThread
from rowcrew.agent.tools import Arguments, Tool, ToolError, ToolResult
from rowcrew.domain.events import AgentState, AgentStatus
from rowcrew.domain.schema import compact
from rowcrew.errors import RowcrewError

SOURCE = "collab"
DEFAULT_WAIT_MS = 30_000
SHORTEST_WAIT_MS = 1_000
LONGEST_WAIT_MS = 300_000

_MESSAGE = {
    "type": "string",
    "minLength": 1,
    "description": "The task, with all that the agent must know: it sees nothing of this conversation.",
}
_ID = {"type": "string", "description": "The agent_id that spawn_agent answered."}


class CollabTools:
    """The agent tools of one thread."""

    def __init__(self, service: ThreadService, live: LiveThread) -> None:
        self._service = service
        self._live = live
        # Also those that have ended, so that a wait for one is answered and not refused.
        self._known: set[str] = set()

    def tools(self) -> Sequence[Tool]:
        return (self._spawn_tool(), self._send_tool(), self._wait_tool(), self._close_tool())

    def _spawn_tool(self) -> Tool:
        return Tool(
            "spawn_agent",
            "Start another agent, with your model, tools and folder, on a task of its own. It works beside "
            "you; `wait` waits for it. Answers {agent_id}. It holds an agent slot until `close_agent`. For "
            "the same task over many rows use spawn_agents_on_csv instead.",
            _object(("message",), message=_MESSAGE, name={"type": "string", "description": "A short name."}),
            self._spawn,
        )

    def _send_tool(self) -> Tool:
        return Tool(
            "send_input",
            "Give an agent that you spawned its next message. It is taken up when the agent has ended what "
            "it does now; with interrupt: true, that is ended first.",
            _object(
                ("id", "message"),
                id=_ID,
                message=_MESSAGE,
                interrupt={"type": "boolean", "description": "End what it does now."},
            ),
            self._send,
        )

    def _wait_tool(self) -> Tool:
        return Tool(
            "wait",
            "Wait until one of these agents has ended what it does, but at most timeout_ms. Answers {status, "
            "timed_out}: status holds each agent's by its id: pending_init, running, {completed: its last "
            "message}, {errored: why}, interrupted, shutdown or not_found.",
            _object(
                ("ids",),
                ids={
                    "type": "array",
                    "items": {"type": "string"},
                    "minItems": 1,
                    "description": "The agent_ids to wait for.",
                },
                timeout_ms={
                    "type": "integer",
                    "minimum": 1,
                    "description": f"In milliseconds ({DEFAULT_WAIT_MS} if not given; brought between "
                    f"{SHORTEST_WAIT_MS} and {LONGEST_WAIT_MS}).",
                },
            ),
            self._wait,
            read_only=True,
        )

    def _close_tool(self) -> Tool:
        return Tool(
            "close_agent",
            "End an agent that you spawned, with the agents that it spawned, and free its agent slot. "
            "Answers {status}, as it was before.",
            _object(("id",), id=_ID),
            self._close,
        )

    async def _spawn(self, given: Arguments) -> ToolResult:
        # What the parent was told beside its task is not meant for its children.
        child = replace(self._live.setup.again(), instructions="")
        try:
            thread = await self._service.start(
                child, source=SOURCE, name=given.get("name"), parent_id=self._live.id
            )
            self._service.start_turn(thread.id, given["message"])
        except RowcrewError as error:
            raise _refusal(error) from error
        self._known.add(thread.id)
        return ToolResult(compact({"agent_id": thread.id}))

    async def _send(self, given: Arguments) -> ToolResult:
        self._check(given["id"])
        try:
            sent = self._service.start_turn(
                given["id"], given["message"], interrupt=given.get("interrupt", False)
            )
        except RowcrewError as error:
            raise _refusal(error) from error
        return ToolResult(compact({"turn_id": sent.turn_id}))

    async def _wait(self, given: Arguments) -> ToolResult:
        for agent_id in given["ids"]:
            self._check(agent_id)
        wanted = given.get("timeout_ms", DEFAULT_WAIT_MS)
        seconds = min(max(wanted, SHORTEST_WAIT_MS), LONGEST_WAIT_MS) / 1000
        waits = [asyncio.create_task(self._ended(agent_id)) for agent_id in dict.fromkeys(given["ids"])]
        try:
            done, _ = await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
            with suppress(asyncio.CancelledError):
                await asyncio.gather(*waits, return_exceptions=True)
        control = self._service.control
        status = {agent_id: _shown(control.status(agent_id)) for agent_id in given["ids"]}
        return ToolResult(compact({"status": status, "timed_out": not done}))

    async def _ended(self, agent_id: str) -> None:
        """Until the agent has nothing to do. One that has been sent a message has, though not begun."""
        control = self._service.control
        async for status in control.subscribe(agent_id):
            thread = control.find(agent_id)
            if status.is_final and (thread is None or thread.is_idle):
                return

    async def _close(self, given: Arguments) -> ToolResult:
        self._check(given["id"])
        before = self._service.control.status(given["id"])
        try:
            await self._service.unload(given["id"])
        except RowcrewError as error:
            raise _refusal(error) from error
        return ToolResult(compact({"status": _shown(before)}))

    def _check(self, agent_id: str) -> None:
        alive = self._service.control.registry.descendants(self._live.id)
        if agent_id not in self._known and agent_id not in alive:
            mine = ", ".join(sorted({*self._known, *alive})) or "none"
            raise ToolError(f"you have spawned no agent {agent_id!r}; yours are: {mine}")


def _refusal(error: RowcrewError) -> ToolError:
    hint = f". Hint: {error.hint}" if error.hint else ""
    return ToolError(f"{error.message}{hint}")


def _shown(status: AgentStatus) -> Any:
    if status.state in (AgentState.COMPLETED, AgentState.ERRORED):
        return {str(status.state): status.text}
    return str(status.state)


def _object(required: tuple[str, ...], **properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }
