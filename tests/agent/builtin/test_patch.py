"""apply_patch: what fits, where it fits, and that nothing is written unless all of it does."""

from pathlib import Path
from typing import Any

import pytest

from rowcrew.agent.builtin.patch import fit, parse_patch
from rowcrew.agent.tools import ToolError


def wrap(body: str) -> str:
    return f"*** Begin Patch\n{body}\n*** End Patch"


def patched(text: str, body: str) -> str:
    [change] = parse_patch(wrap(f"*** Update File: f\n{body}"))
    return fit(text, change.hunks, "f")


async def test_a_patch_adds_changes_moves_and_deletes(call: Any, workspace: Path) -> None:
    (workspace / "old.txt").write_text("gone\n", encoding="utf-8")
    result = await call(
        "apply_patch",
        patch=wrap(
            "*** Add File: docs/new.txt\n+first\n+\n+third\n"
            "*** Update File: notes.txt\n@@\n one\n-two\n+2\n three\n"
            "*** Update File: src/app.py\n*** Move to: src/main.py\n@@\n-print('hello')\n+print('bye')\n"
            "*** Delete File: old.txt"
        ),
    )
    assert result.output.splitlines() == [
        "added docs/new.txt",
        "updated notes.txt",
        "moved src/app.py to src/main.py",
        "deleted old.txt",
    ]
    assert [change["kind"] for change in result.details["changes"]] == ["add", "update", "update", "delete"]
    texts = [
        (workspace / name).read_text(encoding="utf-8")
        for name in ("docs/new.txt", "notes.txt", "src/main.py")
    ]
    assert texts == ["first\n\nthird\n", "one\n2\nthree\n", "import os\n\nprint('bye')\n"]
    assert not (workspace / "src" / "app.py").exists()
    assert not (workspace / "old.txt").exists()


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ("*** Update File: notes.txt\n-four\n+4", "these lines are not in 'notes.txt'"),
        ("*** Update File: none.txt\n-four\n+4", "there is no 'none.txt'"),
        ("*** Delete File: none.txt", "there is no 'none.txt'"),
        ("*** Add File: notes.txt\n+x", "'notes.txt' exists already"),
        ("*** Update File: a\n*** Move to: ../b", "is outside the workspace"),
        ("*** Add File: .git/hooks/post-commit\n+x", "`.git` is protected"),
        ("*** Add File: x/../b.txt\n+x\n*** Add File: b.txt\n+y", "may name each file once"),
    ],
)
async def test_nothing_is_written_when_a_part_does_not_fit(
    call: Any, everything: Any, body: str, sentence: str
) -> None:
    before = everything()
    result = await call("apply_patch", patch=wrap(f"*** Add File: first.txt\n+x\n{body}"))
    assert (result.ok, sentence in result.output) == (False, True)
    assert everything() == before


@pytest.mark.parametrize(
    ("patch", "sentence"),
    [
        ("", "begins with the line `*** Begin Patch`"),
        ("*** Begin Patch\n*** Add File: a\n+x", "ends with the line `*** End Patch`"),
        (wrap(""), "line 2 of the patch stands before the first file: ''"),
        ("*** Begin Patch\n*** End Patch", "the patch changes no file"),
        (wrap("*** Update File: a"), "the patch says nothing about 'a'"),
        (wrap("*** Add File: a\nx"), "line 3 of the patch begins with `+` in an added file: 'x'"),
        (wrap("*** Delete File: a\nx"), "line 3 of the patch has no place in a deletion: 'x'"),
        (wrap("*** Update File: a\n@@\nx"), "line 4 of the patch must begin with a space, `-` or `+`: 'x'"),
    ],
)
def test_a_patch_that_is_none_is_refused_with_its_line(patch: str, sentence: str) -> None:
    with pytest.raises(ToolError) as refused:
        parse_patch(patch)
    assert sentence in str(refused.value)


def test_an_anchor_says_which_of_two_equal_places_is_meant() -> None:
    text = "def a():\n    pass\ndef b():\n    pass\n"
    assert (
        patched(text, "@@ def b():\n-    pass\n+    return 1")
        == "def a():\n    pass\ndef b():\n    return 1\n"
    )


def test_hunks_apply_in_order_and_the_second_looks_below_the_first() -> None:
    assert patched("x\nx\nx\n", "@@\n-x\n+1\n@@\n-x\n+2") == "1\n2\nx\n"


def test_end_of_file_means_the_last_place() -> None:
    assert patched("x\ny\nx\n", "@@\n-x\n+z\n*** End of File") == "x\ny\nz\n"


def test_only_new_lines_go_below_the_anchor_or_to_the_end() -> None:
    assert patched("a\nb\n", "@@ a\n+new") == "a\nnew\nb\n"
    assert patched("a\nb\n", "@@\n+new") == "a\nb\nnew\n"
    assert patched("", "@@\n+new") == "new\n"


def test_lines_that_differ_in_blanks_are_found_and_those_that_stay_keep_theirs() -> None:
    assert patched("\tif x:  \n\t\tgo()\n", "@@\n if x:\n-go()\n+\t\tstop()") == "\tif x:  \n\t\tstop()\n"


def test_line_ends_are_kept_as_the_file_has_them() -> None:
    assert patched("a\r\nb\r\n", "@@\n-a\n+c") == "c\r\nb\r\n"
    assert patched("a\nb", "@@\n-a\n+c") == "c\nb\n"
    assert patched("a\n", "@@\n-a") == ""
