"""Bring a file's tables up to date: numbered SQL files, each applied once, in order. It never goes back.

A file written by a newer version holds numbers that this version has no file for. They are left alone, and
the file is used as it is: newer versions only ever add.
"""

import time
from importlib.resources import files

import apsw


def steps(kind: str) -> list[tuple[int, str, str]]:
    """The migrations of one kind of file as (number, name, SQL), in order."""
    found = []
    for entry in files("rowcrew.store").joinpath("migrations", kind).iterdir():
        if entry.name.endswith(".sql"):
            number, _, name = entry.name.removesuffix(".sql").partition("_")
            found.append((int(number), name, entry.read_text("utf-8")))
    return sorted(found)


def version(connection: apsw.Connection) -> int:
    """The highest number applied to this file; 0 for a fresh one."""
    known = connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'migrations'").fetchone()
    if known is None:
        return 0
    row = connection.execute("SELECT coalesce(max(number), 0) FROM migrations").fetchone()
    return int(row[0]) if row else 0


def migrate(connection: apsw.Connection, kind: str) -> None:
    """Apply what is missing, all in one transaction, so that no one ever sees a half-made file."""
    wanted = steps(kind)
    if version(connection) >= wanted[-1][0]:
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        # Another process may have done it while this one waited for the lock.
        applied = version(connection)
        if applied == 0:
            connection.execute(
                "CREATE TABLE IF NOT EXISTS migrations (number INTEGER PRIMARY KEY, name TEXT NOT NULL,"
                " applied_at_ms INTEGER NOT NULL) STRICT"
            )
        for number, name, sql in wanted:
            if number > applied:
                connection.execute(sql)
                connection.execute(
                    "INSERT INTO migrations VALUES (?, ?, ?)", (number, name, time.time_ns() // 1_000_000)
                )
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
