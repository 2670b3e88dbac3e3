"""Puts right, at open, what dead processes left in the files: rows of threads, and turns in progress.

It loads no model library and ends nothing: who is alive keeps what is his.
"""

from rowcrew.clock import Clock
from rowcrew.processes import ProcessIdentity, is_alive
from rowcrew.store.database import Database
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
