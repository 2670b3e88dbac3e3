"""Threads of a home: started, gone on with, forked, read, listed, deleted; kept true when a process dies."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rowcrew.agent.service import ThreadService
from rowcrew.agent.setup import ThreadSetup
from rowcrew.config import Settings
from rowcrew.domain.events import AgentState, AgentStatus, TurnItemKind
from rowcrew.domain.ids import new_id
from rowcrew.domain.lifecycle import TurnStatus
from rowcrew.domain.queued_turn import NewQueuedTurn
from rowcrew.domain.thread import NewThread
from rowcrew.engine import Engine
from rowcrew.errors import Conflict, InvalidRequest, NotFound, RowcrewError
from rowcrew.processes import ProcessIdentity, identify
from rowcrew.store.history import HistoryStore
from rowcrew.store.threads import ThreadStore
from rowcrew.store.turn_queue import TurnQueueStore
from rowcrew.testing import ModelServer, Reply, Silence
from rowcrew.testing.answers import Script

DEAD = replace(identify(), pid=2**22 + 1, started="long ago")


@asynccontextmanager
async def opened(
    home: Path, server: ModelServer, **changes: Any
) -> AsyncIterator[tuple[Engine, ThreadService]]:
    settings = Settings(home=home, model="m", base_url=server.url, **changes)
    async with Engine.open(settings) as engine:
        yield engine, await engine.threads()


Opened = Callable[..., Any]


@pytest.fixture
def house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Opened:
    """An engine over this test's home, as often as it is asked for, and a scripted model."""
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)

    @asynccontextmanager
    async def open_house(script: Script = "hello", **changes: Any) -> AsyncIterator[Any]:
        async with (
            ModelServer(script) as server,
            opened(tmp_path / "home", server, **changes) as (engine, threads),
        ):
            yield engine, threads, server

    return open_house


async def said(threads: ThreadService, thread_id: str, text: str) -> str | None:
    """One turn, to its end; the agent's last message."""
    ended = await asyncio.wait_for(threads.start_turn(thread_id, text).ended, 30)
    assert ended is not None
    return ended.last_message


async def exchanges(threads: ThreadService, thread_id: str) -> list[tuple[str, str | None, TurnStatus]]:
    view = await threads.read(thread_id)
    return [(str(turn.items[0].content["text"]), turn.last_message, turn.status) for turn in view.turns]


async def test_a_thread_is_stored_and_its_row_follows_it(house: Opened, tmp_path: Path) -> None:
    async with house() as (_, threads, _):
        started = await threads.start(ThreadSetup(sandbox_mode="workspace-write"), source="cli", name="first")
        assert (started.status, started.owner) == (AgentStatus(AgentState.PENDING_INIT), identify())
        assert await said(threads, started.id, "  hi\nthere ") == "hello"
        thread = (await threads.read(started.id, with_turns=False)).thread
        assert (thread.name, thread.source, thread.model, thread.cwd, thread.sandbox_mode) == (
            "first",
            "cli",
            "m",
            str(tmp_path / "work"),
            "workspace-write",
        )
        assert (thread.preview, thread.status) == ("hi there", AgentStatus(AgentState.COMPLETED, "hello"))
        assert threads.list_loaded() == [thread.id]
        assert await exchanges(threads, thread.id) == [("  hi\nthere ", "hello", TurnStatus.COMPLETED)]
    async with house() as (_, threads, _):
        left = threads.get(thread.id)
        assert (left.owner, left.status, threads.list_loaded()) == (None, thread.status, [])


async def test_a_resumed_thread_knows_what_was_said_and_takes_changes(house: Opened, tmp_path: Path) -> None:
    async with house() as (_, threads, _):
        thread = await threads.start(source="cli")
        await said(threads, thread.id, "remember: 4")
    async with house(lambda received: str(len(received.entries))) as (_, threads, server):
        with pytest.raises(NotFound, match="is not loaded here"):
            threads.start_turn(thread.id, "and?")
        resumed = await threads.resume(thread.id, ThreadSetup(model="other", cwd=tmp_path))
        assert (resumed.model, resumed.cwd, resumed.sandbox_mode) == ("other", str(tmp_path), "read-only")
        await said(threads, thread.id, "what was it?")
        assert "remember: 4" in server.requests[0].text
        assert server.requests[0].body["model"] == "other"
        assert (await threads.resume(thread.id)).id == thread.id
        assert len(await exchanges(threads, thread.id)) == 2


async def test_a_loaded_thread_changes_between_turns_and_not_in_one(house: Opened) -> None:
    async with house(Silence()) as (_, threads, server):
        thread = await threads.start(source="cli")
        await threads.resume(thread.id, ThreadSetup(sandbox_mode="workspace-write"))
        assert threads.get(thread.id).sandbox_mode == "workspace-write"
        sent = threads.start_turn(thread.id, "go")
        await server.until(arrived=1)
        with pytest.raises(Conflict, match="has a turn in progress"):
            await threads.resume(thread.id, ThreadSetup(sandbox_mode="read-only"))
        assert threads.interrupt(thread.id, turn_id=sent.turn_id)
        assert (await sent.ended).status is TurnStatus.INTERRUPTED
        assert not threads.interrupt(thread.id)


async def test_a_fork_has_the_turns_so_far_and_goes_its_own_way(house: Opened) -> None:
    async with house(lambda received: f"after {len(received.entries)}") as (_, threads, _):
        thread = await threads.start(source="cli")
        for text in ("one", "two"):
            await said(threads, thread.id, text)
        first = (await threads.read(thread.id)).turns[0].id
        whole = await threads.fork(thread.id, source="cli")
        part = await threads.fork(thread.id, source="cli", up_to_turn_id=first)
        await said(threads, part.id, "three")
        assert (part.forked_from_id, part.preview) == (thread.id, "one")
        told = [[text for text, _, _ in await exchanges(threads, one.id)] for one in (thread, whole, part)]
        assert told == [["one", "two"], ["one", "two"], ["one", "three"]]
        with pytest.raises(NotFound, match="has no turn"):
            await threads.fork(thread.id, source="cli", up_to_turn_id="nothing")
        assert len(threads.list().threads) == 3


async def test_a_turn_can_be_steered_while_it_runs(house: Opened) -> None:
    asked, answered = asyncio.Event(), asyncio.Event()

    async def script(received: Any) -> str:
        if received.number == 0:
            asked.set()
            await answered.wait()
        return f"answer {received.number}"

    async with house(script) as (_, threads, server):
        thread = await threads.start(source="cli")
        with pytest.raises(Conflict, match="no such turn is in progress"):
            threads.steer(thread.id, "too early")
        sent = threads.start_turn(thread.id, "go")
        await asked.wait()
        with pytest.raises(Conflict):
            threads.steer(thread.id, "another", turn_id="another")
        assert threads.steer(thread.id, "and shorter", turn_id=sent.turn_id) == sent.turn_id
        answered.set()
        assert (await sent.ended).last_message == "answer 1"
        assert server.requests[1].last_user_text == "and shorter"


async def test_lists_leave_out_what_is_archived_and_what_nobody_leads(house: Opened) -> None:
    async with house() as (engine, threads, _):
        ids = [(await threads.start(source=source)).id for source in ("cli", "exec", "appServer")]
        await threads.archive(ids[1])
        assert (await threads.archive(ids[1])).is_archived
        job = NewThread(new_id(), "job", "/", "read-only")
        await engine.state.write(lambda connection: ThreadStore(connection).create(job, now=1))
        assert [thread.id for thread in threads.list().threads] == [ids[2], ids[0]]
        assert [thread.id for thread in threads.list(archived=True).threads] == [ids[1]]
        assert [thread.id for thread in threads.list(sources=["job"]).threads] == [job.id]
        assert not (await threads.unarchive(ids[1])).is_archived
        page = threads.list(limit=2)
        assert [thread.id for thread in threads.list(cursor=page.next_cursor).threads] == [ids[0]]
        named = await threads.set_name(ids[0], "Übung")
        assert (named.name, threads.list(search="übung").threads) == ("Übung", ())
        assert threads.find(ids[0][:13]).id == ids[0]
        for prefix in ("", "zz"):
            with pytest.raises(NotFound):
                threads.find(prefix)


async def test_a_deleted_thread_takes_its_queue_and_its_history_with_it(house: Opened) -> None:
    async with house(Silence()) as (engine, threads, server):
        thread = await threads.start(source="cli")
        sent = threads.start_turn(thread.id, "go")
        await server.until(arrived=1)
        queue, history = await engine.database("queue"), await engine.database("history")
        entry = NewQueuedTurn(id=new_id(), thread_id=thread.id, client_id=None, text="later", options={})
        await queue.write(lambda connection: TurnQueueStore(connection).append(entry, now=1))
        await threads.delete(thread.id)
        assert sent.ended.done()
        with pytest.raises(NotFound):
            threads.get(thread.id)
        left = queue.peek(lambda connection: TurnQueueStore(connection).list_page(thread.id))
        assert (left, history.peek(lambda connection: HistoryStore(connection).count_turns(thread.id))) == (
            [],
            0,
        )
        with pytest.raises(NotFound):
            await threads.delete(thread.id)


async def test_what_a_dead_process_left_is_settled_at_open(house: Opened) -> None:
    async with house() as (engine, threads, _):
        thread = await threads.start(source="cli")
        await said(threads, thread.id, "hi")
        await threads.unload(thread.id)
        history = await engine.database("history")
        now = engine.clock.now_ms()

        def leave(connection: Any) -> None:
            rows = ThreadStore(connection)
            rows.take(thread.id, owner=DEAD, is_dead=lambda _: True)
            rows.set_statuses({thread.id: AgentStatus(AgentState.RUNNING)}, now=now)

        await engine.state.write(leave)
        await history.write(
            lambda connection: HistoryStore(connection).start_turn(thread.id, "cut", owner=DEAD, now=now)
        )
    async with house("again") as (_, threads, _):
        view = await threads.read(thread.id)
        assert (view.thread.owner, view.thread.status) == (None, AgentStatus(AgentState.INTERRUPTED))
        assert [turn.status for turn in view.turns] == [TurnStatus.COMPLETED, TurnStatus.INTERRUPTED]
        await threads.resume(thread.id)
        assert await said(threads, thread.id, "go on") == "again"


async def test_what_a_process_left_that_died_later_is_settled_when_its_thread_is_resumed(
    house: Opened,
) -> None:
    async with house("again") as (engine, threads, _):
        thread = await threads.start(source="cli")
        await threads.unload(thread.id)
        history = await engine.database("history")

        def leave(connection: Any) -> None:
            ThreadStore(connection).take(thread.id, owner=DEAD, is_dead=lambda _: True)

        await engine.state.write(leave)
        await history.write(
            lambda connection: HistoryStore(connection).start_turn(thread.id, "cut", owner=DEAD, now=1)
        )
        await threads.resume(thread.id)
        assert await said(threads, thread.id, "go on") == "again"
        view = await threads.read(thread.id)
        assert [turn.status for turn in view.turns] == [TurnStatus.INTERRUPTED, TurnStatus.COMPLETED]


async def test_a_turn_of_a_process_that_died_later_is_read_as_interrupted(house: Opened) -> None:
    async with house() as (engine, threads, _):
        ids = [(await threads.start(source="cli")).id for _ in range(2)]
        history = await engine.database("history")
        for thread_id, owner in zip(ids, (DEAD, identify()), strict=True):
            await threads.unload(thread_id)
            await history.write(
                lambda connection, thread_id=thread_id, owner=owner: HistoryStore(connection).start_turn(  # type: ignore[misc]
                    thread_id, "cut", owner=owner, now=1
                )
            )
        read = [(await threads.read(thread_id)).turns[0].status for thread_id in ids]
        assert read == [TurnStatus.INTERRUPTED, TurnStatus.IN_PROGRESS]


async def test_a_thread_that_another_process_has_is_refused_and_left_alone(house: Opened) -> None:
    other = ProcessIdentity(1, identify(1).started, identify().boot_id)
    async with house() as (engine, threads, _):
        thread = await threads.start(source="cli")
        await threads.unload(thread.id)
        await engine.state.write(
            lambda connection: ThreadStore(connection).take(thread.id, owner=other, is_dead=lambda _: False)
        )
        for refused in (threads.resume(thread.id), threads.delete(thread.id)):
            with pytest.raises(Conflict, match="is in use by process 1"):
                await refused
        assert (threads.get(thread.id).owner, threads.list_loaded()) == (other, [])
        assert (await threads.fork(thread.id, source="cli")).owner == identify()


@pytest.mark.parametrize(
    ("setup", "message"),
    [
        (ThreadSetup(cwd=Path("nowhere")), "there is no folder"),
        (ThreadSetup(sandbox_mode="open"), "no sandbox mode 'open'"),
        (ThreadSetup(model="nobody:x", base_url="ftp://x"), "is no address of a server"),
    ],
)
async def test_a_thread_that_cannot_be_is_not_stored(house: Opened, setup: ThreadSetup, message: str) -> None:
    async with house() as (_, threads, _):
        with pytest.raises(InvalidRequest, match=message):
            await threads.start(setup, source="cli")
        kept = await threads.start(source="cli")
        for refused in (threads.fork(kept.id, setup, source="cli"), threads.resume(kept.id, setup)):
            with pytest.raises(InvalidRequest, match=message):
                await refused
        assert [thread.id for thread in threads.list(sources=None).threads] == [kept.id]
        assert await said(threads, kept.id, "still there?") == "hello"


async def test_starts_and_deletes_side_by_side_leave_nothing_half_done(house: Opened) -> None:
    async with house(Reply(text="ok")) as (_, threads, _):
        made = await asyncio.gather(*(threads.start(source="cli") for _ in range(8)))
        await asyncio.gather(*(said(threads, thread.id, "go") for thread in made))
        ends = await asyncio.gather(
            *(threads.delete(thread.id) for thread in made * 2), return_exceptions=True
        )
        assert sorted(type(end).__name__ for end in ends) == ["NoneType"] * 8 + ["NotFound"] * 8
        assert (threads.list_loaded(), threads.list().threads) == ([], ())
        assert list(threads.control.registry) == []


async def test_the_turn_that_runs_is_kept_before_its_calls_are_done(house: Opened) -> None:
    async with house(Silence()) as (_, threads, server):
        thread = await threads.start(source="cli")
        threads.start_turn(thread.id, "go")
        await server.until(arrived=1)
        (turn,) = (await threads.read(thread.id)).turns
        kinds = [item.kind for item in turn.items]
        assert (turn.status, kinds) == (TurnStatus.IN_PROGRESS, [TurnItemKind.USER_MESSAGE])
        await threads.unload(thread.id)
        assert await exchanges(threads, thread.id) == [("go", None, TurnStatus.INTERRUPTED)]


async def test_an_empty_turn_is_refused(house: Opened) -> None:
    async with house() as (_, threads, _):
        thread = await threads.start(source="cli")
        with pytest.raises(RowcrewError, match="a turn needs a text"):
            threads.start_turn(thread.id, " \n")
