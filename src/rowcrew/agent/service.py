"""The use cases around threads, one method for each verb of a door: start, resume, fork, read, turns, delete.

It knows no door and no subscriber: a thread is alive here from `start` or `resume` until `unload`, or until
the runtime closes.
Discipline: what makes a thread alive, ends it or deletes it holds that thread's lock; turns need none,
because the thread runs them one at a time.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rowcrew.agent.catalog import ThreadCatalog, ThreadView
from rowcrew.agent.control import SHUTDOWN_SECONDS
from rowcrew.agent.durable import load_messages
from rowcrew.agent.runtime import AgentRuntime
from rowcrew.agent.settling import settle_history
from rowcrew.agent.setup import LiveThread, MoreTools, SettledSetup, ThreadSetup, specify
from rowcrew.agent.thread import AgentSpec, AgentThread, SentTurn
from rowcrew.config import Settings
from rowcrew.domain.ids import new_id, short
from rowcrew.domain.thread import NewThread, Thread
from rowcrew.errors import Conflict, InvalidRequest, NotFound
from rowcrew.processes import ProcessIdentity
from rowcrew.store.database import Connection, Database
from rowcrew.store.history import HistoryStore
from rowcrew.store.threads import ThreadStore
from rowcrew.store.turn_queue import TurnQueueStore

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage


class ThreadService(ThreadCatalog):
    """Threads of one home, and their turns. `more_tools` add to the built-in tools of each thread."""

    def __init__(
        self,
        runtime: AgentRuntime,
        settings: Settings,
        open_queue: Callable[[], Awaitable[Database]],
        *,
        more_tools: Sequence[MoreTools] = (),
    ) -> None:
        super().__init__(runtime.state, self._get_history, runtime.clock)
        self.runtime = runtime
        self.control = runtime.control
        self.bus = runtime.bus
        self._settings = settings
        self._open_queue = open_queue
        self._more_tools = tuple(more_tools)
        self._live: dict[str, LiveThread] = {}
        self._locks: dict[str, asyncio.Lock] = {}

    async def _get_history(self) -> Database:
        return self.runtime.history

    # -- coming alive -----------------------------------------------------------------------------------

    async def start(
        self,
        setup: ThreadSetup | None = None,
        *,
        source: str,
        name: str | None = None,
        parent_id: str | None = None,
    ) -> Thread:
        """A new thread, alive here and idle. An agent slot is taken only by one that an agent spawned.

        Raises InvalidRequest (model, folder, mode, depth), LimitReached.
        """
        wanted = (setup or ThreadSetup()).settled(self._settings)
        thread_id = new_id()
        depth = self._depth_below(parent_id)
        row = wanted.row(thread_id, source=source, name=name, parent_id=parent_id, depth=depth)
        return await self._begin(row, wanted, ())

    async def resume(self, thread_id: str, setup: ThreadSetup | None = None) -> Thread:
        """Make a stored thread alive here, with what `setup` changes from now on. No-op when it is already.

        Raises NotFound; Conflict when it is alive in another process, or is to change while a turn runs;
        InvalidRequest.
        """
        async with self._lock(thread_id):
            stored = self.get(thread_id)
            wanted = (setup or ThreadSetup()).settled(self._settings, stored)
            live = self.find_live(thread_id)
            if live is not None:
                if setup is None or live.setup == wanted:
                    return stored
                if not self.control.get(thread_id).is_idle:
                    raise Conflict(f"the thread {short(thread_id)} has a turn in progress", state="running")
            made = await self._specify(wanted, thread_id, depth=stored.depth)
            if live is not None:
                await self._end(thread_id)
            await self._take(thread_id)
            try:
                # Its last owner may have died in a turn after this process opened the files.
                await settle_history(self.runtime.history, self.runtime.clock)
                messages = await load_messages(self.runtime.history, thread_id)
                await self._come_alive(stored, made, messages)
            except BaseException:
                await self._let_go(thread_id)
                raise
            now = self.runtime.clock.now_ms()
            await self.runtime.state.write(
                lambda connection: ThreadStore(connection).set_settings(
                    thread_id,
                    model=wanted.model,
                    cwd=str(wanted.cwd),
                    sandbox_mode=wanted.sandbox_mode,
                    now=now,
                )
            )
            return self.get(thread_id)

    async def fork(
        self,
        thread_id: str,
        setup: ThreadSetup | None = None,
        *,
        source: str,
        up_to_turn_id: str | None = None,
    ) -> Thread:
        """A new thread that begins with the turns of another, up to and with the given one (None: all).

        Raises NotFound (thread or turn), InvalidRequest.
        """
        stored = self.get(thread_id)
        wanted = (setup or ThreadSetup()).settled(self._settings, stored)
        new_thread_id, now = new_id(), self.runtime.clock.now_ms()
        # The copy first: a thread that can be seen is whole.
        await self.runtime.history.write(
            lambda connection: HistoryStore(connection).fork(
                thread_id, new_thread_id, up_to_turn_id=up_to_turn_id, now=now
            )
        )
        row = wanted.row(new_thread_id, source=source, name=stored.name)
        row = replace(row, forked_from_id=thread_id, preview=stored.preview)
        try:
            return await self._begin(row, wanted, await load_messages(self.runtime.history, new_thread_id))
        except BaseException:
            await self._delete_history(new_thread_id)
            raise

    async def _begin(self, row: NewThread, setup: SettledSetup, messages: "Iterable[ModelMessage]") -> Thread:
        made = await self._specify(setup, row.id, depth=row.depth)
        now, owner = self.runtime.clock.now_ms(), self.runtime.owner

        def create(connection: Connection) -> Thread:
            threads = ThreadStore(connection)
            threads.create(row, now=now)
            threads.take(row.id, owner=owner, is_dead=self.runtime.is_dead)
            return threads.get(row.id)

        async with self._lock(row.id):
            thread = await self.runtime.state.write(create)
            try:
                await self._come_alive(thread, made, messages)
            except BaseException:
                await self.runtime.state.write(
                    lambda connection: ThreadStore(connection).delete(row.id, owner=owner)
                )
                raise
        return thread

    async def _specify(
        self, setup: SettledSetup, thread_id: str, *, depth: int
    ) -> tuple[LiveThread, AgentSpec]:
        """All that can be refused, before anything is stored or ended."""
        return await specify(self.runtime, self._settings, setup, thread_id, depth=depth)

    async def _come_alive(
        self, thread: Thread, made: tuple[LiveThread, AgentSpec], messages: "Iterable[ModelMessage]"
    ) -> None:
        live, spec = made
        more = [tool for tools in self._more_tools for tool in tools(live)]
        # One whose parent has ended is led by whoever resumes it.
        parent_id = thread.parent_id
        if parent_id is not None and parent_id not in self.control.registry:
            parent_id = None
        await self.control.spawn(
            replace(spec, tools=spec.tools.plus(*more), messages=messages),
            thread_id=thread.id,
            parent_id=parent_id,
            takes_slot=parent_id is not None,
        )
        self._live[thread.id] = live

    def _depth_below(self, parent_id: str | None) -> int:
        if parent_id is None:
            return 0
        return next((one.depth + 1 for one in self.control.registry if one.thread_id == parent_id), 0)

    # -- turns ------------------------------------------------------------------------------------------

    def start_turn(
        self,
        thread_id: str,
        text: str,
        *,
        output_schema: dict[str, Any] | None = None,
        interrupt: bool = False,
    ) -> SentTurn:
        """Give a thread its next turn, which starts when the one that runs has ended (`interrupt` ends it).

        `await sent.ended` for its end. Raises NotFound when the thread is not alive here, Conflict,
        LimitReached.
        """
        if not text.strip():
            raise InvalidRequest("a turn needs a text", hint="say what is to be done")
        return self.get_alive(thread_id).send(text, output_schema=output_schema, interrupt=interrupt)

    def steer(self, thread_id: str, text: str, *, turn_id: str | None = None) -> str:
        """Add to the turn that runs now; returns its id. Raises NotFound, Conflict (no such turn runs)."""
        return self.get_alive(thread_id).steer(text, turn_id=turn_id)

    def interrupt(self, thread_id: str, *, turn_id: str | None = None) -> bool:
        """Ask the turn that runs to end. False when none runs. Raises NotFound, Conflict (another runs)."""
        thread = self.get_alive(thread_id)
        if turn_id is not None and thread.turn_id not in (None, turn_id):
            raise Conflict("another turn is in progress", state=thread.turn_id)
        return thread.interrupt()

    # -- looking ----------------------------------------------------------------------------------------

    async def read(self, thread_id: str, *, with_turns: bool = True) -> ThreadView:
        """The thread as it is now, with its turns. Raises NotFound."""
        await self.runtime.ledger.flush()
        view = await super().read(thread_id, with_turns=with_turns)
        if thread_id in self.control.registry or all(turn.is_ended for turn in view.turns):
            return view
        # Someone else's turn: it runs there, unless that process has died since the files were opened.
        await settle_history(self.runtime.history, self.runtime.clock)
        return await super().read(thread_id)

    def get_alive(self, thread_id: str) -> AgentThread:
        """The agent of a thread that was started or resumed here. Raises NotFound."""
        thread = self.control.find(thread_id) if thread_id in self._live else None
        if thread is None:
            raise NotFound(f"the thread {thread_id} is not loaded here", hint="resume it first")
        return thread

    def find_live(self, thread_id: str) -> LiveThread | None:
        """What a thread that is alive here was made of."""
        if self.control.find(thread_id) is None:
            self._live.pop(thread_id, None)
        return self._live.get(thread_id)

    def list_loaded(self) -> list[str]:
        """The threads that are alive here, in the order in which they came to be."""
        return [thread_id for thread_id in tuple(self._live) if self.find_live(thread_id) is not None]

    # -- the end ----------------------------------------------------------------------------------------

    async def unload(self, thread_id: str) -> bool:
        """End the thread here, with what it spawned; it stays stored. False when it was not alive here."""
        async with self._lock(thread_id):
            return await self._end(thread_id)

    async def delete(self, thread_id: str) -> None:
        """Delete a thread with its queued turns and its history; what it spawned stays.

        Raises NotFound, and Conflict when it is alive in another process. Cut off in the middle, it can be
        repeated: the row, by which the thread is found, goes last.
        """
        async with self._lock(thread_id):
            self.get(thread_id)
            if self.control.find(thread_id) is not None and thread_id not in self._live:
                raise Conflict(f"the thread {short(thread_id)} is at work for a job", state="running")
            await self._end(thread_id)
            await self._take(thread_id)
            queue = await self._open_queue()
            await queue.write(lambda connection: TurnQueueStore(connection).delete_thread(thread_id))
            await self._delete_history(thread_id)
            owner = self.runtime.owner
            await self.runtime.state.write(
                lambda connection: ThreadStore(connection).delete(thread_id, owner=owner)
            )
        self._locks.pop(thread_id, None)

    async def _end(self, thread_id: str) -> bool:
        if self.find_live(thread_id) is None:
            return False
        await self.control.close(thread_id, seconds=SHUTDOWN_SECONDS)
        if not await self.control.force_end(thread_id):
            raise Conflict(f"the thread {short(thread_id)} does not end", state="running")
        self._live.pop(thread_id, None)
        # Its row must say that it is free before anyone takes it again.
        await self.runtime.ledger.flush()
        return True

    async def _take(self, thread_id: str) -> None:
        owner = self.runtime.owner
        held: ProcessIdentity | None = await self.runtime.state.write(
            lambda connection: ThreadStore(connection).take(
                thread_id, owner=owner, is_dead=self.runtime.is_dead
            )
        )
        if held is not None:
            raise Conflict(
                f"the thread {short(thread_id)} is in use by process {held.pid}",
                state="loaded_elsewhere",
                hint="end it there first, or fork it",
            )

    async def _let_go(self, thread_id: str) -> None:
        owner = self.runtime.owner
        await self.runtime.state.write(
            lambda connection: ThreadStore(connection).let_go(thread_id, owner=owner)
        )

    async def _delete_history(self, thread_id: str) -> None:
        await self.runtime.history.write(lambda connection: HistoryStore(connection).delete_thread(thread_id))

    def _lock(self, thread_id: str) -> asyncio.Lock:
        return self._locks.setdefault(thread_id, asyncio.Lock())
