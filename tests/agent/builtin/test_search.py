"""search_files: what is found, and that no pattern can hold the program up."""

from pathlib import Path
from typing import Any

import pytest


async def test_lines_are_found_by_pattern_in_files_of_the_workspace_only(call: Any, workspace: Path) -> None:
    (workspace / ".git" / "x").write_text("hello\n", encoding="utf-8")
    (workspace / "b.bin").write_bytes(b"hello\0")
    (workspace / "Z.txt").write_text("Hello\n  hello again\n", encoding="utf-8")
    assert (await call("search_files", pattern="hel+o")).output.splitlines() == [
        "Z.txt:2: hello again",
        "src/app.py:3: print('hello')",
    ]
    loose = await call("search_files", pattern="HELLO", ignore_case=True, glob="*.txt")
    assert loose.output.splitlines() == ["Z.txt:1: Hello", "Z.txt:2: hello again"]
    assert (await call("search_files", pattern="secret")).output == "[nothing found]"


async def test_one_file_or_one_folder_can_be_searched(call: Any) -> None:
    assert (
        await call("search_files", pattern="t", path="notes.txt")
    ).output == "notes.txt:2: two\nnotes.txt:3: three"
    assert (await call("search_files", pattern="os", path="src")).output == "src/app.py:1: import os"
    assert (await call("search_files", pattern="x", path="none")).output == "there is no 'none'"


async def test_findings_are_bounded(call: Any, workspace: Path) -> None:
    (workspace / "many.txt").write_text("x\n" * 500, encoding="utf-8")
    lines = (await call("search_files", pattern="x")).output.splitlines()
    assert (len(lines), lines[-1]) == (
        201,
        "[only the first 200; narrow the pattern, the path or the glob]",
    )


async def test_a_pattern_that_is_none_is_answered(call: Any) -> None:
    result = await call("search_files", pattern="(")
    assert (result.ok, result.output.startswith("the pattern is not a regular expression: ")) == (False, True)


async def test_a_pattern_that_never_comes_to_an_end_is_ended(
    call: Any, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rowcrew.agent.builtin.search.SEARCH_SECONDS", 1.0)
    (workspace / "a.txt").write_text("aab\n" + "a" * 64 + "!\n", encoding="utf-8")
    result = await call("search_files", pattern="^(a+)+b?$|aab", path="a.txt")
    assert result.output == (
        "a.txt:1: aab\n[the search was ended before it was done; use a simpler pattern or a smaller folder]"
    )
