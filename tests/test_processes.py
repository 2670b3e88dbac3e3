"""Processes are told apart by pid, start time and boot; what is left of a session is found and ended."""

import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from dataclasses import replace

import pytest

from rowcrew import processes
from rowcrew.errors import NotFound
from rowcrew.processes import (
    MARKER_VARIABLE,
    ProcessIdentity,
    boot_id,
    end_session,
    end_sessions,
    identify,
    is_alive,
)

# Nobody else's: it is what processes are ended by, and other tests may run beside these.
MARKER = str(uuid.uuid4())
on_linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")


class Started:
    """Processes of one test. Each prints the pids that the test needs, one line each, then hangs."""

    def __init__(self) -> None:
        self._running: list[subprocess.Popen[str]] = []
        self._pids: list[int] = []

    def python(self, code: str, *, marker: str | None = None) -> tuple[subprocess.Popen[str], list[int]]:
        environment = dict(os.environ)
        if marker is not None:
            environment[MARKER_VARIABLE] = marker
        running = subprocess.Popen(
            [sys.executable, "-S", "-c", code],
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
            env=environment,
        )
        assert running.stdout is not None
        self._running.append(running)
        pids = [int(word) for word in running.stdout.readline().split()]
        self._pids += pids
        return running, pids

    def close(self) -> None:
        for running in self._running:
            running.kill()
            running.communicate()
        for pid in self._pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue


@pytest.fixture
def started() -> Iterator[Started]:
    processes_of_test = Started()
    yield processes_of_test
    processes_of_test.close()


HANG = "import os, time\nprint(os.getpid(), flush=True)\ntime.sleep(600)"

# A child in the same session, and one that has made a session of its own and lost its parent.
FAMILY = """
import os, sys, time
def hang():
    os.close(1)
    time.sleep(600)
child = os.fork()
if child == 0:
    hang()
reader, writer = os.pipe()
if os.fork() == 0:
    os.setsid()
    daemon = os.fork()
    if daemon == 0:
        hang()
    os.write(writer, str(daemon).encode())
    os._exit(0)
os.wait()
print(child, int(os.read(reader, 20)), flush=True)
"""


def _states(pids: list[int]) -> list[bool]:
    alive = []
    for pid in pids:
        try:
            alive.append(is_alive(identify(pid)))
        except NotFound:
            alive.append(False)
    return alive


def test_this_process_is_alive_and_always_the_same() -> None:
    assert identify() == identify(os.getpid())
    assert identify().pid == os.getpid()
    assert identify().boot_id == boot_id() != ""
    assert is_alive(identify())


def test_another_start_time_or_another_boot_is_another_process() -> None:
    assert not is_alive(replace(identify(), started="1"))
    assert not is_alive(replace(identify(), boot_id="another boot"))


def test_a_pid_that_nobody_has_is_not_found(started: Started) -> None:
    running, _ = started.python(HANG)
    identity = identify(running.pid)
    running.kill()
    running.wait()
    assert not is_alive(identity)
    with pytest.raises(NotFound, match=f"no process has the pid {running.pid}"):
        identify(running.pid)


def test_a_process_that_ended_but_was_not_reaped_is_dead(started: Started) -> None:
    running, _ = started.python(HANG)
    identity = identify(running.pid)
    assert is_alive(identity)
    running.kill()
    os.waitid(os.P_PID, running.pid, os.WEXITED | os.WNOWAIT)
    assert not is_alive(identity)
    assert identify(running.pid) == identity


@on_linux
def test_a_name_with_brackets_and_blanks_is_no_matter(started: Started) -> None:
    code = "open('/proc/self/comm', 'w').write(') S 1 (x y')\n" + HANG
    running, _ = started.python(code)
    assert is_alive(identify(running.pid))
    assert end_session(identify(running.pid))


def test_the_leader_and_its_children_are_ended(started: Started) -> None:
    running, family = started.python(f"{FAMILY}\ntime.sleep(600)")
    assert _states(family) == [True, True]
    assert end_session(identify(running.pid), f"no {MARKER}")
    assert running.wait() == -signal.SIGKILL
    assert _states(family)[0] is False


@on_linux
def test_a_daemon_is_found_by_its_marker(started: Started) -> None:
    running, family = started.python(f"{FAMILY}\ntime.sleep(600)", marker=MARKER)
    assert end_session(identify(running.pid), MARKER)
    assert _states(family) == [False, False]


@on_linux
def test_a_session_without_its_leader_is_ended_when_it_carries_the_marker(started: Started) -> None:
    running, family = started.python(FAMILY, marker=MARKER)
    identity = identify(running.pid)
    assert running.wait() == 0
    assert end_sessions([(identity, MARKER)]) == set(family)
    assert _states(family) == [False, False]
    assert not end_session(identity, MARKER)


@on_linux
def test_a_session_without_its_leader_is_left_alone_when_the_marker_is_anothers(started: Started) -> None:
    running, family = started.python(FAMILY, marker=f"not {MARKER}")
    identity = identify(running.pid)
    running.wait()
    assert not end_session(identity, MARKER)
    assert _states(family) == [True, True]


def test_a_stranger_with_a_reused_pid_is_left_alone(started: Started) -> None:
    running, _ = started.python(HANG)
    earlier = replace(identify(running.pid), started="1")
    assert not end_session(earlier, MARKER)
    assert not end_session(earlier)
    assert running.poll() is None


def test_a_process_of_another_boot_is_left_alone(started: Started) -> None:
    running, _ = started.python(HANG, marker=MARKER)
    assert not end_session(replace(identify(running.pid), boot_id="another boot"), MARKER)
    assert running.poll() is None


def test_this_process_is_never_ended() -> None:
    assert not end_session(ProcessIdentity(os.getpid(), identify().started, boot_id()), MARKER)


def test_many_sessions_are_ended_with_one_call(started: Started) -> None:
    running = [started.python(HANG)[0] for _ in range(3)]
    targets = [(identify(one.pid), None) for one in running]
    assert end_sessions(targets) == {one.pid for one in running}
    assert [one.wait() for one in running] == [-signal.SIGKILL] * 3


@on_linux
def test_the_process_table_can_be_read_through_ps_too(
    started: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "_HAS_PROC", False)
    running, family = started.python(f"{FAMILY}\ntime.sleep(600)")
    identity = identify(running.pid)
    assert is_alive(identity)
    assert end_session(identity)
    assert running.wait() == -signal.SIGKILL
    assert not is_alive(identity)
    assert _states(family)[0] is False
