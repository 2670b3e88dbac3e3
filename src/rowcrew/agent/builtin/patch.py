"""The apply_patch tool: the `*** Begin Patch` format. It writes nothing before all of a patch is checked."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from rowcrew.agent.builtin.files import read_bytes, remove_file, write_bytes
from rowcrew.agent.builtin.sandbox import Sandbox
from rowcrew.agent.tools import Arguments, Tool, ToolError, ToolResult
from rowcrew.domain.events import TurnItemKind

BEGIN, END = "*** Begin Patch", "*** End Patch"
ADD, DELETE, UPDATE = "*** Add File: ", "*** Delete File: ", "*** Update File: "
MOVE, END_OF_FILE = "*** Move to: ", "*** End of File"

FORMAT = """Change files with a patch, for example:
*** Begin Patch
*** Add File: notes/new.txt
+each line of the new file begins with a plus
*** Update File: src/app.py
@@ def greet():
 a line that stays begins with a space
-a line that goes
+a line that comes
*** Delete File: old.txt
*** End Patch
Paths are from the workspace. Give about three unchanged lines around each change; `@@` with a line of the \
file above the change says where to look. `*** Move to: PATH` below an Update line renames the file. Nothing \
is written unless the whole patch fits."""


@dataclass(slots=True)
class Hunk:
    """A run of lines, each with its mark: a space for one that stays, `-` that goes, `+` that comes."""

    anchors: list[str] = field(default_factory=list)
    lines: list[tuple[str, str]] = field(default_factory=list)
    at_end: bool = False

    @property
    def old(self) -> list[str]:
        return [text for mark, text in self.lines if mark != "+"]

    def replace(self, found: Sequence[str]) -> list[str]:
        """What stands in place of the lines found; those that stay keep the exact text of the file."""
        left = iter(found)
        new = []
        for mark, text in self.lines:
            if mark == "+":
                new.append(text)
            elif mark == "-":
                next(left)
            else:
                new.append(next(left))
        return new


@dataclass(slots=True)
class Change:
    """What a patch does to one file. `lines` is the content of an added one."""

    kind: str
    path: str
    lines: list[str] = field(default_factory=list)
    hunks: list[Hunk] = field(default_factory=list)
    move_to: str | None = None


def apply_patch_tool(sandbox: Sandbox) -> Tool:
    """Adds, changes, renames and deletes files of the workspace."""

    async def run(arguments: Arguments) -> ToolResult:
        changes = parse_patch(arguments["patch"])
        told = await asyncio.to_thread(_apply, sandbox, changes)
        shown = [
            {"path": change.path, "kind": change.kind, "diff": arguments["patch"] if number == 0 else ""}
            for number, change in enumerate(changes)
        ]
        return ToolResult("\n".join(told), details={"changes": shown})

    return Tool(
        "apply_patch",
        FORMAT,
        {
            "type": "object",
            "properties": {"patch": {"type": "string", "description": "The whole patch."}},
            "required": ["patch"],
            "additionalProperties": False,
        },
        run,
        item_kind=TurnItemKind.FILE_CHANGE,
    )


def parse_patch(text: str) -> list[Change]:
    """The changes of a patch. ToolError that names the line which does not fit."""
    lines = [line.removesuffix("\r") for line in text.strip().split("\n")]
    if not lines or lines[0].strip() != BEGIN or lines[-1].strip() != END:
        raise ToolError(f"a patch begins with the line `{BEGIN}` and ends with the line `{END}`")
    changes: list[Change] = []
    for number, line in enumerate(lines[1:-1], start=2):
        if (change := _opened(line)) is not None:
            changes.append(change)
        elif not changes:
            raise ToolError(f"line {number} of the patch stands before the first file: {line!r}")
        else:
            _take(changes[-1], line, number)
    if not changes:
        raise ToolError("the patch changes no file")
    for change in changes:
        if change.kind == "update" and not change.hunks and change.move_to is None:
            raise ToolError(f"the patch says nothing about {change.path!r}")
    return changes


def _opened(line: str) -> Change | None:
    for start, kind in ((ADD, "add"), (DELETE, "delete"), (UPDATE, "update")):
        if line.startswith(start) and line[len(start) :].strip():
            return Change(kind, line[len(start) :].strip())
    return None


def _take(change: Change, line: str, number: int) -> None:
    """One line of a file's part of the patch."""
    if change.kind == "add" and line.startswith("+"):
        change.lines.append(line[1:])
    elif change.kind == "update":
        _take_update(change, line, number)
    else:
        wanted = "begins with `+` in an added file" if change.kind == "add" else "has no place in a deletion"
        raise ToolError(f"line {number} of the patch {wanted}: {line!r}")


def _take_update(change: Change, line: str, number: int) -> None:
    if line.startswith(MOVE) and not change.hunks:
        change.move_to = line[len(MOVE) :].strip()
        return
    if line.startswith("@@"):
        anchor = line[2:].strip()
        if not change.hunks or change.hunks[-1].lines:
            change.hunks.append(Hunk())
        if anchor:
            change.hunks[-1].anchors.append(anchor)
        return
    if not change.hunks:
        change.hunks.append(Hunk())
    hunk = change.hunks[-1]
    if line.startswith(END_OF_FILE):
        hunk.at_end = True
        return
    mark, text = line[:1], line[1:]
    if mark not in ("", " ", "-", "+"):
        raise ToolError(f"line {number} of the patch must begin with a space, `-` or `+`: {line!r}")
    hunk.lines.append((mark or " ", text))


def _apply(sandbox: Sandbox, changes: Sequence[Change]) -> list[str]:
    paths = [path for change in changes for path in (change.path, change.move_to) if path]
    real = [sandbox.resolve_for_write(path) for path in paths]
    if len(set(real)) != len(real):
        raise ToolError("a patch may name each file once")
    # Everything is read and fitted before the first write.
    ready = [(change, _content(sandbox, change)) for change in changes]
    for change in changes:
        target = change.move_to or (change.path if change.kind == "add" else None)
        if target is not None and sandbox.resolve(target).exists():
            raise ToolError(f"{target!r} exists already; update it, or delete it first")
    return [_carry_out(sandbox, change, content) for change, content in ready]


def _content(sandbox: Sandbox, change: Change) -> bytes:
    if change.kind == "add":
        return "".join(f"{line}\n" for line in change.lines).encode("utf-8", "replace")
    data = read_bytes(sandbox, change.path)
    if change.kind == "delete":
        return b""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        raise ToolError(f"{change.path!r} is not a UTF-8 text file") from None
    return fit(text, change.hunks, change.path).encode("utf-8")


def _carry_out(sandbox: Sandbox, change: Change, content: bytes) -> str:
    if change.kind == "delete":
        remove_file(sandbox, change.path)
        return f"deleted {change.path}"
    write_bytes(sandbox, change.move_to or change.path, content)
    if change.move_to is not None:
        remove_file(sandbox, change.path)
        return f"moved {change.path} to {change.move_to}"
    return f"{'added' if change.kind == 'add' else 'updated'} {change.path}"


def fit(text: str, hunks: Sequence[Hunk], path: str) -> str:
    """The text with all hunks applied in order. ToolError that shows the lines that were not found."""
    ending = "\r\n" if "\r\n" in text and text.count("\r\n") == text.count("\n") else "\n"
    lines = text.split(ending)
    closed = lines[-1] == ""
    if closed:
        lines.pop()
    place = 0
    for hunk in hunks:
        for anchor in hunk.anchors:
            place = _find(lines, [anchor], place, whole=False, path=path) + 1
        old = hunk.old
        if not old:
            # Only new lines: below the anchor, or at the end of the file.
            start = place if hunk.anchors and not hunk.at_end else len(lines)
        elif hunk.at_end and len(old) <= len(lines):
            start = _find(lines, old, max(place, len(lines) - len(old)), path=path)
        else:
            start = _find(lines, old, place, path=path)
        new = hunk.replace(lines[start : start + len(old)])
        lines[start : start + len(old)] = new
        place = start + len(new)
    if not lines:
        return ""
    # A file without a last line end gets one, unless nothing was changed.
    return ending.join(lines) + (ending if closed or hunks else "")


def _find(lines: list[str], wanted: list[str], start: int, *, path: str, whole: bool = True) -> int:
    """Where the wanted lines stand: exactly, else but for blanks at their ends, else but for outer blanks."""
    for reading in (str, str.rstrip, str.strip):
        seek = [reading(line) for line in wanted]
        for place in range(start, len(lines) - len(wanted) + 1):
            seen = [reading(line) for line in lines[place : place + len(wanted)]]
            if seen == seek or (not whole and seek[0] and seek[0] in seen[0]):
                return place
    shown = "\n".join(wanted[:5]) + ("\n…" if len(wanted) > 5 else "")
    raise ToolError(f"these lines are not in {path!r} as the patch has them; read the file again:\n{shown}")
