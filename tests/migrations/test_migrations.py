"""Database files of older and newer versions: each opens, and nothing in it is lost."""

from pathlib import Path

import apsw
import pytest

from rowcrew.store.database import Database, Kind
from rowcrew.store.jobs import JobStore
from rowcrew.store.migrate import migrate, steps, version
from rowcrew.store.rows import mappings, usage_of
from tests.store.job_store import JOB, new_job, specs

KINDS: tuple[Kind, ...] = ("state", "queue", "history")
# What each version's own tables hold is written with the columns that its first version had.
ROWS: dict[Kind, str] = {
    "state": f"""
INSERT INTO agent_jobs (id, name, status, instruction, auto_export, max_runtime_seconds, input_headers_json,
  input_csv_path, output_csv_path, created_at_ms, updated_at_ms, settings_json, fingerprint, input_digest,
  input_size)
VALUES ('{JOB}', 'old', 'pending', 'do {{a}}', 1, 60.0, '["a"]', '/in.csv', '/out.csv', 1, 1,
  '{{"worker":"python:m:f"}}', 'f', 'd', 3);
INSERT INTO agent_job_totals (job_id, total, pending, running, completed, failed)
VALUES ('{JOB}', 1, 1, 0, 0, 0);
INSERT INTO agent_job_items (job_id, item_id, row_index, row_json, created_at_ms, updated_at_ms)
VALUES ('{JOB}', 'row-1', 0, '["x"]', 1, 1);
""",
    "queue": "",
    "history": """
INSERT INTO turns (thread_id, id, sequence, status, started_at_ms, completed_at_ms, usage_json)
VALUES ('t', '1', 1, 'completed', 1, 2, '{}');
""",
}


def of_version(path: Path, kind: Kind, number: int) -> None:
    """A file as the version had it whose newest migration was this one."""
    connection = apsw.Connection(str(path))
    connection.execute(
        "CREATE TABLE migrations (number INTEGER PRIMARY KEY, name TEXT NOT NULL,"
        " applied_at_ms INTEGER NOT NULL) STRICT"
    )
    for known, name, sql in steps(kind):
        if known <= number:
            connection.execute(sql)
            connection.execute("INSERT INTO migrations VALUES (?, ?, 1)", (known, name))
        if known == 1:
            connection.execute(ROWS[kind])
    connection.close()


def tables_of(connection: apsw.Connection) -> dict[str, list[tuple[object, ...]]]:
    names = [
        str(name)
        for (name,) in connection.execute(
            "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
        )
    ]
    return {name: list(connection.execute(f'SELECT * FROM "{name}"')) for name in names}


@pytest.mark.parametrize("kind", KINDS)
def test_numbers_begin_at_one_and_leave_none_out(kind: Kind) -> None:
    assert [number for number, _, _ in steps(kind)] == list(range(1, len(steps(kind)) + 1))


@pytest.mark.parametrize(("kind", "number"), [(kind, step[0]) for kind in KINDS for step in steps(kind)])
async def test_a_file_of_each_older_version_is_brought_up_to_date_with_its_rows(
    tmp_path: Path, kind: Kind, number: int
) -> None:
    path = tmp_path / "old.sqlite"
    of_version(path, kind, number)
    before = tables_of(apsw.Connection(str(path)))
    database = await Database.open(path, kind=kind)
    after = await database.read(tables_of)
    schema = "SELECT sql FROM sqlite_schema ORDER BY type, name"
    found = await database.read(lambda connection: list(connection.execute(schema)))
    await database.close()
    fresh = apsw.Connection(str(tmp_path / "fresh.sqlite"))
    migrate(fresh, kind)
    assert found == list(fresh.execute(schema))
    assert [row[0] for row in after["migrations"]] == [step[0] for step in steps(kind)]
    for name in before.keys() - {"migrations"}:
        # Columns are only ever added, behind those that were there.
        assert [row[: len(old)] for row, old in zip(after[name], before[name], strict=True)] == before[name]


async def test_a_file_of_a_newer_version_is_used_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "state_1.sqlite"
    newer = apsw.Connection(str(path))
    migrate(newer, "state")
    newer.execute(
        "INSERT INTO migrations VALUES (999, 'later', 1);"
        "ALTER TABLE agent_jobs ADD COLUMN mood TEXT;"
        "ALTER TABLE agent_job_items ADD COLUMN colour TEXT NOT NULL DEFAULT 'blue';"
        "CREATE TABLE moods (id TEXT PRIMARY KEY) STRICT"
    )
    newer.close()
    database = await Database.open(path, kind="state")
    await database.write(lambda connection: JobStore(connection).create(new_job(), iter(specs(2)), now=5))
    job = database.peek(lambda connection: JobStore(connection).get(JOB))
    assert (job.counts.total, database.peek(version)) == (2, 999)
    await database.close()


async def test_a_migration_that_breaks_leaves_the_file_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "old.sqlite"
    of_version(path, "state", 1)
    connection = apsw.Connection(str(path))
    before = (tables_of(connection), version(connection))
    known = steps("state")
    broken = [*known[:2], (3, "broken", "CREATE TABLE half (id TEXT); CREATE TABLE half (id TEXT)")]
    monkeypatch.setattr("rowcrew.store.migrate.steps", lambda _: broken)
    with pytest.raises(apsw.SQLError):
        migrate(connection, "state")
    assert (tables_of(connection), version(connection)) == before


async def test_what_an_older_version_asks_has_no_known_cost(tmp_path: Path) -> None:
    path = tmp_path / "old.sqlite"
    of_version(path, "state", 3)
    ask = "UPDATE agent_job_totals SET requests = requests + 5, input_tokens = input_tokens + 10"
    apsw.Connection(str(path)).execute(ask)
    database = await Database.open(path, kind="state")
    # It may go on in the newer file.
    await database.write(lambda connection: connection.execute(ask))
    totals = "SELECT * FROM agent_job_totals"
    (row,) = await database.read(lambda connection: mappings(connection.execute(totals)))
    await database.close()
    usage = usage_of(row)
    assert (usage.requests, usage.unpriced_requests, usage.total_cost_nanos) == (10, 10, None)
