"""Writing a table: the old file or the new, never half of one, never the input."""

import csv
import errno
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rowcrew.domain.item import JobItem
from rowcrew.domain.job import Job
from rowcrew.errors import DiskFull, InvalidRequest
from rowcrew.scheduler.exporter import ExportResult, check_target, default_target, write_table
from tests.store.job_store import JOB, open_store

SCHEMA = {"type": "object", "properties": {"v": {"type": "string"}}}


@pytest.fixture
async def job(tmp_path: Path) -> Job:
    (tmp_path / "in.csv").write_text("id,text\n")
    async with open_store(tmp_path) as store:
        await store.create(3, input_path=str(tmp_path / "in.csv"), output_schema=SCHEMA)
        return await store.jobs(lambda jobs: jobs.get(JOB))


@pytest.fixture
async def items(job: Job, tmp_path: Path) -> list[JobItem]:
    async with open_store(tmp_path) as store:
        return await store.items(lambda items: list(items.iterate(JOB)))


def write(job: Job, items: Any, target: Path, **changes: Any) -> ExportResult:
    options: dict[str, Any] = {
        "force": False,
        "expand": True,
        "raw": False,
        "bom": False,
        "output_format": "csv",
    }
    return write_table(job, items, target, **{**options, **changes})


def leftovers(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir() if path.name.endswith(".part")]


def test_a_table_has_every_row_in_order(job: Job, items: list[JobItem], tmp_path: Path) -> None:
    target = tmp_path / "out.csv"
    assert write(job, items, target) == ExportResult(target, 3)
    with target.open(newline="") as file:
        header, *rows = csv.reader(file)
    assert header[-1] == "result.v"
    assert [row[0] for row in rows] == ["r0", "r1", "r2"]
    assert leftovers(tmp_path) == []


def test_a_byte_order_mark_and_no_expansion_on_request(
    job: Job, items: list[JobItem], tmp_path: Path
) -> None:
    target = tmp_path / "out.csv"
    write(job, items, target, bom=True, expand=False)
    content = target.read_bytes()
    assert content.startswith(b"\xef\xbb\xbfid,text,job_id")
    assert b"result.v" not in content


def test_json_lines(job: Job, items: list[JobItem], tmp_path: Path) -> None:
    target = tmp_path / "out.jsonl"
    write(job, items, target, output_format="jsonl")
    assert [line[:11] for line in target.read_text("utf-8").splitlines()] == [
        '{"id":"r0",',
        '{"id":"r1",',
        '{"id":"r2",',
    ]


def test_the_input_is_never_the_output_also_through_links(
    job: Job, items: list[JobItem], tmp_path: Path
) -> None:
    source = tmp_path / "in.csv"
    (tmp_path / "soft.csv").symlink_to(source)
    os.link(source, tmp_path / "hard.csv")
    for name in ("in.csv", "soft.csv", "hard.csv"):
        with pytest.raises(InvalidRequest, match="is the input file itself"):
            write(job, items, tmp_path / name, force=True)
    assert source.read_text() == "id,text\n"


def test_another_file_is_only_replaced_on_request(job: Job, items: list[JobItem], tmp_path: Path) -> None:
    target = tmp_path / "out.csv"
    target.write_text("mine")
    with pytest.raises(InvalidRequest, match="exists already"):
        write(job, items, target)
    assert target.read_text() == "mine"
    write(job, items, target, force=True)
    assert target.read_text().startswith("id,text,")


def test_a_failure_midway_leaves_the_old_file_and_no_part(
    job: Job, items: list[JobItem], tmp_path: Path
) -> None:
    def fails() -> Iterator[JobItem]:
        yield items[0]
        raise OSError(errno.ENOSPC, "No space left on device")

    target = tmp_path / "out.csv"
    target.write_text("old")
    with pytest.raises(DiskFull):
        write(job, fails(), target, force=True)
    assert (target.read_text(), leftovers(tmp_path)) == ("old", [])


@pytest.mark.parametrize(
    ("target", "why"), [("missing/out.csv", "does not exist"), ("folder", "is a folder")]
)
def test_a_target_that_cannot_be_written_is_refused(tmp_path: Path, target: str, why: str) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(InvalidRequest, match=why):
        check_target(tmp_path / target, tmp_path / "in.csv", force=True)


def test_the_default_target_stands_beside_the_input() -> None:
    assert default_target(Path("/a/b.c.csv"), "12345678-9", "csv") == Path("/a/b.c.agent-job-12345678.csv")
    assert default_target(Path("/a/x.tsv"), "12345678-9", "jsonl") == Path("/a/x.agent-job-12345678.jsonl")


def test_odd_text_of_workers_never_stops_the_writer(job: Job, items: list[JobItem], tmp_path: Path) -> None:
    odd = replace(items[0], result_json='{"v":"\\ud800 \\u0000 \\u2028"}', last_error="\ufffd")
    target = tmp_path / "out.csv"
    write(job, [odd], target)
    assert "\ufffd" in target.read_text("utf-8")
