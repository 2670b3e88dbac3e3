"""The dispatcher at work on real files: each rule of the queue, and what a crash leaves."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from rowcrew.agent.dispatcher import Dispatcher
from rowcrew.agent.queueing import TurnQueue
from rowcrew.agent.service import ThreadService
from rowcrew.config import Settings
from rowcrew.domain.lifecycle import TurnStatus
from rowcrew.domain.queued_turn import NewQueuedTurn
from rowcrew.engine import Engine
from rowcrew.errors import Conflict, InvalidRequest, NotFound
from rowcrew.processes import ProcessIdentity
from rowcrew.store.database import Database
from rowcrew.store.history import HistoryStore
from rowcrew.store.turn_queue import INCOMPLETE_REORDER, TurnQueueStore
from rowcrew.testing import ModelServer, Reply, unauthorized

PATIENCE = 20.0
DEAD = ProcessIdentity(2**22 + 1, "0", "another boot")


@dataclass
class Desk:
    """A dispatcher, its queue, and the turns that were run, as the texts that the threads got."""

    engine: Engine
    threads: ThreadService
    database: Database
    queue: TurnQueue
    dispatcher: Dispatcher
    models: ModelServer
    changed: list[str] = field(default_factory=list)

    async def thread(self) -> str:
        return (await self.threads.start(source="python")).id

    async def texts(self, thread_id: str) -> list[str]:
        view = await self.threads.read(thread_id)
        return [str(turn.items[0].content["text"]) for turn in view.turns]

    async def until(self, condition: Callable[[], Any], what: str = "") -> Any:
        """Wait until the store says so. Each look is one step of the dispatcher's own loop away."""
        async with asyncio.timeout(PATIENCE):
            while not (found := condition()):
                await self.database.write(lambda _: None)
        return found

    async def empty(self, thread_id: str) -> None:
        await self.until(lambda: not self.all_of(thread_id))

    def all_of(self, thread_id: str) -> list[tuple[str, str]]:
        """(status, text) of every entry, hidden ones too."""
        rows = self.database.peek(
            lambda connection: list(
                connection.execute(
                    "SELECT status, text FROM queued_turns WHERE thread_id = ? ORDER BY position",
                    (thread_id,),
                )
            )
        )
        return [(str(status), str(text)) for status, text in rows]

    async def write(self, work: Callable[[TurnQueueStore], Any]) -> Any:
        return await self.database.write(lambda connection: work(TurnQueueStore(connection)))


Opened = Callable[..., Any]


@pytest.fixture
def open_desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Opened:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")

    @asynccontextmanager
    async def opened(
        script: Any = "ok", *, home: str = "home", look_seconds: float = 30.0
    ) -> AsyncIterator[Desk]:
        async with AsyncExitStack() as stack:
            models = await stack.enter_async_context(ModelServer(script))
            environment = {
                "ROWCREW_HOME": str(tmp_path / home),
                "ROWCREW_MODEL": "openai-chat:scripted",
                "ROWCREW_BASE_URL": models.url,
            }
            settings = Settings.load({}, environment=environment, folder=tmp_path)
            engine = await stack.enter_async_context(Engine.open(settings))
            threads, database = await engine.threads(), await engine.database("queue")
            changed: list[str] = []
            # So rare a look that what happens in a test happens because something woke it.
            dispatcher = Dispatcher(database, threads, on_changed=changed.append, look_seconds=look_seconds)
            await stack.enter_async_context(dispatcher)
            queue = TurnQueue(database, threads, on_change=dispatcher.wake)
            yield Desk(engine, threads, database, queue, dispatcher, models, changed)
            await dispatcher.close()
            await threads.control.shutdown_all(5)
            await dispatcher.settle(5)

    return opened


@dataclass
class Gate:
    """A model that answers when the test opens it."""

    reached: asyncio.Event = field(default_factory=asyncio.Event)
    opened: asyncio.Event = field(default_factory=asyncio.Event)

    async def __call__(self, _: Any) -> Reply:
        self.reached.set()
        await self.opened.wait()
        return Reply(text="released")


async def test_turns_run_in_order_each_once_and_leave_when_they_have_ended(open_desk: Opened) -> None:
    async with open_desk() as desk:
        thread_id = await desk.thread()
        await asyncio.gather(*(desk.queue.add(thread_id, text) for text in "ABC"))
        await desk.empty(thread_id)
        assert await desk.texts(thread_id) == ["A", "B", "C"]
        assert set(desk.changed) == {thread_id}


async def test_an_entry_stays_hidden_while_its_turn_runs_and_what_is_added_meanwhile_waits(
    open_desk: Opened,
) -> None:
    gate = Gate()
    async with open_desk(gate) as desk:
        thread_id = await desk.thread()
        await desk.queue.add(thread_id, "A")
        await gate.reached.wait()
        later = await desk.queue.add(thread_id, "B")
        assert desk.all_of(thread_id) == [("dispatching", "A"), ("pending", "B")]
        assert [entry.text for entry in desk.queue.list(thread_id)] == ["B"]
        with pytest.raises(InvalidRequest, match=INCOMPLETE_REORDER):
            await desk.queue.reorder(thread_id, [])
        await desk.queue.update(thread_id, later.id, "B, but better")
        gate.opened.set()
        await desk.empty(thread_id)
        assert await desk.texts(thread_id) == ["A", "B, but better"]


async def test_a_thread_with_a_users_turn_is_left_alone_until_that_has_ended(open_desk: Opened) -> None:
    gate = Gate()
    async with open_desk(gate) as desk:
        thread_id = await desk.thread()
        sent = desk.threads.start_turn(thread_id, "mine")
        await gate.reached.wait()
        await desk.queue.add(thread_id, "A")
        with pytest.raises(Conflict, match="has a turn in progress"):
            await desk.dispatcher.start_head(thread_id)
        assert desk.all_of(thread_id) == [("pending", "A")]
        gate.opened.set()
        await sent.ended
        await desk.empty(thread_id)
        assert await desk.texts(thread_id) == ["mine", "A"]


async def test_five_looks_at_once_start_one_turn(open_desk: Opened) -> None:
    gate = Gate()
    async with open_desk(gate) as desk:
        thread_id = await desk.thread()
        await desk.write(
            lambda queue: [
                queue.append(NewQueuedTurn(text, thread_id, text, {}), now=1) for text in ("A", "B")
            ]
        )
        sent = await asyncio.gather(*(desk.dispatcher._dispatch(thread_id) for _ in range(5)))
        # The desk looks by itself too, and may have been the first: but there is one first.
        assert sum(one is not None for one in sent) <= 1
        assert desk.all_of(thread_id) == [("dispatching", "A"), ("pending", "B")]
        gate.opened.set()
        await desk.empty(thread_id)


async def test_a_failed_turn_leaves_the_queue_and_the_next_one_starts(open_desk: Opened) -> None:
    async with open_desk([unauthorized(), "fine"]) as desk:
        thread_id = await desk.thread()
        for text in "AB":
            await desk.queue.add(thread_id, text)
        await desk.empty(thread_id)
        view = await desk.threads.read(thread_id)
        assert [turn.status for turn in view.turns] == [TurnStatus.FAILED, TurnStatus.COMPLETED]


async def test_an_interrupt_keeps_the_queue_and_holds_it_until_the_user_says_go_on(open_desk: Opened) -> None:
    gate = Gate()
    async with open_desk(gate) as desk:
        thread_id = await desk.thread()
        await desk.queue.add(thread_id, "A")
        await gate.reached.wait()
        for text in ("B", "C"):
            await desk.queue.add(thread_id, text)
        assert desk.threads.interrupt(thread_id)
        await desk.until(lambda: len(desk.all_of(thread_id)) == 2)
        assert desk.queue.is_held(thread_id)
        desk.dispatcher.wake()
        await desk.queue.add(thread_id, "D")
        await desk.dispatcher._look()
        assert [text for _, text in desk.all_of(thread_id)] == ["B", "C", "D"]
        gate.opened.set()
        await desk.dispatcher.start_head(thread_id)
        await desk.empty(thread_id)
        assert await desk.texts(thread_id) == ["A", "B", "C", "D"]


async def test_a_users_turn_after_an_interrupt_lets_the_queue_go_on(open_desk: Opened) -> None:
    gate = Gate()
    async with open_desk(gate) as desk:
        thread_id = await desk.thread()
        first = desk.threads.start_turn(thread_id, "mine")
        await gate.reached.wait()
        await desk.queue.add(thread_id, "A")
        desk.threads.interrupt(thread_id)
        await first.ended
        await desk.until(lambda: desk.queue.is_held(thread_id))
        gate.opened.set()
        await desk.threads.start_turn(thread_id, "go on").ended
        await desk.empty(thread_id)
        assert await desk.texts(thread_id) == ["mine", "go on", "A"]


async def test_an_interrupt_with_nothing_waiting_holds_nothing(open_desk: Opened) -> None:
    gate = Gate()
    async with open_desk(gate) as desk:
        thread_id = await desk.thread()
        sent = desk.threads.start_turn(thread_id, "mine")
        await gate.reached.wait()
        desk.threads.interrupt(thread_id)
        await sent.ended
        await desk.dispatcher._look()
        gate.opened.set()
        await desk.queue.add(thread_id, "A")
        await desk.empty(thread_id)


async def test_a_failed_head_blocks_until_it_is_retried_deleted_or_moved(open_desk: Opened) -> None:
    async with open_desk() as desk:
        thread_id = await desk.thread()

        def fail_one(queue: TurnQueueStore) -> None:
            queue.append(NewQueuedTurn("a", thread_id, "A", {}), now=1)
            queue.claim_head(thread_id, owner=DEAD, now=1)
            queue.fail("a", reason="for a test", now=1)

        await desk.write(fail_one)
        added = await desk.queue.add(thread_id, "B")
        await desk.dispatcher._look()
        assert desk.all_of(thread_id) == [("failed", "A"), ("pending", "B")]
        with pytest.raises(Conflict, match="the head of the queue has failed"):
            await desk.dispatcher.start_head(thread_id)
        await desk.queue.reorder(thread_id, [added.id, "a"])
        await desk.until(lambda: desk.all_of(thread_id) == [("failed", "A")])
        await desk.queue.retry(thread_id, "a")
        await desk.empty(thread_id)
        assert await desk.texts(thread_id) == ["B", "A"]
        with pytest.raises(NotFound):
            await desk.queue.retry(thread_id, "a")


async def test_what_cannot_be_started_is_failed_with_a_reason(
    open_desk: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_desk() as desk:
        thread_id = await desk.thread()

        def broken(*_: Any, **__: Any) -> None:
            raise RuntimeError("for a test")

        monkeypatch.setattr(desk.threads.get_alive(thread_id), "send", broken)
        await desk.queue.add(thread_id, "A")
        await desk.until(lambda: desk.all_of(thread_id) == [("failed", "A")])
        [entry] = desk.queue.list(thread_id)
        assert entry.failure == "it could not be started: for a test"


@pytest.mark.parametrize("ended", [TurnStatus.COMPLETED, TurnStatus.INTERRUPTED, None])
async def test_what_a_dead_process_was_dispatching_is_settled_before_anything_is_dispatched(
    open_desk: Opened, ended: TurnStatus | None
) -> None:
    async with open_desk() as desk:
        thread_id = await desk.thread()
    async with open_desk() as desk:
        history = desk.threads.runtime.history

        def leave_turn(connection: Any) -> None:
            store = HistoryStore(connection)
            store.start_turn(thread_id, "turn", owner=DEAD, now=1)
            if ended:
                store.end_turn(thread_id, "turn", status=ended, now=2)
            else:
                store.settle_open_turns(is_dead=lambda owner: owner == DEAD, now=2)

        def leave_dispatch(queue: TurnQueueStore) -> None:
            for text in ("A", "B"):
                queue.append(NewQueuedTurn(text, thread_id, text, {}), now=1)
            queue.claim_head(thread_id, owner=DEAD, now=1)
            queue.set_turn_id("A", turn_id="turn", now=1)

        await history.write(leave_turn)
        await desk.write(leave_dispatch)
        await desk.threads.resume(thread_id)
        if ended is TurnStatus.COMPLETED:
            await desk.empty(thread_id)
            assert desk.models.arrived == 1
            return
        if ended is TurnStatus.INTERRUPTED:
            await desk.until(lambda: desk.all_of(thread_id) == [("pending", "B")])
            await desk.dispatcher._look()
            assert (desk.models.arrived, desk.queue.is_held(thread_id)) == (0, True)
            return
        await desk.until(lambda: desk.all_of(thread_id) == [("failed", "A"), ("pending", "B")])
        await desk.dispatcher._look()
        assert (desk.models.arrived, desk.queue.list(thread_id)[0].failure) == (0, "dispatch interrupted")


async def test_a_thread_that_is_alive_nowhere_keeps_its_queue_until_it_is_resumed(open_desk: Opened) -> None:
    async with open_desk() as desk:
        thread_id = await desk.thread()
        await desk.threads.unload(thread_id)
        await desk.queue.add(thread_id, "A")
        await desk.dispatcher._look()
        assert desk.all_of(thread_id) == [("pending", "A")]
        await desk.threads.resume(thread_id)
        await desk.empty(thread_id)


async def test_an_ending_dispatcher_settles_what_is_under_way_and_starts_nothing_more(
    open_desk: Opened,
) -> None:
    gate = Gate()
    async with open_desk(gate) as desk:
        thread_id = await desk.thread()
        await desk.queue.add(thread_id, "A")
        await gate.reached.wait()
        await desk.queue.add(thread_id, "B")
    async with open_desk() as desk:
        assert desk.all_of(thread_id) == [("pending", "B")]
        assert desk.queue.is_held(thread_id)


async def test_what_another_connection_adds_is_found_without_being_told(open_desk: Opened) -> None:
    async with open_desk(look_seconds=0.05) as desk:
        thread_id = await desk.thread()
        other = await Database.open(desk.database.path, kind="queue")
        entry = NewQueuedTurn("a", thread_id, "A", {})
        await other.write(lambda connection: TurnQueueStore(connection).append(entry, now=1))
        await desk.until(lambda: desk.models.answered == 1)
        await desk.empty(thread_id)
        await other.close()


async def test_with_a_thousand_waiting_the_head_is_still_the_first(open_desk: Opened) -> None:
    gate = Gate()
    async with open_desk(gate) as desk:
        thread_id = await desk.thread()
        await desk.write(
            lambda queue: [
                queue.append(NewQueuedTurn(f"{number:04}", thread_id, f"{number:04}", {}), now=1)
                for number in range(1000)
            ]
        )
        desk.dispatcher.wake()
        await gate.reached.wait()
        assert desk.all_of(thread_id)[:2] == [("dispatching", "0000"), ("pending", "0001")]
        assert [entry.text for entry in desk.queue.list(thread_id, offset=998, limit=5)] == ["0999"]
