"""The real command in processes of its own, as a user types it. It only looks at the engine's files."""

import csv
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import apsw

# Two shared cores: what takes a moment may take many. Nothing waits so long when it works.
PATIENCE = 60.0
LOOK_EVERY = 0.02

# Says that it has started, then does what the row's second column says: `sleep` seconds, or a shell command.
WORKER = """\
echo "$ROWCREW_ITEM_ID $ROWCREW_ATTEMPT $ROWCREW_THREAD_ID $$" >> "$STARTS"
{body}
"""
REPORT = """printf '{"v":"%s"}\\n' "$ROWCREW_ITEM_ID\""""


def until(condition: Callable[[], Any], what: str, patience: float = PATIENCE) -> Any:
    """Wait for a condition and return what it gave; what it waited for in vain is in the failure."""
    deadline = time.monotonic() + patience
    while not (found := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"in vain for {patience:g} s: {what}")
        time.sleep(LOOK_EVERY)
    return found


@dataclass(frozen=True)
class Outcome:
    """How a call ended: its exit code and what it wrote."""

    code: int
    out: str
    err: str

    @property
    def documents(self) -> list[Any]:
        """Standard output as JSON lines; fails when it is anything else."""
        return [json.loads(line) for line in self.out.splitlines()]


@dataclass
class Running:
    """A call under way. Its output goes to files, so that nothing of it waits for a reader."""

    process: subprocess.Popen[bytes]
    out_path: Path
    err_path: Path

    @property
    def err(self) -> str:
        return self.err_path.read_text(encoding="utf-8", errors="replace")

    @property
    def out(self) -> str:
        return self.out_path.read_text(encoding="utf-8", errors="replace")

    def kill(self) -> None:
        """SIGKILL to this process alone; its workers are left as they are."""
        self.process.kill()
        self.process.wait()
        self._close_input()

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def end(self, patience: float = PATIENCE) -> Outcome:
        """Wait until it has ended by itself."""
        try:
            code = self.process.wait(patience)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"it does not end; it said:\n{self.err}") from None
        self._close_input()
        return Outcome(code, self.out, self.err)

    def _close_input(self) -> None:
        if self.process.stdin is not None:
            self.process.stdin.close()


@dataclass
class Program:
    """One home and one folder, and the calls made there."""

    home: Path
    folder: Path
    extra: dict[str, str] = field(default_factory=dict)
    calls: list[Running] = field(default_factory=list)

    @property
    def starts_path(self) -> Path:
        return self.folder / "starts"

    def environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("ROWCREW_")}
        own = {"ROWCREW_HOME": str(self.home), "STARTS": str(self.starts_path), "NO_COLOR": "1"}
        return {**kept, **own, **self.extra}

    def start(self, *words: str) -> Running:
        """The command, at work."""
        return self._start("-m", "rowcrew", *words)

    def start_python(self, script: Path, *words: str) -> Running:
        """A program of the tests that uses the package, at work."""
        return self._start(str(script), *words)

    def start_server(self) -> Running:
        """The app-server, whose standard input is the test's."""
        return self._start("-m", "rowcrew", "app-server", stdin=subprocess.PIPE)

    def _start(self, *words: str, stdin: int = subprocess.DEVNULL) -> Running:
        number = len(self.calls)
        out_path, err_path = self.folder / f"out-{number}", self.folder / f"err-{number}"
        with out_path.open("wb") as out, err_path.open("wb") as err:
            process = subprocess.Popen(
                [sys.executable, *words],
                cwd=self.folder,
                env=self.environment(),
                stdin=stdin,
                stdout=out,
                stderr=err,
                # A session of its own, as on a terminal of its own: a signal meant for one stays with it.
                start_new_session=True,
                # And heeds Ctrl-C, also where whoever runs the tests in the background ignores it.
                preexec_fn=_heed_interrupts,
            )
        self.calls.append(Running(process, out_path, err_path))
        return self.calls[-1]

    def call(self, *words: str, patience: float = PATIENCE) -> Outcome:
        return self.start(*words).end(patience)

    # -- what it works on -------------------------------------------------------------------------------

    def table(self, rows: int, name: str = "in.csv", *, column: str = "text") -> str:
        """A table of so many rows `r0`, `r1`, …; its name."""
        with (self.folder / name).open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["id", column])
            writer.writerows([f"r{number}", f"text {number}, with a comma"] for number in range(rows))
        return name

    def worker(self, body: str, name: str = "worker.sh") -> str:
        """A command worker that notes its start and then runs `body`; the words for --worker."""
        (self.folder / name).write_text(WORKER.replace("{body}", body), encoding="utf-8")
        return f"command:/bin/sh {name}"

    # -- what became of it ------------------------------------------------------------------------------

    def rows(self, query: str, *values: Any, file: str = "state_1.sqlite") -> list[Any]:
        """What the state file says, or another; nothing while it is not there yet."""
        path = self.home / file
        if not path.exists():
            return []
        connection = apsw.Connection(str(path))
        try:
            connection.set_busy_timeout(10_000)
            return list(connection.execute(query, values))
        except apsw.SQLError:
            return []  # its tables are being made
        finally:
            connection.close()

    def job_id(self) -> str:
        """The latest job, as soon as there is one."""
        query = "SELECT id FROM agent_jobs ORDER BY created_at_ms DESC, rowid DESC LIMIT 1"
        found: str = until(lambda: self.rows(query), "a job to be made")[0][0]
        return found

    def counts(self) -> dict[str, int]:
        """How many job items are in which status, over all jobs."""
        return dict(self.rows("SELECT status, count(*) FROM agent_job_items GROUP BY status"))

    def starts(self) -> list[tuple[str, int, str, int]]:
        """(item, attempt, thread, pid) that the workers themselves wrote down, in that order."""
        if not self.starts_path.exists():
            return []
        lines = self.starts_path.read_text(encoding="utf-8").splitlines()
        return [(words[0], int(words[1]), words[2], int(words[3])) for words in map(str.split, lines)]

    def live_workers(self) -> list[int]:
        """Every living process that comes from a worker of this home, whatever it has become."""
        wanted = f"ROWCREW_HOME={self.home}".encode()
        return [
            pid
            for pid, variables in _environments()
            if wanted in variables and any(one.startswith(b"ROWCREW_THREAD_ID=") for one in variables)
        ]

    def clean_up(self) -> None:
        """End what a failed test has left."""
        for call in self.calls:
            if call.process.poll() is None:
                call.process.kill()
                call.process.wait()
        for pid in self.live_workers():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue


def _heed_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _environments() -> list[tuple[int, list[bytes]]]:
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            variables = (entry / "environ").read_bytes().split(b"\0")
            state = (entry / "stat").read_bytes().rpartition(b")")[2].split()[0]
        except (OSError, IndexError):
            continue
        if state not in (b"Z", b"X"):
            found.append((int(entry.name), variables))
    return found
