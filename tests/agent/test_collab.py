"""An agent's own agents: spawned, spoken to, waited for, closed; within depth and slots, and no others."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from rowcrew.agent.service import ThreadService
from rowcrew.config import AgentSettings, Settings
from rowcrew.domain.events import AgentState
from rowcrew.engine import Engine
from rowcrew.testing import CallTool, ModelServer, Reply, Silence
from rowcrew.testing.answers import Answer, Received

CHILD = "You are a child: "


@asynccontextmanager
async def played(
    home: Path, root: Sequence[Any], child: Any, *, max_threads: int | None = None, max_depth: int = 1
) -> AsyncIterator[tuple[Engine, ThreadService, ModelServer]]:
    """An engine whose root answers with `root` in order, a child with `child`; functions get the outputs."""
    steps = iter(root)

    async def script(received: Received) -> Answer | str:
        outputs = [json.loads(output) for output in received.tool_outputs.values() if output.startswith("{")]
        if CHILD in received.text:
            step: Any = child
        else:
            step = next(steps)
        answer: Answer | str = step(received, outputs) if callable(step) else step
        return answer

    agents = AgentSettings(max_threads=max_threads, max_depth=max_depth)
    async with ModelServer(script) as server:
        settings = Settings(home=home, model="m", base_url=server.url, agents=agents)
        async with Engine.open(settings) as engine:
            yield engine, await engine.threads(), server


def spawn(text: str = "work") -> Reply:
    return Reply(calls=[CallTool("spawn_agent", {"message": CHILD + text, "name": "helper"})])


def call(name: str, **arguments: Any) -> Reply:
    return Reply(calls=[CallTool(name, arguments)])


def on_child(name: str, **arguments: Any) -> Any:
    """A call about the child: `id` or `ids` as the tool wants it."""
    key = "ids" if name == "wait" else "id"

    def step(_: Received, outputs: list[Any]) -> Reply:
        agent_id = outputs[0]["agent_id"]
        return call(name, **{key: [agent_id] if key == "ids" else agent_id}, **arguments)

    return step


async def told(threads: ThreadService, server: ModelServer) -> list[Any]:
    """A root's whole turn; what its tools answered, as JSON where it is."""
    root = await threads.start(source="cli")
    ended = await asyncio.wait_for(threads.start_turn(root.id, "go").ended, 30)
    assert ended is not None
    assert ended.failure is None
    last = [received for received in server.requests if CHILD not in received.text][-1]
    outputs = last.tool_outputs.values()
    return [json.loads(output) if output.startswith("{") else output for output in outputs]


async def test_an_agent_is_spawned_waited_for_spoken_to_again_and_closed(tmp_path: Path) -> None:
    root = [
        spawn(),
        on_child("wait"),
        on_child("send_input", message="and again"),
        on_child("wait"),
        on_child("close_agent"),
        on_child("wait"),
        "done",
    ]

    def child(received: Received, _: Any) -> str:
        return f"heard {len([entry for entry in received.entries if entry['role'] == 'user'])}"

    async with played(tmp_path / "home", root, child) as (engine, threads, server):
        spawned, first, sent, second, closed, gone = await told(threads, server)
        agent_id = spawned["agent_id"]
        assert first == {"status": {agent_id: {"completed": "heard 1"}}, "timed_out": False}
        assert list(sent) == ["turn_id"]
        assert second == {"status": {agent_id: {"completed": "heard 2"}}, "timed_out": False}
        assert closed == {"status": {"completed": "heard 2"}}
        assert gone == {"status": {agent_id: "not_found"}, "timed_out": False}
        stored = (await threads.read(agent_id)).thread
        assert (stored.source, stored.name, stored.depth, stored.owner) == ("collab", "helper", 1, None)
        assert stored.parent_id in threads.list_loaded()
        assert (await engine.control()).registry.slots_used == 0


async def test_at_the_greatest_depth_there_are_no_such_tools(tmp_path: Path) -> None:
    async with played(tmp_path / "home", [spawn(), on_child("wait"), "done"], "ok") as (_, threads, server):
        await told(threads, server)
        offered = {CHILD in received.text: set(received.tool_names) for received in server.requests}
    names = {"spawn_agent", "send_input", "wait", "close_agent", "spawn_agents_on_csv", "run_agent_job"}
    assert (offered[False] >= names, offered[True] & names) == (True, set())


async def test_no_free_slot_is_a_sentence_and_a_closed_agent_frees_one(tmp_path: Path) -> None:
    def refused(_: Received, outputs: list[Any]) -> Reply:
        return call("close_agent", id=outputs[0]["agent_id"])

    root = [spawn(), spawn(), refused, spawn(), "done"]
    async with played(tmp_path / "home", root, Silence(), max_threads=1) as (_, threads, server):
        spawned, full, closed, again = await told(threads, server)
        assert full.startswith("all 1 agent slots are taken. Hint: close an agent")
        assert closed == {"status": "running"}
        assert again["agent_id"] != spawned["agent_id"]


async def test_a_wait_is_bounded_and_an_interrupt_replaces_what_is_done(tmp_path: Path) -> None:
    root = [
        spawn(),
        on_child("wait", timeout_ms=1),
        on_child("send_input", message="stop that", interrupt=True),
        on_child("wait"),
        "done",
    ]

    def child(received: Received, _: Any) -> Any:
        return "stopped" if received.last_user_text == "stop that" else Silence()

    async with played(tmp_path / "home", root, child) as (_, threads, server):
        spawned, first, _, second = await told(threads, server)
    assert first == {"status": {spawned["agent_id"]: "running"}, "timed_out": True}
    assert second == {"status": {spawned["agent_id"]: {"completed": "stopped"}}, "timed_out": False}


@pytest.mark.parametrize("name", ["wait", "send_input", "close_agent"])
async def test_agents_of_others_are_out_of_reach(tmp_path: Path, name: str) -> None:
    other: list[str] = []

    def reach(_: Received, __: Any) -> Reply:
        more = {"message": "hi"} if name == "send_input" else {}
        return call(name, **({"ids": other} if name == "wait" else {"id": other[0]}), **more)

    async with played(tmp_path / "home", [reach, "done"], "ok") as (_, threads, server):
        other.append((await threads.start(source="cli")).id)
        assert await told(threads, server) == [
            f"you have spawned no agent '{other[0]}'; yours are: none",
        ]
        assert threads.control.status(other[0]).state is AgentState.PENDING_INIT


async def test_the_end_of_a_root_ends_what_it_spawned(tmp_path: Path) -> None:
    async with played(tmp_path / "home", [spawn(), spawn(), "done"], Silence(), max_depth=2) as (
        _,
        threads,
        server,
    ):
        first, second = await told(threads, server)
        alive = threads.list_loaded()
        assert alive[1:] == [first["agent_id"], second["agent_id"]]
        await threads.unload(alive[0])
        assert (threads.list_loaded(), list(threads.control.registry)) == ([], [])
