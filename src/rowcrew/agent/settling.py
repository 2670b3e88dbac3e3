"""Puts right, at open, what dead processes left in the files: rows of threads, and turns in progress.

It loads no model library and ends nothing: who is alive keeps what is his.
"""

from collections.abc import Awaitable, Callable

from rowcrew.clock import Clock
from rowcrew.processes import ProcessIdentity, identify, is_alive
from rowcrew.store.database import Connection, Database
from rowcrew.store.history import HistoryStore
from rowcrew.store.threads import ThreadStore


def is_dead(owner: ProcessIdentity) -> bool:
    """Whether the process that a row names as its owner is gone."""
    return not is_alive(owner)


async def settle_rows(state: Database) -> None:
    """Free the threads of dead owners."""
    await state.write(lambda connection: ThreadStore(connection).take_back(is_dead=is_dead))


async def settle_history(history: Database, clock: Clock) -> list[tuple[str, str]]:
    """Interrupt the turns that dead processes left in progress. Returns (thread, turn) ids."""
    now = clock.now_ms()
    return await history.write(
        lambda connection: HistoryStore(connection).settle_open_turns(is_dead=is_dead, now=now)
    )


async def sweep_orphans(state: Database, open_history: Callable[[], Awaitable[Database]]) -> None:
    """Delete what agents said for jobs that are gone.

    Found by what is missing, so that the next call finds what a crash in between has left.
    """
    orphans = await state.read(lambda connection: ThreadStore(connection).list_orphans())
    if not orphans:
        return
    history, owner = await open_history(), identify()

    def drop_turns(connection: Connection) -> None:
        for thread_id in orphans:
            HistoryStore(connection).delete_thread(thread_id)

    def drop_rows(connection: Connection) -> None:
        for thread_id in orphans:
            ThreadStore(connection).delete(thread_id, owner=owner)

    await history.write(drop_turns)
    await state.write(drop_rows)
