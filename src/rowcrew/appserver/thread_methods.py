"""The methods of threads and their turns: from parameters to a use case and back. No rule is made here."""

from dataclasses import replace
from pathlib import Path

from rowcrew.agent.setup import SettledSetup, ThreadSetup
from rowcrew.appserver import errors
from rowcrew.appserver import protocol as wire
from rowcrew.appserver.connection import Connection, Run
from rowcrew.appserver.entities import SandboxPolicy, Wire, WireThread, WireTurn, WorkspaceWritePolicy
from rowcrew.appserver.errors import RpcError
from rowcrew.appserver.notifications import tell_if_never_started
from rowcrew.appserver.services import Services
from rowcrew.appserver.translate import provider_of, text_of, wire_sandbox, wire_thread
from rowcrew.domain.thread import Thread
from rowcrew.errors import NotFound

SOURCE = "appServer"
PAGE = 25
LARGEST_PAGE = 100

POLICIES = {
    "readOnly": "read-only",
    "workspaceWrite": "workspace-write",
    "dangerFullAccess": "danger-full-access",
}


class ThreadMethods:
    """One method of this class for each method of the wire."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._threads = services.threads

    def table(self) -> dict[str, Run]:
        return {
            "thread/start": self.start,
            "thread/resume": self.resume,
            "thread/fork": self.fork,
            "thread/read": self.read,
            "thread/list": self.list_threads,
            "thread/loaded/list": self.list_loaded,
            "thread/archive": self.archive,
            "thread/unarchive": self.unarchive,
            "thread/name/set": self.set_name,
            "thread/delete": self.delete,
            "thread/unsubscribe": self.unsubscribe,
            "turn/start": self.start_turn,
            "turn/steer": self.steer,
            "turn/interrupt": self.interrupt,
        }

    # -- coming alive -----------------------------------------------------------------------------------

    async def start(self, connection: Connection, params: wire.ThreadStartParams) -> Wire:
        _refuse_ephemeral(params.ephemeral)
        thread = await self._threads.start(_setup(params), source=SOURCE)
        return self._loaded(connection, thread, wire.ThreadStartResponse)

    async def resume(self, connection: Connection, params: wire.ThreadResumeParams) -> Wire:
        live = self._threads.find_live(params.thread_id)
        # What is alive keeps what is not named anew.
        changes = _setup(params) if live is None else _over(live.setup, params)
        thread = await self._threads.resume(params.thread_id, changes)
        shown = self._loaded(connection, thread, wire.ThreadResumeResponse)
        return shown if params.exclude_turns else await self._with_turns(shown)

    async def fork(self, connection: Connection, params: wire.ThreadForkParams) -> Wire:
        _refuse_ephemeral(params.ephemeral)
        thread = await self._threads.fork(
            params.thread_id, _setup(params), source=SOURCE, up_to_turn_id=params.last_turn_id
        )
        shown = self._loaded(connection, thread, wire.ThreadForkResponse)
        return shown if params.exclude_turns else await self._with_turns(shown)

    def _loaded(
        self, connection: Connection, thread: Thread, kind: type[wire.ThreadStartResponse]
    ) -> wire.ThreadStartResponse:
        connection.peer.threads.add(thread.id)
        live = self._threads.find_live(thread.id)
        writable = live.setup.also_writable if live is not None else ()
        return kind(
            thread=self._shown(thread),
            model=thread.model or "",
            model_provider=provider_of(thread.model),
            cwd=thread.cwd,
            sandbox=wire_sandbox(thread.sandbox_mode, writable),
        )

    async def _with_turns(self, shown: wire.ThreadStartResponse) -> wire.ThreadStartResponse:
        return shown.model_copy(update={"thread": await self._whole(shown.thread.id)})

    def _shown(self, thread: Thread) -> WireThread:
        loaded = self._threads.find_live(thread.id) is not None
        return wire_thread(thread, self._threads.control.status(thread.id) if loaded else None)

    async def _whole(self, thread_id: str) -> WireThread:
        view = await self._threads.read(thread_id)
        loaded = self._threads.find_live(thread_id) is not None
        return wire_thread(
            view.thread, self._threads.control.status(thread_id) if loaded else None, view.turns
        )

    # -- looking ----------------------------------------------------------------------------------------

    async def read(self, _: Connection, params: wire.ThreadReadParams) -> Wire:
        if params.include_turns:
            return wire.ThreadReadResponse(thread=await self._whole(params.thread_id))
        view = await self._threads.read(params.thread_id, with_turns=False)
        return wire.ThreadReadResponse(thread=self._shown(view.thread))

    async def list_threads(self, _: Connection, params: wire.ThreadListParams) -> Wire:
        if params.sort_direction == "asc":
            raise RpcError(errors.INVALID_PARAMS, "threads are listed the newest first (sortDirection: desc)")
        await self._threads.runtime.ledger.flush()
        page = self._threads.list(
            limit=min(params.limit or PAGE, LARGEST_PAGE),
            cursor=params.cursor,
            archived=bool(params.archived),
            search=params.search_term,
            order="created" if params.sort_key in (None, "created_at") else "changed",
        )
        return wire.ThreadListResponse(
            data=[self._shown(thread) for thread in page.threads], next_cursor=page.next_cursor
        )

    async def list_loaded(self, _: Connection, params: wire.ThreadLoadedListParams) -> Wire:
        ids = sorted(self._threads.list_loaded())
        left = [thread_id for thread_id in ids if params.cursor is None or thread_id > params.cursor]
        shown = left[: params.limit or len(left)]
        more = shown[-1] if shown and len(left) > len(shown) else None
        return wire.ThreadLoadedListResponse(data=shown, next_cursor=more)

    # -- changes ----------------------------------------------------------------------------------------

    async def archive(self, _: Connection, params: wire.ThreadArchiveParams) -> Wire:
        await self._threads.archive(params.thread_id)
        await self._threads.unload(params.thread_id)
        self._services.announce(
            "thread/archived", wire.ThreadArchivedNotification(thread_id=params.thread_id)
        )
        return wire.Empty()

    async def unarchive(self, _: Connection, params: wire.ThreadUnarchiveParams) -> Wire:
        thread = await self._threads.unarchive(params.thread_id)
        self._services.announce(
            "thread/unarchived", wire.ThreadUnarchivedNotification(thread_id=params.thread_id)
        )
        return wire.ThreadUnarchiveResponse(thread=self._shown(thread))

    async def set_name(self, _: Connection, params: wire.ThreadSetNameParams) -> Wire:
        name = params.name.strip()
        if not name:
            raise RpcError(errors.INVALID_REQUEST, "a thread's name must not be empty")
        await self._threads.set_name(params.thread_id, name)
        self._services.announce(
            "thread/name/updated",
            wire.ThreadNameUpdatedNotification(thread_id=params.thread_id, thread_name=name),
        )
        return wire.Empty()

    async def delete(self, connection: Connection, params: wire.ThreadDeleteParams) -> Wire:
        await self._threads.delete(params.thread_id)
        connection.peer.threads.discard(params.thread_id)
        self._services.announce("thread/deleted", wire.ThreadDeletedNotification(thread_id=params.thread_id))
        return wire.Empty()

    async def unsubscribe(self, connection: Connection, params: wire.ThreadUnsubscribeParams) -> Wire:
        if self._threads.find_live(params.thread_id) is None:
            return wire.ThreadUnsubscribeResponse(status="notLoaded")
        if params.thread_id not in connection.peer.threads:
            return wire.ThreadUnsubscribeResponse(status="notSubscribed")
        connection.peer.threads.discard(params.thread_id)
        return wire.ThreadUnsubscribeResponse(status="unsubscribed")

    # -- turns ------------------------------------------------------------------------------------------

    async def start_turn(self, connection: Connection, params: wire.TurnStartParams) -> Wire:
        if params.tool_output is not None:
            raise RpcError(errors.INVALID_PARAMS, "`toolOutput` is not supported")
        text = text_of(params.input)
        await self._take_changes(params)
        connection.peer.threads.add(params.thread_id)
        sent = self._threads.start_turn(params.thread_id, text, output_schema=params.output_schema)
        tell_if_never_started(connection, params.thread_id, sent)
        return wire.TurnStartResponse(turn=WireTurn(id=sent.turn_id, status="inProgress"))

    async def _take_changes(self, params: wire.TurnStartParams) -> None:
        """Codex's clients may name another model, folder or sandbox for this turn and those that follow."""
        live = self._threads.find_live(params.thread_id)
        if live is None:
            self._threads.get(params.thread_id)
            raise NotFound(f"thread not loaded: {params.thread_id}", hint="call thread/resume first")
        changed = _over(live.setup, params)
        if changed is not None:
            await self._threads.resume(params.thread_id, changed)

    async def steer(self, _: Connection, params: wire.TurnSteerParams) -> Wire:
        text = text_of(params.input)
        self._refuse_other_turn(params.thread_id, params.expected_turn_id)
        turn_id = self._threads.steer(params.thread_id, text, turn_id=params.expected_turn_id)
        return wire.TurnSteerResponse(turn_id=turn_id)

    async def interrupt(self, _: Connection, params: wire.TurnInterruptParams) -> Wire:
        if not self._threads.get_alive(params.thread_id).is_idle and params.turn_id:
            self._refuse_other_turn(params.thread_id, params.turn_id, about_to_start=True)
        self._threads.interrupt(params.thread_id, turn_id=params.turn_id or None)
        return wire.Empty()

    def _refuse_other_turn(self, thread_id: str, expected: str, *, about_to_start: bool = False) -> None:
        running = self._threads.get_alive(thread_id).turn_id
        if running is None and about_to_start:
            return
        if running is None:
            raise RpcError(errors.INVALID_REQUEST, "no active turn to steer")
        if running != expected:
            said = f"expected active turn id {expected} but found {running}"
            raise RpcError(errors.INVALID_REQUEST, said, {"state": running})


def _setup(params: wire.ThreadSettings) -> ThreadSetup:
    told = [text for text in (params.base_instructions, params.developer_instructions) if text]
    return ThreadSetup(
        cwd=_folder(params.cwd),
        model=_model(params),
        sandbox_mode=params.sandbox,
        instructions="\n\n".join(told),
    )


def _model(params: wire.ThreadSettings) -> str | None:
    model, provider = params.model, params.model_provider
    return f"{provider}:{model}" if model and provider and ":" not in model else model


def _folder(cwd: str | None) -> Path | None:
    if cwd is None:
        return None
    path = Path(cwd)
    if not path.is_absolute() or not path.is_dir():
        raise RpcError(errors.INVALID_REQUEST, f"`cwd` must be the absolute path of a folder, not {cwd!r}")
    return path


def _over(setup: SettledSetup, params: wire.TurnStartParams | wire.ThreadResumeParams) -> ThreadSetup | None:
    """What a thread is made of, with what is named anew in its place. None when nothing is."""
    mode: str | None
    roots = setup.also_writable
    if isinstance(params, wire.TurnStartParams):
        mode = None if params.sandbox_policy is None else POLICIES[params.sandbox_policy.type]
        roots = _roots(params.sandbox_policy, roots)
        model, instructions = params.model, ""
    else:
        wanted = _setup(params)
        mode, model, instructions = params.sandbox, wanted.model, wanted.instructions
    kept = setup.again()
    changed = replace(
        kept,
        cwd=_folder(params.cwd) or setup.cwd,
        model=model or setup.model,
        sandbox_mode=mode or setup.sandbox_mode,
        also_writable=roots,
        instructions=instructions or setup.instructions,
    )
    return None if changed == kept else changed


def _roots(policy: SandboxPolicy | None, before: tuple[Path, ...]) -> tuple[Path, ...]:
    if isinstance(policy, WorkspaceWritePolicy) and policy.writable_roots:
        return tuple(Path(root) for root in policy.writable_roots)
    return before


def _refuse_ephemeral(ephemeral: bool | None) -> None:
    if ephemeral:
        raise RpcError(
            errors.INVALID_PARAMS,
            "threads are always kept (ephemeral: false)",
            {"hint": "delete the thread when it is done"},
        )
