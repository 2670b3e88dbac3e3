"""Writing: JSON in UTF-8, no obeyed control characters, no noise about readers that have gone."""

import subprocess
import sys
from pathlib import Path

import pytest

from rowcrew.cli.terminal import claimed_output, one_line, printable, show, show_json


def test_control_characters_are_shown_and_not_obeyed() -> None:
    assert printable("a\x1b[31mb\x07c\r\u202ed\te\nf\x9b") == "a\\x1b[31mb\\x07c\\x0d\\x202ed\te\nf\\x9b"


def test_one_line_is_one_line_and_no_longer_than_asked() -> None:
    assert one_line("a\n\n b\tc") == "a b c"
    assert one_line("x" * 300) == "x" * 199 + "…"


def test_json_is_utf8_and_survives_names_that_are_no_text(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    show_json({"path": "ü\udcff"})
    assert capfdbinary.readouterr().out == b'{"path": "\xc3\xbc\\udcff"}\n'


def run(code: str, shell: str) -> subprocess.CompletedProcess[str]:
    program = f"from rowcrew.cli.terminal import claimed_output, say, show\n{code}"
    return subprocess.run(
        ["sh", "-c", f'"$0" -c "$1" {shell}', sys.executable, program],
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_reader_that_has_gone_is_no_error() -> None:
    done = run("for n in range(100000): show(str(n))\nsay('done')", "| head -n 1")
    assert (done.stdout, done.stderr) == ("0\n", "done\n")


def test_standard_error_may_be_gone_too() -> None:
    done = run("for n in range(100000): say(str(n))\nshow('done')", "2>&1 >/dev/null | head -n 1")
    assert (done.stdout, done.stderr) == ("0\n", "")


def test_closed_streams_are_no_error() -> None:
    assert run("say('x')\nshow('y')", ">&- 2>&-").returncode == 0


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&-", "<&- >&- 2>&-"])
def test_a_run_whose_streams_are_closed_is_a_run(tmp_path: Path, closed: str) -> None:
    (tmp_path / "in.csv").write_text("id\n1\n")
    command = f"""exec "$0" -m rowcrew run in.csv -i x --worker 'command:echo {{}}' -o out.csv {closed}"""
    done = subprocess.run(
        ["sh", "-c", command, sys.executable], cwd=tmp_path, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out.csv").read_text().count("completed,1,,{}") == 1


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no device that is always full")
def test_help_that_cannot_be_written_is_no_fault_of_ours() -> None:
    command = 'exec "$0" -m rowcrew --help >/dev/full'
    done = subprocess.run(["sh", "-c", command, sys.executable], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.splitlines()[0]) == (1, "Error: [Errno 28] No space left on device")


PRINTS_EVERYWHERE = """
import os, subprocess, sys
with claimed_output():
    print("python")
    os.write(1, b"descriptor\\n")
    subprocess.run(["echo", "child"])
    show("ours")
    sys.stdout.close()
    show("ours still")
show("after")
print("python after")
"""


def test_while_standard_output_is_claimed_only_our_lines_are_on_it() -> None:
    done = run(PRINTS_EVERYWHERE, "")
    assert (done.stdout, done.stderr) == (
        "ours\nours still\nafter\npython after\n",
        "python\ndescriptor\nchild\n",
    )


def test_a_claim_holds_where_streams_are_closed_or_their_reader_has_gone() -> None:
    claim = "with claimed_output():\n  for n in range(100000): show(str(n))\n  print('lost')\nsay('done')"
    assert run(claim, "| head -n 1").stdout == "0\n"
    assert [run(claim, closed).returncode for closed in (">&-", "2>&-", ">&- 2>&-")] == [0, 0, 0]


def test_a_claim_holds_where_standard_output_is_no_file(capsys: pytest.CaptureFixture[str]) -> None:
    with claimed_output():
        print("python")
        show("ours")
    print("after")
    assert capsys.readouterr() == ("ours\nafter\n", "python\n")
