"""One SQLite file: opening it, its one writer with group commit, its readers. It knows no table.

Discipline: every write of a process goes through one thread that owns the writing connection. The thread
takes all writes that are waiting, runs each in a savepoint of its own inside one ``BEGIN IMMEDIATE``, commits
once with a full sync, and only then answers them all. So a write that was answered is on the disk, and a
write that failed has left nothing behind. Reads use connections of their own and never wait for writers.

Each statement hands Python's lock over and has to get it back, which takes long while an event loop is
busy. So writes of the same kind that wait side by side are one call (`write_with_others`), which can store
all of them in a few statements.
"""

import asyncio
import contextlib
import queue
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, Literal, TypeVar

import apsw

from rowcrew.errors import DiskFull, RowcrewError, StoreBusy, StoreDamaged, StoreError
from rowcrew.store.backlog import Backlog
from rowcrew.store.migrate import migrate
from rowcrew.store.reserve import Reserve

T = TypeVar("T")
P = TypeVar("P")
Kind = Literal["state", "queue", "history"]
# Named here so that other layers can say what their work is given without importing apsw.
Connection = apsw.Connection

BUSY_TIMEOUT_MS = 10_000
BUSY_TRIES = 3
# More than this in one commit would make the first of them wait long; fewer would waste syncs. An ended turn
# is dozens of rows, and its statements leave Python's lock to nobody for as long.
MAX_GROUP: dict[Kind, int] = {"state": 512, "queue": 512, "history": 16}
JOURNAL_SIZE_LIMIT = 64 * 1024 * 1024
# SQLite needs this much for the index of its log before it can read a row.
LEAST_ROOM = 256 * 1024


@dataclass(frozen=True, slots=True)
class Phase:
    """One step of opening a file, for diagnosis: what it was and how long it took."""

    name: str
    milliseconds: float


class NotTogether(Exception):
    """Raised by the work of `write_with_others`: these want to be written one by one."""


@dataclass(slots=True, eq=False)
class _Write:
    """`given` is what `work` gets, in a list with what others gave who have the same work."""

    work: Callable[[apsw.Connection, list[Any]], Sequence[Any]]
    given: Any
    future: asyncio.Future[Any]
    loop: asyncio.AbstractEventLoop
    result: Any = None
    error: BaseException | None = None


@contextlib.contextmanager
def as_store_errors(path: Path) -> Iterator[None]:
    """Turn what SQLite says of the file into errors of ours; other exceptions pass through."""
    try:
        yield
    except (apsw.CorruptError, apsw.NotADBError) as error:
        raise StoreDamaged(
            f"the database file {path} is damaged ({error})",
            hint="move it away or restore a copy; `rowcrew doctor` says more. rowcrew does not touch it",
        ) from error
    except apsw.FullError as error:
        raise DiskFull(f"no room on the disk for {path}", hint="free some space, then resume") from error
    except (apsw.BusyError, apsw.LockedError) as error:
        raise StoreBusy(
            f"{path} stayed locked by another process",
            hint="try again in a moment; a rowcrew stopped with Ctrl-Z must go on or be ended first",
        ) from error
    except apsw.IOError as error:
        # A full disk where SQLite makes the index of its log is an input-output error to it.
        if _has_room(path.parent):
            raise StoreError(f"the database file {path} cannot be read or written: {error}") from error
        raise DiskFull(f"no room on the disk for {path}", hint="free some space, then resume") from error
    except apsw.Error as error:
        raise StoreError(f"the database file {path} cannot be used: {error}") from error


def _has_room(folder: Path) -> bool:
    try:
        return shutil.disk_usage(folder).free >= LEAST_ROOM
    except OSError:
        return True


def connect(path: Path) -> apsw.Connection:
    """A connection with the settings that every connection has."""
    connection = apsw.Connection(str(path))
    connection.set_busy_timeout(BUSY_TIMEOUT_MS)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute(f"PRAGMA journal_size_limit = {JOURNAL_SIZE_LIMIT}")
    connection.execute("PRAGMA temp_store = MEMORY")
    return connection


def retry_busy(work: Callable[[], T]) -> T:
    """Do `work`, again when the file was locked, three tries in all. No other error is tried again."""
    for _ in range(BUSY_TRIES - 1):
        try:
            return work()
        except (apsw.BusyError, apsw.LockedError):
            # The busy timeout has already waited; a change of journal mode alone answers at once.
            time.sleep(0.05)
    return work()


class Database:
    """One open file. Opened with `open`, which brings its tables up to date."""

    def __init__(
        self,
        path: Path,
        writer: apsw.Connection,
        phases: tuple[Phase, ...],
        reserve: Reserve,
        max_group: int,
    ) -> None:
        self.path = path
        self.phases = phases
        self._reserve = reserve
        self._writer = writer
        self._waiting: queue.SimpleQueue[_Write | None] = queue.SimpleQueue()
        self._max_group = max_group
        self._in_hand = 0
        self.backlog = Backlog(lambda: self._waiting.qsize() + self._in_hand)
        self._thread = threading.Thread(target=self._write_loop, name=f"writer {path.name}", daemon=True)
        self._thread.start()
        self._readers: list[apsw.Connection] = []
        self._readers_lock = threading.Lock()
        self._pool = ThreadPoolExecutor(max_workers=4, thread_name_prefix=f"reader {path.name}")
        self._peek_connection: apsw.Connection | None = None
        self._peek_lock = threading.Lock()
        self._closed = False

    @classmethod
    async def open(cls, path: Path, *, kind: Kind) -> "Database":
        """Open or create the file. Raises StoreDamaged, StoreBusy, DiskFull or StoreError."""
        return await asyncio.to_thread(cls._open, path, kind)

    @classmethod
    def _open(cls, path: Path, kind: Kind) -> "Database":
        phases: list[Phase] = []

        def timed(name: str, work: Callable[[], T]) -> T:
            start = time.monotonic()
            result = retry_busy(work)
            phases.append(Phase(name, (time.monotonic() - start) * 1000))
            return result

        def opened() -> apsw.Connection:
            phases.clear()
            with as_store_errors(path):
                writer = timed("open", lambda: connect(path))
                timed("migrate", lambda: migrate(writer, kind))
            return writer

        reserve = Reserve(path.parent / "reserve")
        try:
            writer = opened()
        except DiskFull:
            # What the reserve is for: on a full disk one can still look, and stop a job in good order.
            if not reserve.release():
                raise
            writer = opened()
        if not reserve.released:
            timed("reserve", reserve.fill)
        return cls(path, writer, tuple(phases), reserve, MAX_GROUP[kind])

    @property
    def out_of_room(self) -> bool:
        """True once a write only succeeded because the disk reserve was given up for it."""
        return self._reserve.released

    async def look_for_room(self) -> None:
        """Take the reserve again if there is room for it by now; then `out_of_room` is False."""
        if self.out_of_room:
            await asyncio.to_thread(self._reserve.fill)

    async def write(self, work: Callable[[apsw.Connection], T]) -> T:
        """Run `work` on the writing connection and return its result once it is on the disk.

        When `work` raises, nothing of it stays and the exception is raised here.
        """
        return await self.write_with_others(_run_alone, work)

    async def write_with_others(self, work: Callable[[apsw.Connection, list[P]], Sequence[T]], given: P) -> T:
        """As `write`, with `work(connection, [given])[0]` as its work and result.

        Writes with the same `work` that wait side by side are one call, with all that was given, in order,
        and a result for each. When that call raises (NotTogether, or whatever a single one would), nothing
        of it stays and each is run by itself.
        """
        if self._closed:
            raise StoreError(f"{self.path} is closed")
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self._waiting.put(_Write(work, given, future, loop))
        # A cancelled caller must not believe that nothing was written: the write goes on all the same.
        return await future

    async def read(self, work: Callable[[apsw.Connection], T]) -> T:
        """Run `work` in a thread on a reading connection; for what may take long."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, self._read, work)

    def _read(self, work: Callable[[apsw.Connection], T]) -> T:
        with as_store_errors(self.path):
            with self._readers_lock:
                connection = self._readers.pop() if self._readers else None
            connection = connection or retry_busy(lambda: connect(self.path))
            try:
                return work(connection)
            finally:
                with self._readers_lock:
                    self._readers.append(connection)

    def peek(self, work: Callable[[apsw.Connection], T]) -> T:
        """Run `work` at once on the caller's thread; for look-ups of a few rows by key only."""
        with as_store_errors(self.path), self._peek_lock:
            if self._peek_connection is None:
                self._peek_connection = retry_busy(lambda: connect(self.path))
            return work(self._peek_connection)

    async def close(self) -> None:
        """Finish the waiting writes and close all connections."""
        if self._closed:
            return
        self._closed = True
        self._waiting.put(None)
        await asyncio.to_thread(self._close)

    def _close(self) -> None:
        self._thread.join()
        self._pool.shutdown()
        for connection in (*self._readers, self._peek_connection, self._writer):
            if connection is not None:
                connection.close()
        self._reserve.fill()

    # -- the writer thread ----------------------------------------------------------------------------

    def _write_loop(self) -> None:
        last = False
        while not last:
            group: list[_Write] = []
            head = self._waiting.get()
            while head is not None:
                group.append(head)
                self._in_hand = len(group)
                if len(group) >= self._max_group or self._waiting.empty():
                    break
                head = self._waiting.get()
            last = head is None
            if group:
                self._write_group(group)
                self._answer(group)

    def _write_group(self, group: list[_Write]) -> None:
        try:
            with as_store_errors(self.path):
                retry_busy(lambda: self._commit(group))
        except DiskFull as error:
            given_up = self._reserve.release()
            self._shorten_log()
            if given_up:
                self._write_group(group)
            else:
                self._fail(group, error)
        except BaseException as error:
            self._fail(group, error)

    def _shorten_log(self) -> None:
        """Give back what a transaction that found no room has left in the log: it may be most of the disk."""
        with contextlib.suppress(apsw.Error):
            # Readers may be in the way; they are not waited for, the next full disk tries again.
            self._writer.set_busy_timeout(0)
            self._writer.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        self._writer.set_busy_timeout(BUSY_TIMEOUT_MS)

    def _commit(self, group: list[_Write]) -> None:
        writer = self._writer
        writer.execute("BEGIN IMMEDIATE")
        try:
            if len(group) == 1:
                # It needs no savepoint: all of the transaction is its own.
                self._run(group)
            else:
                for _, alike in groupby(group, key=_what_is_alike):
                    self._run_alike(list(alike))
            writer.execute("COMMIT" if len(group) > 1 or group[0].error is None else "ROLLBACK")
        except BaseException:
            # SQLite has already rolled back by itself after some errors (a full disk among them).
            if writer.in_transaction:
                writer.execute("ROLLBACK")
            raise

    def _run_alike(self, writes: list[_Write]) -> None:
        if not self._run_in_savepoint(writes) and len(writes) > 1:
            for write in writes:
                self._run_in_savepoint([write])

    def _run_in_savepoint(self, writes: list[_Write]) -> bool:
        self._writer.execute("SAVEPOINT one")
        done = self._run(writes)
        if not done:
            self._writer.execute("ROLLBACK TO one")
        self._writer.execute("RELEASE one")
        return done

    def _run(self, writes: list[_Write]) -> bool:
        """Run writes with the same work in one call. False when that raised, with the error kept in them."""
        error: Exception
        try:
            results = writes[0].work(self._writer, [write.given for write in writes])
        except apsw.ConstraintError as broken:
            error = StoreError(f"a rule of the tables in {self.path.name} forbids it: {broken}")
        except (apsw.Error, MemoryError):
            raise  # the file itself is in the way: that is every waiting write's matter
        except Exception as raised:
            error = raised
        else:
            for write, result in zip(writes, results, strict=True):
                write.result, write.error = result, None
            return True
        for write in writes:
            write.error = error
        return False

    def _fail(self, group: list[_Write], error: BaseException) -> None:
        known = error if isinstance(error, RowcrewError) else StoreError(f"{self.path}: {error}")
        for write in group:
            write.error = known

    def _answer(self, group: list[_Write]) -> None:
        self._in_hand = 0
        by_loop: dict[asyncio.AbstractEventLoop, list[_Write]] = {}
        for write in group:
            by_loop.setdefault(write.loop, []).append(write)
        for loop, writes in by_loop.items():
            # A loop that was closed meanwhile has nobody left who waits.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(_resolve, writes)
        self.backlog.shortened()


def _run_alone(connection: apsw.Connection, works: list[Callable[[apsw.Connection], T]]) -> list[T]:
    """What plain writes have for work; each is called by itself."""
    [work] = works
    return [work(connection)]


def _what_is_alike(write: _Write) -> object:
    """Equal for writes that may be one call."""
    return write if write.work is _run_alone else write.work


def _resolve(writes: list[_Write]) -> None:
    for write in writes:
        if write.future.cancelled():
            continue
        if write.error is None:
            write.future.set_result(write.result)
        else:
            write.future.set_exception(write.error)
            # A caller that was cancelled meanwhile will not fetch it; it is no unhandled error then.
            write.future.exception()
