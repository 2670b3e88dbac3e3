"""What tools may touch: sandbox modes, paths inside the workspace, and the bubblewrap command line.

It runs no command and reads no file's content. In the confined modes a path is first resolved (so `..` and
symbolic links count for where they lead), checked, and then opened folder by folder without following links,
so that a link put there in between is refused and not followed.
"""

import errno
import os
import shutil
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from rowcrew.agent.builtin.guard import is_below, own_environment, places, protected_part
from rowcrew.agent.tools import ToolError
from rowcrew.errors import InvalidRequest

# What a program needs to run at all. The rest (homes, sockets, other temporary files) is absent.
SYSTEM_FOLDERS = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/etc", "/opt", "/nix", "/gnu")
# Everything else may hold a secret: keys and tokens are kept in the environment.
KEPT_VARIABLES = ("PATH", "LANG", "LANGUAGE", "LC_ALL", "LC_CTYPE", "TERM", "TZ", "USER", "SHELL")

INSTALL_BUBBLEWRAP = (
    "the shell is off: this sandbox mode needs bubblewrap (the program `bwrap`), which is not installed. "
    "Install it (Debian, Ubuntu: `apt-get install bubblewrap`; Fedora: `dnf install bubblewrap`) "
    "or use the other tools"
)


class SandboxMode(StrEnum):
    READ_ONLY = "read-only"
    WORKSPACE_WRITE = "workspace-write"
    DANGER_FULL_ACCESS = "danger-full-access"


def parse_mode(text: str) -> SandboxMode:
    """Raises InvalidRequest that names the modes."""
    try:
        return SandboxMode(text)
    except ValueError:
        modes = ", ".join(SandboxMode)
        raise InvalidRequest(f"no sandbox mode {text!r}", hint=f"the modes are {modes}") from None


@dataclass(frozen=True, slots=True)
class Sandbox:
    """One agent's bounds. `workspace` is where it works; `also_writable` are further folders like it.

    `protected` are folders in them that are never written, see guard.py.
    """

    mode: SandboxMode
    workspace: Path
    also_writable: tuple[Path, ...] = ()
    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    protected: tuple[Path, ...] = ()

    @classmethod
    def open(
        cls,
        mode: SandboxMode | str,
        workspace: Path,
        *,
        also_writable: Sequence[Path] = (),
        environment: Mapping[str, str] = os.environ,
        protected: Sequence[Path] = (),
    ) -> "Sandbox":
        """Raises InvalidRequest for an unknown mode and for a folder that is none."""
        folders = []
        for folder in (workspace, *also_writable):
            if not folder.is_dir():
                raise InvalidRequest(f"there is no folder {str(folder)!r} to work in")
            folders.append(folder.resolve())
        kept = [own_environment(), *(folder.resolve() for folder in protected)]
        below = tuple(folder for folder in kept if is_below(folder, folders))
        return cls(parse_mode(mode), folders[0], tuple(folders[1:]), dict(environment), below)

    @property
    def is_confined(self) -> bool:
        return self.mode is not SandboxMode.DANGER_FULL_ACCESS

    @property
    def roots(self) -> tuple[Path, ...]:
        return (self.workspace, *self.also_writable)

    def resolve(self, path: str) -> Path:
        """Where a path leads, from the workspace. ToolError when that is outside and the mode confines."""
        if "\0" in path or not path:
            raise ToolError("a path must be text without NUL characters, and not empty")
        try:
            real = Path(os.path.realpath(self.workspace / path))
        except OSError as error:
            raise ToolError(f"{path!r} cannot be looked up: {error.strerror}") from None
        if self.is_confined and self._root_of(real) is None:
            raise ToolError(f"{path!r} is outside the workspace {str(self.workspace)!r}, which is off limits")
        return real

    def resolve_for_write(self, path: str) -> Path:
        """As `resolve`, and ToolError where this mode may not write."""
        if self.mode is SandboxMode.READ_ONLY:
            raise ToolError(
                "this sandbox is read-only: nothing can be written; say in your answer what you would write"
            )
        real = self.resolve(path)
        if self.is_confined:
            root = self._root_of(real) or self.workspace
            if (part := protected_part(real, root, self.protected)) is not None:
                raise ToolError(f"{path!r} cannot be written: `{part}` is protected")
            if real == root:
                raise ToolError(f"{path!r} is the workspace itself")
        return real

    def shown(self, real: Path) -> str:
        """A resolved path as the model knows it."""
        with suppress(ValueError):
            return str(real.relative_to(self.workspace))
        return str(real)

    def open_folder(self, real: Path, *, create: bool = False) -> int:
        """A descriptor of a resolved folder. In the confined modes no link is followed on the way there."""
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
        root = self._root_of(real) if self.is_confined else None
        if root is None:
            if create:
                real.mkdir(parents=True, exist_ok=True)
            return os.open(real, flags)
        folder = os.open(root, flags)
        for part in real.relative_to(root).parts:
            try:
                if create:
                    with suppress(FileExistsError):
                        os.mkdir(part, dir_fd=folder)
                inner = os.open(part, flags | os.O_NOFOLLOW, dir_fd=folder)
            finally:
                os.close(folder)
            folder = inner
        return folder

    def open_file(self, real: Path) -> int:
        """A descriptor of a resolved regular file, for reading. ToolError for anything else."""
        # A pipe that nobody writes to would block the open for ever.
        flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
        folder = self.open_folder(real.parent)
        try:
            file = os.open(real.name, flags | (os.O_NOFOLLOW if self.is_confined else 0), dir_fd=folder)
        finally:
            os.close(folder)
        if not stat.S_ISREG(os.fstat(file).st_mode):
            os.close(file)
            raise ToolError(f"{self.shown(real)!r} is not a regular file")
        return file

    @contextmanager
    def wrapped(self, command: Sequence[str], folder: Path) -> Iterator[list[str]]:
        """The command as it may be run in `folder`, for as long as the context lasts.

        ToolError where it could only run unconfined.
        """
        if not self.is_confined:
            yield list(command)
            return
        if self.workspace == Path("/"):
            raise ToolError("the shell is off: the workspace is the whole machine; work in a folder of it")
        bubblewrap = shutil.which("bwrap", path=self._search_path())
        if bubblewrap is None:
            raise ToolError(INSTALL_BUBBLEWRAP)
        with ExitStack() as held:
            read_only: list[Path] = []
            if self.mode is SandboxMode.WORKSPACE_WRITE:
                read_only = held.enter_context(places(self.roots, self.protected))
            yield [bubblewrap, *self._bubblewrap(folder, read_only), "--", *command]

    def _search_path(self) -> str:
        """Where to look for what runs outside of the sandbox: nowhere that an agent could have written."""
        folders = self.environment.get("PATH", os.defpath).split(os.pathsep)
        return os.pathsep.join(
            folder
            for folder in folders
            if os.path.isabs(folder) and self._root_of(Path(os.path.realpath(folder))) is None  # noqa: PTH117
        )

    def shell_environment(self) -> dict[str, str]:
        """The variables that a command gets. Confined, it gets none that could hold a secret."""
        if not self.is_confined:
            return dict(self.environment)
        kept = {name: self.environment[name] for name in KEPT_VARIABLES if name in self.environment}
        return {**kept, "HOME": str(self.workspace), "TMPDIR": "/tmp"}  # noqa: S108 - its own, inside the sandbox

    def _bubblewrap(self, folder: Path, read_only: Sequence[Path]) -> list[str]:
        arguments = ["--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL"]
        for system in SYSTEM_FOLDERS:
            if Path(system).is_symlink():
                arguments += ["--symlink", str(Path(system).readlink()), system]
            elif Path(system).is_dir():
                arguments += ["--ro-bind", system, system]
        arguments += ["--tmpfs", "/tmp", "--dev", "/dev", "--proc", "/proc"]  # noqa: S108 - inside the sandbox
        writable = self.mode is SandboxMode.WORKSPACE_WRITE
        for root in self.roots:
            arguments += ["--bind" if writable else "--ro-bind", str(root), str(root)]
        for path in read_only:
            arguments += ["--ro-bind", str(path), str(path)]
        # Last, so that the folders that bubblewrap has made up above the workspace cannot be written.
        return [*arguments, "--remount-ro", "/", "--chdir", str(folder)]

    def _root_of(self, real: Path) -> Path | None:
        return next((root for root in self.roots if real.is_relative_to(root)), None)


def explain(error: OSError, shown: str) -> ToolError:
    """An operating system's refusal as a sentence for the model."""
    match error.errno:
        case errno.ENOENT:
            return ToolError(f"there is no {shown!r}")
        case errno.EISDIR:
            return ToolError(f"{shown!r} is a folder")
        case errno.ENOTDIR:
            return ToolError(f"{shown!r} is not a folder, or leads through a file or a link")
        case errno.ELOOP:
            return ToolError(f"{shown!r} leads through a symbolic link that was not there before")
        case _:
            return ToolError(f"{shown!r}: {error.strerror or error}")
