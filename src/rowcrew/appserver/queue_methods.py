"""The methods of the queue of turns: from parameters to a use case and back. It has no rule of its own."""

from typing import Any

from rowcrew.appserver import errors
from rowcrew.appserver import queue_protocol as wire
from rowcrew.appserver.connection import Connection, Run
from rowcrew.appserver.entities import Wire, WireTurn
from rowcrew.appserver.errors import RpcError
from rowcrew.appserver.notifications import tell_if_never_started
from rowcrew.appserver.protocol import Empty
from rowcrew.appserver.services import Services
from rowcrew.appserver.translate import text_of, wire_queued
from rowcrew.errors import NotFound

PAGE = 25
LARGEST_PAGE = 1000


class QueueMethods:
    """One method of this class for each method of the wire."""

    def __init__(self, services: Services) -> None:
        self._queue = services.queue
        self._dispatcher = services.dispatcher
        self._threads = services.threads

    def table(self) -> dict[str, Run]:
        return {
            "thread/queue/add": self.add,
            "thread/queue/list": self.list_page,
            "thread/queue/update": self.update,
            "thread/queue/delete": self.delete,
            "thread/queue/reorder": self.reorder,
            "thread/queue/start": self.start,
            "thread/queue/retry": self.retry,
        }

    async def add(self, _: Connection, params: wire.ThreadQueueAddParams) -> Wire:
        options: dict[str, Any] = {}
        if params.output_schema is not None:
            options["output_schema"] = params.output_schema
        added = await self._queue.add(
            params.thread_id, text_of(params.input), options=options, client_id=params.client_user_message_id
        )
        shown = None if added.entry is None else wire_queued(added.entry)
        return wire.ThreadQueueAddResponse(queued_submission=shown)

    async def list_page(self, _: Connection, params: wire.ThreadQueueListParams) -> Wire:
        offset = _offset(params.cursor)
        limit = min(params.limit or PAGE, LARGEST_PAGE)
        entries = self._queue.list(params.thread_id, offset=offset, limit=limit + 1)
        return wire.ThreadQueueListResponse(
            data=[wire_queued(entry) for entry in entries[:limit]],
            next_cursor=str(offset + limit) if len(entries) > limit else None,
            held=self._dispatcher.is_held(params.thread_id),
        )

    async def update(self, _: Connection, params: wire.ThreadQueueUpdateParams) -> Wire:
        entry = await self._queue.update(params.thread_id, params.queued_submission_id, text_of(params.input))
        return wire.ThreadQueueUpdateResponse(queued_submission=wire_queued(entry))

    async def delete(self, _: Connection, params: wire.ThreadQueueDeleteParams) -> Wire:
        deleted = await self._queue.delete(params.thread_id, params.queued_submission_id)
        return wire.ThreadQueueDeleteResponse(deleted=deleted)

    async def reorder(self, _: Connection, params: wire.ThreadQueueReorderParams) -> Wire:
        await self._queue.reorder(params.thread_id, params.queued_submission_ids)
        return Empty()

    async def retry(self, _: Connection, params: wire.ThreadQueueRetryParams) -> Wire:
        entry = await self._queue.retry(params.thread_id, params.queued_submission_id)
        return wire.ThreadQueueRetryResponse(queued_submission=wire_queued(entry))

    async def start(self, connection: Connection, params: wire.ThreadQueueStartParams) -> Wire:
        if self._threads.find_live(params.thread_id) is None:
            self._threads.get(params.thread_id)
            raise NotFound(f"thread not loaded: {params.thread_id}", hint="call thread/resume first")
        connection.peer.threads.add(params.thread_id)
        sent = await self._dispatcher.start_head(params.thread_id, entry_id=params.queued_submission_id)
        tell_if_never_started(connection, params.thread_id, sent)
        return wire.ThreadQueueStartResponse(turn=WireTurn(id=sent.turn_id, status="inProgress"))


def _offset(cursor: str | None) -> int:
    if cursor is None:
        return 0
    if not (cursor.isascii() and cursor.isdigit() and len(cursor) < 10):
        raise RpcError(errors.INVALID_REQUEST, f"{cursor!r} is no cursor of this list")
    return int(cursor)
