"""A command worker that does what its row says, for tests: `python -m rowcrew.testing.scripted_worker`.

It reads the order as JSON on standard input and obeys the row's column `do`; the column `id` is what it
reports: `{"v": id}`. It knows the engine only by what any program sees: input, environment, `rowcrew report`.

| do | what happens |
|---|---|
| `ok`, `ok:after=S` | reports on standard output, after S seconds |
| `hang`, `ignore-sigterm` | never reports, never ends; the second survives SIGTERM |
| `kill9-self`, `kill9-self:always` | SIGKILL to itself in attempt 1, or in all |
| `429:retry-after=S:times=N` | exit 75 with that wait, N times, then ok |
| `500:times=N` | exit 75, N times, then ok |
| `quota-exhausted` | exit 75, account |
| `end-without-report` | exit 0, nothing said |
| `report-twice` | `rowcrew report` twice, the second time another value |
| `report-for=X` | `rowcrew report` for the job item X, then exit 0 |
| `report-not-object`, `report-not-object:always` | reports `[1]`, then (not with `always`) mends it |
| `report-schema-miss:times=N` | reports a number for `v` N times, then mends it |
| `report-late:after-timeout=S` | attempt 1 reports S seconds after SIGTERM; attempt 2 is ok |
| `spawn-child-then-hang` | starts `sleep 600`, then hangs |
| `huge-line=N` | its report is one line of N bytes |
| `stderr-flood=N` | N bytes on standard error, then ok |
| `report-then-hang` | reports on standard output, never ends |

What `rowcrew report` answered is kept, one JSON per line, in `$ROWCREW_HOME/scripted/`, for the test to look
at; how often a verb has refused already, too.
"""

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

TRY_LATER = 75


@dataclass(frozen=True, slots=True)
class Task:
    """What one row asks for: `do` is `verb`, `verb=value`, and options `:name` or `:name=value`."""

    item_id: str
    value: str
    attempt: int
    verb: str
    argument: str
    options: dict[str, str]
    notes: Path

    @property
    def report(self) -> dict[str, Any]:
        return {"v": self.value}

    def number(self, name: str, default: float) -> float:
        return float(self.options.get(name, default))


def read_task(order: dict[str, Any], home: Path) -> Task:
    """The task in an order. Its notes have no row text in their name."""
    first, *rest = str(order["row"].get("do", "ok")).split(":")
    verb, _, argument = first.partition("=")
    options = {name: value for name, _, value in (one.partition("=") for one in rest)}
    key = hashlib.sha256(f"{order['job_id']}\0{order['item_id']}".encode()).hexdigest()[:16]
    value = str(order["row"].get("id", order["item_id"]))
    notes = home / "scripted" / f"{key}.jsonl"
    return Task(order["item_id"], value, order["attempt"], verb, argument, options, notes)


def notes_of(task_home: Path) -> list[dict[str, Any]]:
    """All notes under a home, in the order of writing per job item."""
    files = sorted((task_home / "scripted").glob("*.jsonl"))
    return [json.loads(line) for file in files for line in file.read_text(encoding="utf-8").splitlines()]


def _note(task: Task, **what: object) -> None:
    task.notes.parent.mkdir(parents=True, exist_ok=True)
    with task.notes.open("a", encoding="utf-8") as file:
        file.write(json.dumps({"item_id": task.item_id, "attempt": task.attempt, **what}) + "\n")


def _count(task: Task, event: str) -> int:
    """How often this has happened to the job item, in all its attempts, this time included."""
    _note(task, event=event)
    lines = task.notes.read_text(encoding="utf-8").splitlines()
    return sum(json.loads(line).get("event") == event for line in lines)


def _print(document: object) -> None:
    sys.stdout.write(json.dumps(document) + "\n")
    sys.stdout.flush()


def _hang() -> NoReturn:
    while True:
        time.sleep(600)


def _call_report(task: Task, result: object, *, item_id: str | None = None) -> bool:
    """`rowcrew report`, as a program would call it: row text, which an id is, stays out of the arguments."""
    environment = {**os.environ, "ROWCREW_ITEM_ID": task.item_id if item_id is None else item_id}
    done = subprocess.run(
        [sys.executable, "-m", "rowcrew", "report", "-"],
        input=json.dumps(result),
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    try:
        answer = json.loads(done.stdout)
    except ValueError:
        answer = {"accepted": False, "reason": None}
    _note(task, reported=result, to=environment["ROWCREW_ITEM_ID"], status=done.returncode, answer=answer)
    return bool(answer["accepted"])


def _ok(task: Task) -> int:
    time.sleep(task.number("after", 0))
    _print(task.report)
    return 0


def _hang_at_once(_: Task) -> int:
    _hang()


def _ignore_sigterm(_: Task) -> int:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    _hang()


def _kill9_self(task: Task) -> int:
    if task.attempt == 1 or "always" in task.options:
        os.kill(os.getpid(), signal.SIGKILL)
    return _ok(task)


def _rate_limited(task: Task) -> int:
    if _count(task, "rate limited") > task.number("times", 1):
        return _ok(task)
    _print({"retry_after": task.number("retry-after", 1), "message": "429 Too Many Requests"})
    return TRY_LATER


def _overloaded(task: Task) -> int:
    if _count(task, "overloaded") > task.number("times", 1):
        return _ok(task)
    sys.stderr.write("500 Internal Server Error\n")
    return TRY_LATER


def _quota_exhausted(_: Task) -> int:
    _print({"error": "account", "message": "the credit of this account is used up"})
    return TRY_LATER


def _end_without_report(_: Task) -> int:
    return 0


def _report_twice(task: Task) -> int:
    _call_report(task, task.report)
    return 3 if _call_report(task, {"v": "second"}) else 0


def _report_for(task: Task) -> int:
    return 3 if _call_report(task, {"v": "not mine"}, item_id=task.argument) else 0


def _report_not_object(task: Task) -> int:
    refused = not _call_report(task, [1])
    if refused and "always" not in task.options:
        _call_report(task, task.report)
    return 0


def _report_schema_miss(task: Task) -> int:
    for _ in range(int(task.number("times", 1))):
        if _call_report(task, {"v": 7}):
            return 0
    _call_report(task, task.report)
    return 0


def _report_late(task: Task) -> int:
    if task.attempt > 1:
        return _ok(task)

    def report(*_: object) -> None:
        time.sleep(task.number("after-timeout", 1))
        _call_report(task, {"v": "late"})
        os._exit(0)

    signal.signal(signal.SIGTERM, report)
    _hang()


def _spawn_child_then_hang(_: Task) -> int:
    subprocess.Popen(["sleep", "600"])
    _hang()


def _huge_line(task: Task) -> int:
    size = int(task.argument)
    bare = len(json.dumps({**task.report, "pad": ""})) + 1
    _print({**task.report, "pad": "x" * max(0, size - bare)})
    return 0


def _stderr_flood(task: Task) -> int:
    line = b"x" * 999 + b"\n"
    left = int(task.argument)
    while left > 0:
        left -= sys.stderr.buffer.write(line[-min(left, len(line)) :])
    sys.stderr.flush()
    return _ok(task)


def _report_then_hang(task: Task) -> int:
    _print(task.report)
    _hang()


VERBS: dict[str, Callable[[Task], int]] = {
    "429": _rate_limited,
    "500": _overloaded,
    "end-without-report": _end_without_report,
    "hang": _hang_at_once,
    "huge-line": _huge_line,
    "ignore-sigterm": _ignore_sigterm,
    "kill9-self": _kill9_self,
    "ok": _ok,
    "quota-exhausted": _quota_exhausted,
    "report-for": _report_for,
    "report-late": _report_late,
    "report-not-object": _report_not_object,
    "report-schema-miss": _report_schema_miss,
    "report-then-hang": _report_then_hang,
    "report-twice": _report_twice,
    "spawn-child-then-hang": _spawn_child_then_hang,
    "stderr-flood": _stderr_flood,
}


def main() -> int:
    """The exit status."""
    task = read_task(json.load(sys.stdin), Path(os.environ["ROWCREW_HOME"]))
    if task.verb not in VERBS:
        sys.stderr.write(f"unknown verb {task.verb!r}; known: {', '.join(VERBS)}\n")
        return 2
    return VERBS[task.verb](task)


if __name__ == "__main__":
    sys.exit(main())
