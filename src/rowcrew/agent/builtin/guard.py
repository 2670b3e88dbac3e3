"""What an agent must not write although it is in its workspace. It runs nothing and opens no file for others.

Written by an agent, these would widen what later runs outside of the sandbox do: git's hooks, rowcrew's
settings, the Python environment that rowcrew itself runs from, its home.
Where a protected name is missing, an empty folder holds its place while a command runs, so that there is
something to mount read-only. Discipline: each command holds a shared lock on the folder, in whatever process
it runs; whoever gets the lock alone, at the end, removes it. Removed is only what is empty.
"""

import errno
import fcntl
import os
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from rowcrew.agent.tools import ToolError

PROTECTED_NAMES = frozenset({".git", "rowcrew.toml"})
_TRIES = 100
_GIT_DIR = re.compile(rb"gitdir:[ \t]*([^\r\n]+)")
# Nothing can be written there by anybody, so that nothing needs to be protected.
_CANNOT_BE_WRITTEN = (errno.EACCES, errno.EPERM, errno.EROFS)


def own_environment() -> Path:
    """The Python environment that this process runs from."""
    return Path(sys.prefix).resolve()


def protected_part(real: Path, root: Path, protected: Sequence[Path]) -> str | None:
    """What forbids writing a resolved path below a root; None where nothing does."""
    names = {part.casefold() for part in real.relative_to(root).parts} & PROTECTED_NAMES
    if names:
        return min(names)
    return next((str(folder) for folder in protected if real.is_relative_to(folder)), None)


@contextmanager
def places(roots: Sequence[Path], protected: Sequence[Path]) -> Iterator[list[Path]]:
    """The paths to mount read-only over the writable roots, there for as long as the context lasts.

    Raises ToolError where a path cannot be protected.
    """
    found = [folder for folder in protected if folder.exists()]
    with ExitStack() as held:
        for root in roots:
            for name in sorted(PROTECTED_NAMES):
                path = root / name
                if path.is_symlink():
                    raise ToolError(
                        f"the shell is off: {str(path)!r} is a symbolic link, which cannot be protected; "
                        "use the other tools"
                    )
                if not path.exists() or _is_empty_folder(path):
                    folder = _hold_place(path)
                    if folder is None:
                        continue
                    held.callback(_leave_place, path, folder)
                found.append(path)
                if name == ".git" and path.is_file():
                    found += _git_folder(path, roots)
        yield found


def is_below(path: Path, roots: Sequence[Path]) -> bool:
    """Whether a path is in one of the folders, and not the folder itself."""
    return any(path != root and path.is_relative_to(root) for root in roots)


def _is_empty_folder(path: Path) -> bool:
    try:
        return path.is_dir() and not any(path.iterdir())
    except OSError:
        return False


def _git_folder(pointer: Path, roots: Sequence[Path]) -> list[Path]:
    """Where a `.git` that is a file leads, if that is in the workspace too."""
    with pointer.open("rb") as file:
        said = _GIT_DIR.match(file.read(4096))
    if said is None:
        return []
    target = Path(os.path.realpath(pointer.parent / os.fsdecode(said[1])))
    return [target] if target.exists() and is_below(target, roots) else []


def _hold_place(path: Path) -> int | None:
    """A descriptor that keeps an empty folder there; None where nobody can make anything there."""
    for _ in range(_TRIES):
        try:
            with suppress(FileExistsError):
                path.mkdir()
            folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            continue
        except OSError as error:
            if error.errno in _CANNOT_BE_WRITTEN:
                return None
            raise ToolError(
                f"the shell is off: {str(path)!r} cannot be protected: {error.strerror}"
            ) from None
        with suppress(OSError):
            fcntl.flock(folder, fcntl.LOCK_SH | fcntl.LOCK_NB)
            # Another may have removed it between the two steps.
            if os.path.samestat(os.fstat(folder), path.stat(follow_symlinks=False)):
                return folder
        os.close(folder)
    raise ToolError(f"the shell is off: {str(path)!r} cannot be protected now; try again")


def _leave_place(path: Path, folder: int) -> None:
    with suppress(OSError):
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        path.rmdir()
    os.close(folder)
