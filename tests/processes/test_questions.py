"""What `rowcrew rm` asks on a terminal, and what each answer does."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.processes.program import PATIENCE

ROWCREW = [sys.executable, "-m", "rowcrew"]
PROMPT = b"of them completed? [y/N]: "


def answered(folder: Path, answer: Callable[["subprocess.Popen[bytes]", int], None]) -> tuple[int, str]:
    """Call `rm` on a terminal and answer when it has asked. The exit code, and what it said then."""
    (folder / "in.csv").write_text("id\n1\n")
    made = [*ROWCREW, "run", "in.csv", "-i", "x", "--worker", "command:echo {}", "-o", "out.csv", "--json"]
    job_id = subprocess.run(made, cwd=folder, capture_output=True, check=True).stdout.split(b'"')[7].decode()
    ours, theirs = os.openpty()
    asking = subprocess.Popen(
        [*ROWCREW, "rm", job_id], cwd=folder, stdin=theirs, stderr=subprocess.PIPE, start_new_session=True
    )
    try:
        assert asking.stderr is not None
        said = b""
        while not said.endswith(PROMPT):
            piece = os.read(asking.stderr.fileno(), 4096)
            assert piece, said
            said += piece
        answer(asking, ours)
        _, rest = asking.communicate(timeout=PATIENCE)
    finally:
        asking.kill()
        os.close(ours)
        os.close(theirs)
    left = subprocess.run([*ROWCREW, "status", job_id], cwd=folder, capture_output=True, check=False)
    assert (left.returncode == 0) == (asking.returncode != 0)
    return asking.returncode, rest.decode().strip()


def typed(keys: bytes) -> Callable[["subprocess.Popen[bytes]", int], None]:
    def answer(_: "subprocess.Popen[bytes]", terminal: int) -> None:
        os.write(terminal, keys)

    return answer


def test_yes_deletes(tmp_path: Path) -> None:
    code, said = answered(tmp_path, typed(b"y\n"))
    assert (code, said.startswith("Deleted job ")) == (0, True)


@pytest.mark.parametrize("keys", [b"n\n", b"\n", b"what?\n", b"\x04"])
def test_no_deletes_nothing(tmp_path: Path, keys: bytes) -> None:
    assert answered(tmp_path, typed(keys)) == (
        1,
        "Nothing was deleted. Without being asked: rowcrew rm --yes JOB",
    )


def test_one_interrupt_is_enough(tmp_path: Path) -> None:
    assert answered(tmp_path, lambda asking, _: asking.send_signal(signal.SIGINT)) == (
        130,
        "Interrupted. `rowcrew status` shows where the jobs stand.",
    )
