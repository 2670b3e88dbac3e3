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


def test_json_lines_have_no_byte_order_mark(job: Job, items: list[JobItem], tmp_path: Path) -> None:
    target = tmp_path / "out.jsonl"
    write(job, items, target, output_format="jsonl", bom=True)
    assert target.read_bytes().startswith(b'{"id":')


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
    ("target", "why"),
    [
        ("missing/out.csv", "does not exist"),
        ("folder", "is a folder"),
        ("x" * 300, "cannot be written: File name too long"),
        (f"{'x' * 300}/out.csv", "cannot be written: File name too long"),
        ("a\0b/out.csv", "does not exist"),
    ],
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


def test_the_input_is_not_written_to_when_it_is_gone_either(
    job: Job, items: list[JobItem], tmp_path: Path
) -> None:
    (tmp_path / "in.csv").unlink()
    with pytest.raises(InvalidRequest, match="is the input file itself"):
        write(job, items, tmp_path / "in.csv", force=True)


def test_what_is_no_file_is_never_replaced(job: Job, items: list[JobItem], tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for target in (tmp_path / "pipe", Path("/dev/null")):
        with pytest.raises(InvalidRequest, match="is not a file"):
            check_target(target, Path(job.input_path), force=True)


def test_a_link_that_leads_nowhere_is_only_replaced_on_request(
    job: Job, items: list[JobItem], tmp_path: Path
) -> None:
    target = tmp_path / "round"
    target.symlink_to("round")
    with pytest.raises(InvalidRequest, match="exists already"):
        write(job, items, target)
    assert write(job, items, target, force=True).row_count == 3
    (tmp_path / "lost").symlink_to("missing/out.csv")
    with pytest.raises(InvalidRequest, match="cannot write"):
        write(job, items, tmp_path / "lost", force=True)
    assert leftovers(tmp_path) == []


def test_a_file_that_comes_to_be_there_meanwhile_is_not_lost(
    job: Job, items: list[JobItem], tmp_path: Path
) -> None:
    target = tmp_path / "out.csv"

    def rows() -> Iterator[JobItem]:
        yield from items
        target.write_text("another's")

    with pytest.raises(InvalidRequest, match="exists already"):
        write(job, rows(), target)
    assert (target.read_text(), leftovers(tmp_path)) == ("another's", [])


def test_a_link_stays_a_link_and_a_file_keeps_its_mode(
    job: Job, items: list[JobItem], tmp_path: Path
) -> None:
    (tmp_path / "real.csv").write_text("old")
    (tmp_path / "real.csv").chmod(0o600)
    (tmp_path / "link.csv").symlink_to("real.csv")
    write(job, items, tmp_path / "link.csv", force=True)
    assert (tmp_path / "link.csv").is_symlink()
    assert (tmp_path / "real.csv").read_text().startswith("id,text,")
    assert (tmp_path / "real.csv").stat().st_mode & 0o777 == 0o600


def test_a_name_as_long_as_names_can_be_is_written(job: Job, items: list[JobItem], tmp_path: Path) -> None:
    target = tmp_path / f"{'n' * 251}.csv"
    assert write(job, items, target) == ExportResult(target, 3)


def test_what_a_killed_export_left_is_swept_and_what_a_live_one_writes_is_not(
    job: Job, items: list[JobItem], tmp_path: Path
) -> None:
    (tmp_path / f".rowcrew-{JOB[:8]}-1-1.part").write_text("of a process that is gone")
    (tmp_path / ".rowcrew-another0-1-1.part").write_text("of another job")

    def rows() -> Iterator[JobItem]:
        yield items[0]
        write(job, items, tmp_path / "second.csv")
        yield from items[1:]

    write(job, rows(), tmp_path / "first.csv")
    assert (tmp_path / "first.csv").read_text() == (tmp_path / "second.csv").read_text()
    assert leftovers(tmp_path) == [".rowcrew-another0-1-1.part"]


def test_a_lone_surrogate_in_the_store_costs_one_character(
    job: Job, items: list[JobItem], tmp_path: Path
) -> None:
    odd = replace(items[0], row={"id": "\ud800", "text": ""})
    for output_format in ("csv", "jsonl"):
        target = tmp_path / f"out.{output_format}"
        write(job, [odd], target, output_format=output_format)
        assert "\ufffd" in target.read_text("utf-8")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "closed").mkdir(mode=0o500)
    with pytest.raises(InvalidRequest, match="cannot be written"):
        check_target(tmp_path / "closed" / "out.csv", tmp_path / "in.csv", force=False)
