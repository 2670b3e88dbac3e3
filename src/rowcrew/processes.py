"""The seam to operating-system processes: who one is, whether it lives, how to end what is left of it.

It starts none but `ps` and `sysctl` (macOS), and signals none that it cannot prove to be the one meant.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from rowcrew.errors import NotFound

# What marks every process of a worker, whatever it forks, renames or daemonizes.
MARKER_VARIABLE = "ROWCREW_THREAD_ID"

_PROC = Path("/proc")
_HAS_PROC = sys.platform.startswith("linux")
_DEAD_STATES = ("Z", "X", "x")
# A killed process needs a moment to be gone; one that sits in the kernel (a dead disk) may never be.
_KILL_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class ProcessIdentity:
    """One process, told apart from a later one with the same pid. `started` is opaque text."""

    pid: int
    started: str
    boot_id: str


@dataclass(frozen=True, slots=True)
class _Seen:
    """A line of the system's process table."""

    pid: int
    parent: int
    group: int
    session: int
    state: str
    started: str

    @property
    def is_dead(self) -> bool:
        return self.state.startswith(_DEAD_STATES)


@lru_cache(maxsize=1)
def boot_id() -> str:
    """Names this run of the machine: a pid and a start time mean nothing beyond it."""
    if not _HAS_PROC:
        return _tool("sysctl", "-n", "kern.bootsessionuuid") or _tool("sysctl", "-n", "kern.boottime")
    with suppress(OSError):
        return (_PROC / "sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    # Some sandboxes hide the id; the second of the boot is the next best.
    lines = (_PROC / "stat").read_text(encoding="ascii").splitlines()
    return next((line for line in lines if line.startswith("btime ")), "unknown")


def identify(pid: int | None = None) -> ProcessIdentity:
    """Who has this pid now (default: this process). Raises NotFound."""
    wanted = os.getpid() if pid is None else pid
    seen = _look_up(wanted)
    if seen is None:
        raise NotFound(f"no process has the pid {wanted}")
    return ProcessIdentity(wanted, seen.started, boot_id())


def is_alive(identity: ProcessIdentity) -> bool:
    """True while this very process lives. One that has ended but was not yet reaped by its parent is dead."""
    if identity.boot_id != boot_id():
        return False
    seen = _look_up(identity.pid)
    return seen is not None and seen.started == identity.started and not seen.is_dead


def end_session(identity: ProcessIdentity, marker: str | None = None) -> bool:
    """Kill what is left of the session that `identity` leads or led; False when nothing was left.

    Killed are the leader, its process group, its session, on Linux every process whose environment carries
    the marker, and the children of all these. A process that only has the leader's pid by reuse is left
    alone. Blocks until they are gone, at most two seconds.
    """
    return bool(end_sessions([(identity, marker)]))


def end_sessions(targets: Sequence[tuple[ProcessIdentity, str | None]]) -> set[int]:
    """`end_session` for many with one look at the process table. Returns the pids that were killed."""
    # One boot's pids say nothing about another's processes.
    wanted = _Wanted([target for target in targets if target[0].boot_id == boot_id()])
    killed: set[int] = set()
    deadline = time.monotonic() + _KILL_SECONDS
    pause = 0.001
    while left := wanted.members():
        # Again until none is found: one of them may have forked while the table was being read.
        for seen in left:
            _kill(seen)
            killed.add(seen.pid)
        if time.monotonic() > deadline:
            break
        time.sleep(pause)
        pause = min(pause * 2, 0.05)
    return killed


class _Wanted:
    """Sessions to be ended, by what their processes can be known by."""

    def __init__(self, targets: Sequence[tuple[ProcessIdentity, str | None]]) -> None:
        self._leaders: dict[int, list[tuple[ProcessIdentity, str | None]]] = {}
        self._marked: dict[str, list[ProcessIdentity]] = {}
        for identity, marker in targets:
            self._leaders.setdefault(identity.pid, []).append((identity, marker))
            if marker is not None and _HAS_PROC:
                self._marked.setdefault(marker, []).append(identity)
        marked = [identity for identities in self._marked.values() for identity in identities]
        self._oldest = min((int(identity.started) for identity in marked), default=0)

    def members(self) -> list[_Seen]:
        """The living processes that belong to one of them, leaders first, lest they see children die."""
        if not self._leaders:
            return []
        table = {seen.pid: seen for seen in _process_table()}
        own = os.getpid()
        living = [seen for seen in table.values() if not seen.is_dead and seen.pid != own]
        members = {seen.pid: seen for seen in living if self._has(seen, table)}
        # Children of members are members, whatever session they made for themselves.
        size = -1
        while size != len(members):
            size = len(members)
            members.update((seen.pid, seen) for seen in living if seen.parent in members)
        return sorted(members.values(), key=lambda seen: seen.pid not in self._leaders)

    def _has(self, seen: _Seen, table: Mapping[int, _Seen]) -> bool:
        for number in {seen.pid, seen.group, seen.session}:
            for identity, marker in self._leaders.get(number, ()):
                leader = table.get(number)
                if leader is not None:
                    if leader.started == identity.started:
                        return True
                elif (marker is None or not _HAS_PROC) and not _is_older(seen, identity):
                    # Nothing else can be asked: a session's number is not given away while it has members.
                    return True
        return self._is_marked(seen)

    def _is_marked(self, seen: _Seen) -> bool:
        # A process that is older than all of them comes from none: this spares reading most environments.
        if not self._marked or int(seen.started) < self._oldest:
            return False
        found = (identity for marker in _marks(seen.pid) for identity in self._marked.get(marker, ()))
        return any(not _is_older(seen, identity) for identity in found)


def _is_older(seen: _Seen, identity: ProcessIdentity) -> bool:
    """A process that started before the leader cannot come from it."""
    return _HAS_PROC and int(seen.started) < int(identity.started)


def _marks(pid: int) -> frozenset[str]:
    """The markers in a process's environment; none when it is gone or another user's."""
    prefix = f"{MARKER_VARIABLE}=".encode()
    try:
        content = (_PROC / str(pid) / "environ").read_bytes()
    except OSError:
        return frozenset()
    return frozenset(
        entry[len(prefix) :].decode("utf-8", "replace")
        for entry in content.split(b"\0")
        if entry.startswith(prefix)
    )


def _kill(seen: _Seen) -> None:
    """SIGKILL to this very process: the handle is taken first, then its start time is compared again."""
    try:
        handle = os.pidfd_open(seen.pid) if hasattr(os, "pidfd_open") else None
    except ProcessLookupError:
        return
    except OSError:
        handle = None  # forbidden or unknown to this kernel: the plain call below has to do
    try:
        now = _look_up(seen.pid)
        if now is None or now.started != seen.started:
            return
        with suppress(ProcessLookupError, PermissionError):
            if handle is None:
                os.kill(seen.pid, signal.SIGKILL)
            else:
                signal.pidfd_send_signal(handle, signal.SIGKILL)
    finally:
        if handle is not None:
            os.close(handle)


def _look_up(pid: int) -> _Seen | None:
    if _HAS_PROC:
        return _read_stat(pid)
    return next(_parse_ps(_tool("ps", "-o", _PS_FIELDS, "-p", str(pid))), None)


def _process_table() -> Iterator[_Seen]:
    if not _HAS_PROC:
        yield from _parse_ps(_tool("ps", "-axo", _PS_FIELDS))
        return
    for name in os.listdir(_PROC):  # noqa: PTH208 - a Path per process would double the cost of the look
        if name.isdigit() and (seen := _read_stat(int(name))) is not None:
            yield seen


def _read_stat(pid: int) -> _Seen | None:
    try:
        with open(f"/proc/{pid}/stat", "rb", buffering=0) as file:  # noqa: PTH123 - as above
            content = file.read(4096)
    except OSError:
        return None
    # The second field is the program's name in brackets and may itself hold blanks and brackets.
    fields = content[content.rfind(b")") + 2 :].split()
    if len(fields) < 20:
        return None
    return _Seen(
        pid=pid,
        parent=int(fields[1]),
        group=int(fields[2]),
        session=int(fields[3]),
        state=fields[0].decode("ascii"),
        started=fields[19].decode("ascii"),
    )


# `lstart` is the only start time that does not change with the time of asking; sessions are not shown.
_PS_FIELDS = "pid=,ppid=,pgid=,stat=,lstart="


def _parse_ps(text: str) -> Iterator[_Seen]:
    for line in text.splitlines():
        fields = line.split(None, 4)
        if len(fields) < 5:
            continue
        pid, parent, group = (int(field) for field in fields[:3])
        try:
            session = os.getsid(pid)
        except OSError:
            session = 0
        yield _Seen(pid, parent, group, session, fields[3], fields[4].strip())


def _tool(*words: str) -> str:
    """What a system tool prints, in English and UTC: a change of time zone must not change a start time."""
    environment = {**os.environ, "LC_ALL": "C", "TZ": "UTC"}
    done = subprocess.run(words, capture_output=True, text=True, env=environment, check=False, timeout=10)
    return done.stdout.strip()
