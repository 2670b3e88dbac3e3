"""A disk without room, at every moment of a job: nothing lost, a pause that says so, and on it goes."""

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.processes.books import check_books
from tests.processes.program import REPORT, Program

MEGABYTE = 1 << 20
# A result large enough that some hundred of them fill the disk.
FAT = """printf '{"v":"%s","pad":"%040000d"}\\n' "$ROWCREW_ITEM_ID" 0"""


def _mount(folder: Path, *options: str) -> None:
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", ",".join(options), "tmpfs", str(folder)],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        pytest.skip(f"a small disk cannot be mounted here: {done.stderr.strip()}")


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 12 MB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    try:
        _mount(folder, "size=12m")
    except FileNotFoundError:
        pytest.skip("a small disk cannot be mounted here: there is no `mount`")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


@pytest.fixture
def small(program: Program, disk: Path) -> Program:
    """The program with its home on the small disk."""
    program.home = disk / "home"
    return program


def fill(disk: Path) -> None:
    descriptor = os.open(disk / "fill", os.O_WRONLY | os.O_CREAT)
    try:
        for size in (MEGABYTE, 4096, 1):
            with contextlib.suppress(OSError):
                while os.write(descriptor, bytes(size)):
                    pass
    finally:
        os.close(descriptor)


def run(program: Program, rows: int, worker: str, *words: str) -> tuple[str, ...]:
    table = program.table(rows)
    return ("run", table, "-i", "do {text}", "--id-column", "id", "-o", "out.csv", "--worker", worker, *words)


def test_no_room_for_the_rows_leaves_no_job_and_gives_its_room_back(small: Program, disk: Path) -> None:
    outcome = small.call(*run(small, 150_000, small.worker(REPORT)))
    assert outcome.code == 1
    assert outcome.err.startswith("Error: no room on the disk for ")
    assert "Hint: " in outcome.err
    assert small.rows("SELECT count(*) FROM agent_job_items") == [(0,)]
    assert sum(path.stat().st_size for path in small.home.iterdir()) < 5 * MEGABYTE
    assert small.call(*run(small, 5, small.worker(REPORT))).code == 0


def test_no_room_for_results_pauses_and_resume_goes_on(small: Program, disk: Path) -> None:
    outcome = small.call(*run(small, 400, small.worker(FAT), "-j", "8"))
    assert outcome.code == 75
    assert "paused (disk_full)" in outcome.err
    done = small.counts()["completed"]
    assert 50 < done < 400
    assert small.counts() == {"completed": done, "pending": 400 - done}
    assert small.live_workers() == []
    # Without more room it stops again, in good order.
    assert small.call("resume").code == 75
    subprocess.run(["mount", "-o", "remount,size=64m", str(disk)], check=True)
    small.worker(REPORT)
    assert small.call("resume").code == 0
    assert small.counts() == {"completed": 400}
    assert small.rows("SELECT count(*) FROM agent_job_items WHERE last_error IS NOT NULL") == [(0,)]


def test_on_a_full_disk_one_can_still_look_and_nothing_new_begins(small: Program, disk: Path) -> None:
    assert small.call(*run(small, 5, small.worker(REPORT))).code == 0
    fill(disk)
    assert small.call("status").code == 0
    assert len(small.call("list", "--json").out) > 100
    assert small.call("export", "-o", "again.csv").code == 0
    started = len(small.starts())
    paused = small.call("run", "in.csv", "-i", "more {text}", "--worker", small.worker(REPORT))
    assert paused.code == 75
    assert "paused (disk_full)" in paused.err
    assert len(small.starts()) == started
    (disk / "fill").unlink()
    assert small.call("resume").code == 0
    assert small.counts() == {"completed": 10}


def test_no_room_for_the_table_pauses_and_resume_writes_it(program: Program, disk: Path) -> None:
    fill(disk)
    target = disk / "out.csv"
    words = run(program, 30, program.worker(REPORT))
    outcome = program.call(*words[:7], str(target), *words[8:])
    assert outcome.code == 75
    assert "paused (disk_full): 30 of 30 rows completed" in outcome.err
    assert sorted(path.name for path in disk.iterdir()) == ["fill"]
    (disk / "fill").unlink()
    assert program.call("resume").code == 0
    assert len(program.starts()) == 30
    check_books(program, program.job_id(), program.folder / "in.csv", target)
