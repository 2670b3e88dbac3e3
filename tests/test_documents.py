"""The pages say what is true: their examples run, their links lead somewhere. It tests no feature.

How an example is written, in README.md and docs/guide/*.md. The blocks of a page run in order, in one folder
that is empty at first:

- a language and a file name (```csv people.csv) write that file;
- ```console runs each line that begins with `$ ` in a shell. The lines below it are its whole output, with
  standard error; `…` stands for any text within a line, and a line that is `…` alone for any lines. A command
  without lines below it may print what it likes. A command has to end with 0, unless the next is `$ echo $?`;
- ```python runs as a program; a ```text block right below it is its whole output;
- any other block is only shown.
"""

import itertools
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from rowcrew.cli.main import VERBS
from rowcrew.cli.run import run
from rowcrew.errors import ErrorClass
from rowcrew.setting_kinds import KINDS

ROOT = Path(__file__).resolve().parent.parent
GUIDE = sorted((ROOT / "docs" / "guide").glob("*.md"))
PAGES = sorted({*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")})
DECISIONS = sorted((ROOT / "docs" / "decisions").glob("0*.md"))

FENCE = re.compile(
    r"^```(?P<language>[a-z]+)(?: (?P<file>\S+))?\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL
)
LINK = re.compile(r"\[[^\]]*\]\((?P<target>[^)\s]+)\)")


@dataclass(frozen=True)
class Block:
    """One fenced block: where it begins, what it is, what it holds."""

    line: int
    language: str
    file: str | None
    body: str


def blocks_of(text: str) -> list[Block]:
    return [
        Block(text.count("\n", 0, found.start()) + 1, found["language"], found["file"], found["body"])
        for found in FENCE.finditer(text)
    ]


def commands_of(body: str) -> Iterator[tuple[str, list[str]]]:
    """Each command of a console block with the output that the page shows for it."""
    command: str | None = None
    output: list[str] = []
    for line in body.splitlines():
        if line.startswith("$ "):
            if command is not None:
                yield command, output
            command, output = line.removeprefix("$ "), []
        elif command is not None and command.endswith("\\") and not output:
            command = f"{command}\n{line}"
        else:
            output.append(line)
    if command is not None:
        yield command, output


def pattern_of(lines: list[str]) -> re.Pattern[str]:
    """What the lines of a page accept as output."""
    parts = [
        r"(?:.*\n)*?" if line == "…" else "[^\n]*".join(map(re.escape, line.split("…"))) + "\n"
        for line in lines
    ]
    return re.compile("".join(parts))


class Page:
    """The examples of one page, run in one folder."""

    def __init__(self, path: Path, folder: Path) -> None:
        self._path = path
        self._folder = folder
        scripts = str(Path(sys.executable).parent)
        self._environment = {
            **os.environ,
            "PATH": os.pathsep.join([scripts, os.environ["PATH"]]),
            "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(folder)]),
            "NO_COLOR": "1",
            "COLUMNS": "110",
        }

    def run(self) -> None:
        blocks = blocks_of(self._path.read_text(encoding="utf-8"))
        for block, after in itertools.zip_longest(blocks, blocks[1:]):
            if block.file:
                (self._folder / block.file).write_text(block.body, encoding="utf-8")
            elif block.language == "console":
                self._console(block)
            elif block.language == "python":
                expected = after.body.splitlines() if after and after.language == "text" else []
                self._compare(block, self._call([sys.executable, "-c", block.body]), expected)

    def _console(self, block: Block) -> None:
        code = 0
        commands = list(commands_of(block.body))
        for number, (command, output) in enumerate(commands):
            done = self._call(["sh", "-c", f"(exit {code})\n{command}"])
            code = done.returncode
            following = commands[number + 1][0] if number + 1 < len(commands) else ""
            self._compare(block, done, output, may_fail=following == "echo $?")

    def _call(self, arguments: list[str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            arguments,
            cwd=self._folder,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            timeout=120,
            check=False,
        )

    def _compare(
        self,
        block: Block,
        done: subprocess.CompletedProcess[str],
        output: list[str],
        *,
        may_fail: bool = False,
    ) -> None:
        place = f"{self._path.relative_to(ROOT)}:{block.line}: {done.args[-1]}\n{done.stdout}"
        assert may_fail or done.returncode == 0, f"exit code {done.returncode} of {place}"
        if output:
            assert pattern_of(output).fullmatch(done.stdout), f"expected {output} from {place}"


@pytest.mark.parametrize(
    "path", [ROOT / "README.md", *GUIDE], ids=lambda path: path.relative_to(ROOT).as_posix()
)
def test_the_examples_of_a_page_do_what_the_page_says(path: Path, tmp_path: Path) -> None:
    folder = tmp_path / "page"
    folder.mkdir()
    Page(path, folder).run()


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_a_link_leads_somewhere(path: Path) -> None:
    broken = []
    for found in LINK.finditer(FENCE.sub("", path.read_text(encoding="utf-8"))):
        target, _, anchor = found["target"].partition("#")
        if target.startswith(("http:", "https:")):
            continue
        aim = (path.parent / target).resolve() if target else path
        if not aim.exists() or (anchor and anchor not in _anchors(aim)):
            broken.append(found["target"])
    assert broken == []


def _anchors(path: Path) -> set[str]:
    headings = re.findall(r"^#+ (.*)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("path", DECISIONS, ids=lambda path: path.stem)
def test_a_decision_says_what_why_and_what_was_rejected(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    found = re.findall(r"^\*\*(.*?)\.\*\*", text, re.MULTILINE)
    assert found == ["Decision", "Why", "Rejected", "What follows"]
    assert text.startswith(f"# {int(path.name[:4])}. ")
    assert f"({path.name})" in (path.parent / "README.md").read_text(encoding="utf-8")


def test_every_test_that_shows_a_guarantee_is_there() -> None:
    text = (ROOT / "docs" / "guarantees.md").read_text(encoding="utf-8")
    named = re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", text)
    missing = [
        f"{path}::{name}"
        for path, name in named
        if not (ROOT / path).is_file()
        or (name and f"def {name}(" not in (ROOT / path).read_text(encoding="utf-8"))
    ]
    assert (len(named) > 30, missing) == (True, [])
    promises = [line for line in text.splitlines() if line.startswith("| ") and "| shown by |" not in line]
    assert [line for line in promises if "`tests/" not in line.split("|")[3]] == []


def test_the_guide_names_every_error_class() -> None:
    text = (ROOT / "docs" / "guide" / "running-and-resuming.md").read_text(encoding="utf-8")
    assert [name for name in ErrorClass if f"`{name}`" not in text] == []


def test_the_guide_names_every_setting_and_its_variable() -> None:
    text = (ROOT / "docs" / "guide" / "settings.md").read_text(encoding="utf-8")
    keys = [".".join(path).replace("*", "NAME") for path in KINDS]
    variables = [f"ROWCREW_{'_'.join(path).upper()}" for path in KINDS if "*" not in path]
    assert [name for name in (*keys, *variables) if f"`{name}`" not in text] == []


def test_the_guide_names_every_verb_and_every_option_of_run() -> None:
    text = "".join(page.read_text(encoding="utf-8") for page in GUIDE)
    verbs = [verb for verb in VERBS if f"rowcrew {verb}" not in text]
    options = [name for option in run.params for name in option.opts if name.startswith("--")]
    assert (verbs, [name for name in options if name not in text]) == ([], [])


def test_every_page_of_the_guide_is_linked_from_its_first_page() -> None:
    index = (ROOT / "docs" / "guide" / "README.md").read_text(encoding="utf-8")
    assert [page.name for page in GUIDE if page.name != "README.md" and f"({page.name})" not in index] == []


# -- the reader of examples itself ------------------------------------------------------------------------


def test_blocks_are_found_with_their_language_file_and_line() -> None:
    text = "one\n\n```csv a.csv\nx\n```\n\n```console\n$ cat a.csv\nx\n```\n"
    assert blocks_of(text) == [Block(3, "csv", "a.csv", "x\n"), Block(7, "console", None, "$ cat a.csv\nx\n")]


def test_a_command_may_go_on_over_lines_and_has_its_own_output() -> None:
    body = "$ one \\\n    two\nout\n\nput\n$ echo $?\n2\n"
    assert list(commands_of(body)) == [("one \\\n    two", ["out", "", "put"]), ("echo $?", ["2"])]


@pytest.mark.parametrize(
    ("lines", "output", "accepted"),
    [
        (["a … c"], "a b c\n", True),
        (["a … c"], "a b\nc\n", False),
        (["a.c"], "abc\n", False),
        (["…", "end"], "one\ntwo\nend\n", True),
        (["…", "end"], "end\n", True),
        (["…", "end"], "end\nmore\n", False),
        (["one"], "one\ntwo\n", False),
    ],
)
def test_output_is_compared_whole(lines: list[str], output: str, accepted: bool) -> None:
    assert bool(pattern_of(lines).fullmatch(output)) is accepted


def test_a_wrong_example_is_noticed(tmp_path: Path) -> None:
    page = ROOT / "tests" / "data" / "documents" / "wrong.md"
    with pytest.raises(AssertionError, match=r"(?s)wrong\.md:3: .*echo two"):
        Page(page, tmp_path).run()


def test_a_failing_command_is_noticed_unless_its_code_is_shown(tmp_path: Path) -> None:
    Page(ROOT / "tests" / "data" / "documents" / "code.md", tmp_path).run()
    with pytest.raises(AssertionError, match="exit code 3"):
        Page(ROOT / "tests" / "data" / "documents" / "failing.md", tmp_path).run()
