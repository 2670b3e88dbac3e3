"""The search itself, in a process of its own: a pattern can take for ever, and then it can be ended.

It imports only the standard library, follows no link, and writes nothing but its findings, as JSON lines.
"""

import fnmatch
import json
import os
import re
import stat
import sys
from collections.abc import Iterator
from typing import Any

SKIPPED_FOLDERS = frozenset({".git", ".hg", ".svn", "node_modules", "__pycache__", ".venv", ".mypy_cache"})
MAX_FILE_BYTES = 8 * 1024 * 1024
MAX_LINE_CHARACTERS = 20_000
SHOWN_CHARACTERS = 300
OPEN_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def files(root: int, only: str | None) -> Iterator[tuple[str, int]]:
    """(path, descriptor) of the regular files below the folder, in order of their names."""
    if only is not None:
        yield from _opened(only, only, root)
        return
    for folder, folders, names, place in os.fwalk(".", dir_fd=root, follow_symlinks=False):
        folders[:] = sorted(name for name in folders if name not in SKIPPED_FOLDERS)
        for name in sorted(names):
            yield from _opened(os.path.normpath(os.path.join(folder, name)), name, place)  # noqa: PTH118


def _opened(path: str, name: str, folder: int) -> Iterator[tuple[str, int]]:
    try:
        file = os.open(name, OPEN_FLAGS, dir_fd=folder)
    except OSError:
        return
    try:
        about = os.fstat(file)
        if stat.S_ISREG(about.st_mode) and about.st_size <= MAX_FILE_BYTES:
            yield path, file
    finally:
        os.close(file)


def search(root: int, request: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The lines that match, up to the limit."""
    pattern = re.compile(request["pattern"], re.IGNORECASE if request["ignore_case"] else 0)
    glob, left = request["glob"], request["limit"]
    for path, file in files(root, request["only"]):
        if glob and not (fnmatch.fnmatch(path, glob) or fnmatch.fnmatch(path.rpartition("/")[2], glob)):
            continue
        with os.fdopen(os.dup(file), "rb") as opened:
            data = opened.read()
        if b"\0" in data[:8192]:
            continue
        for number, line in enumerate(data.decode("utf-8", "replace").split("\n"), start=1):
            if pattern.search(line[:MAX_LINE_CHARACTERS]):
                yield {"path": path, "line": number, "text": line.strip()[:SHOWN_CHARACTERS]}
                left -= 1
                if not left:
                    return


def main() -> None:
    request = json.loads(sys.stdin.read())
    for found in search(request["root"], request):
        sys.stdout.write(json.dumps(found) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
