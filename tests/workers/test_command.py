"""Command workers against real processes: the gate, what counts as a report, what an end means."""

import asyncio
import json
import os
import resource
import shlex
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from rowcrew.domain.ids import new_id
from rowcrew.errors import ErrorClass, InvalidRequest, LimitReached, RowcrewError
from rowcrew.processes import is_alive
from rowcrew.testing import RecordingReporter, Reported, make_order
from rowcrew.workers.command import CommandKind, open_command
from rowcrew.workers.contract import Ended, Verdict, Worker, WorkOrder

THREAD = new_id()
on_linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")


class Bench:
    """Starts command workers in one folder, each with a reporter that remembers."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.reporter = RecordingReporter()
        self.kinds: list[Any] = []

    def kind(self, words: str, **options: Any) -> CommandKind:
        kind = open_command(words, folder=self.folder, **options)
        assert isinstance(kind, CommandKind)
        self.kinds.append(kind)
        return kind

    async def shell(self, script: str, **order: Any) -> Worker:
        return await self.start(f"sh -c {shlex.quote(script)}", **order)

    async def python(self, script: str, **order: Any) -> Worker:
        path = self.folder / "program.py"
        path.write_text(script, encoding="utf-8")
        return await self.start(f"{shlex.quote(sys.executable)} -S program.py", **order)

    async def start(self, words: str, *, command_input: str = "json", **order: Any) -> Worker:
        return await self.kind(words, command_input=command_input).start(self.order(**order))

    def order(self, **order: Any) -> WorkOrder:
        """Its thread id is nobody else's: it is what the processes of an attempt are found and ended by."""
        return make_order(**{"home": self.folder, "report": self.reporter, "thread_id": new_id(), **order})

    @property
    def results(self) -> list[object]:
        return [reported.result for reported in self.reporter.reports]


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    bench = Bench(tmp_path)
    yield bench
    for kind in bench.kinds:
        await kind.close()


def _open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


async def _line_of(pipe: Path) -> str:
    """What a process writes into a named pipe, read without holding the loop."""
    return (await asyncio.to_thread(pipe.read_text)).strip()


def _is_gone(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return True
    return state in "ZX"


# -- before the first row ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("", "cannot be split into words: no program is named"),
        ("  ", "cannot be split into words: no program is named"),
        ("sh -c 'oops", "cannot be split into words: no closing quotation"),
        ("''", "no program '' is on the PATH"),
        ("no-such-program-here -x", "no program 'no-such-program-here' is on the PATH"),
        ("./missing.sh", "there is no file './missing.sh'"),
        ("./plain.txt", "'./plain.txt' is not executable"),
        ("./folder", "'./folder' is a folder"),
    ],
)
def test_a_command_that_cannot_run_is_refused_before_the_first_row(
    words: str, sentence: str, tmp_path: Path
) -> None:
    (tmp_path / "plain.txt").write_text("text")
    (tmp_path / "folder").mkdir()
    with pytest.raises(InvalidRequest) as caught:
        open_command(words, folder=tmp_path)
    assert sentence in caught.value.message


async def test_a_program_with_a_path_is_looked_for_in_the_folder_of_the_job(bench: Bench) -> None:
    script = bench.folder / "my worker.sh"
    script.write_text('#!/bin/sh\npwd | sed \'s/.*/{"folder": "&"}/\'\n')
    script.chmod(0o755)
    worker = await bench.start("'./my worker.sh'")
    assert await worker.work() == Ended()
    assert bench.results == [{"folder": str(bench.folder.resolve())}]


async def test_a_folder_that_went_away_is_a_failed_start(bench: Bench) -> None:
    kind = open_command("true", folder=bench.folder / "gone")
    with pytest.raises(RowcrewError, match="the process could not be started"):
        await kind.start(bench.order())


async def test_room_for_processes_is_what_the_open_files_allow(bench: Bench) -> None:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    room = bench.kind("true").max_concurrency
    assert room is not None
    assert 1 <= room <= max(soft, 4096) // 4


async def test_no_file_left_for_another_process_is_a_limit_while_others_run(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = bench.kind("sleep 600")
    order = bench.order()

    def refuse(*_: Any, **__: Any) -> None:
        raise OSError(24, "Too many open files")

    with monkeypatch.context() as patched:
        patched.setattr(subprocess, "Popen", refuse)
        with pytest.raises(RowcrewError, match="Too many open files") as alone:
            await kind.start(order)
    await kind.start(order)
    with monkeypatch.context() as patched:
        patched.setattr(subprocess, "Popen", refuse)
        with pytest.raises(LimitReached, match="Too many open files"):
            await kind.start(order)
    assert not isinstance(alone.value, LimitReached)


# -- the gate ---------------------------------------------------------------------------------------------


async def test_a_started_process_exists_but_runs_no_word_before_work(bench: Bench) -> None:
    worker = await bench.shell('touch ran; echo "{}"')
    assert worker.process is not None
    assert is_alive(worker.process)
    await worker.end(5)
    assert not is_alive(worker.process)
    assert not (bench.folder / "ran").exists()


async def test_the_process_keeps_its_pid_and_start_time_when_it_becomes_the_program(bench: Bench) -> None:
    worker = await bench.shell('echo "{\\"pid\\": $$}"')
    assert worker.process is not None
    assert await worker.work() == Ended()
    assert bench.results == [{"pid": worker.process.pid}]


async def test_work_after_an_end_runs_nothing(bench: Bench) -> None:
    worker = await bench.shell('touch ran; echo "{}"')
    await worker.end(0)
    ended = await worker.work()
    assert ended == Ended(ErrorClass.CRASHED, "killed by SIGKILL")
    assert not (bench.folder / "ran").exists()


async def test_an_end_during_the_start_of_work_leaves_nothing(bench: Bench) -> None:
    worker = await bench.shell("sleep 600")
    work = asyncio.create_task(worker.work())
    await worker.end(0)
    assert (await work).error_class is ErrorClass.CRASHED
    assert worker.process is not None
    assert not is_alive(worker.process)


ENGINE = """
import asyncio, os, sys
from pathlib import Path
from rowcrew.testing import RecordingReporter, make_order
from rowcrew.workers.command import open_command

async def main():
    kind = open_command("touch ran", folder=Path.cwd())
    worker = await kind.start(make_order(report=RecordingReporter(), thread_id=sys.argv[1]))
    print(worker.process.pid, flush=True)
    os.kill(os.getpid(), 9)

asyncio.run(main())
"""


@on_linux
def test_when_the_engine_dies_the_gate_closes(bench: Bench) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", ENGINE, THREAD], cwd=bench.folder, stdout=subprocess.PIPE, text=True
    ) as engine:
        assert engine.stdout is not None
        pid = int(engine.stdout.readline())
        assert engine.wait() == -signal.SIGKILL
    handle = None if _is_gone(pid) else os.pidfd_open(pid)
    if handle is not None:
        import select

        assert select.select([handle], [], [], 30)[0] == [handle]
        os.close(handle)
    assert not (bench.folder / "ran").exists()


# -- what the program is told -----------------------------------------------------------------------------


async def test_the_order_comes_as_one_line_of_json(bench: Bench) -> None:
    row = {"name": 'Zoë "quoted"\nsecond line', "n": "007"}
    schema = {"type": "object"}
    worker = await bench.shell("cat", row=row, output_schema=schema, prompt="The prompt.", attempt=2)
    assert await worker.work() == Ended()
    assert bench.results == [
        {
            "job_id": "job-1",
            "item_id": "row-1",
            "attempt": 2,
            "instruction": "Say what this is.",
            "row": row,
            "output_schema": schema,
            "prompt": "The prompt.",
        }
    ]


async def test_the_prompt_alone_comes_when_asked_for(bench: Bench) -> None:
    worker = await bench.start("tee seen", command_input="prompt", prompt="Line 1\nLine 2 ✓")
    assert (await worker.work()).error_class is ErrorClass.INVALID_RESULT
    assert (bench.folder / "seen").read_text(encoding="utf-8") == "Line 1\nLine 2 ✓\n"


async def test_the_environment_names_job_item_attempt_thread_and_home(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROWCREW_THREAD_ID", "outer")
    monkeypatch.setenv("OTHER", "kept")
    script = """
import json, os
names = ["ROWCREW_JOB_ID", "ROWCREW_ITEM_ID", "ROWCREW_ATTEMPT", "ROWCREW_THREAD_ID", "ROWCREW_HOME", "OTHER"]
print(json.dumps({name: os.environ.get(name) for name in names}))
"""
    worker = await bench.python(script, thread_id=THREAD)
    assert await worker.work() == Ended()
    assert bench.results == [
        {
            "ROWCREW_JOB_ID": "job-1",
            "ROWCREW_ITEM_ID": "row-1",
            "ROWCREW_ATTEMPT": "1",
            "ROWCREW_THREAD_ID": THREAD,
            "ROWCREW_HOME": str(bench.folder),
            "OTHER": "kept",
        }
    ]


@on_linux
async def test_the_program_has_three_open_files_and_a_session_of_its_own(bench: Bench) -> None:
    script = """
import json, os
print(json.dumps({"files": sorted(os.listdir("/proc/self/fd")), "leads": os.getsid(0) == os.getpid()}))
"""
    worker = await bench.python(script)
    assert await worker.work() == Ended()
    # The fourth is the folder being listed.
    assert bench.results == [{"files": ["0", "1", "2", "3"], "leads": True}]


async def test_words_are_not_read_by_a_shell(bench: Bench) -> None:
    worker = await bench.start("printf '{\"word\": \"%s\"}' '$HOME;`id`*'")
    assert await worker.work() == Ended()
    assert bench.results == [{"word": "$HOME;`id`*"}]


async def test_a_program_that_does_not_read_its_input_is_no_problem(bench: Bench) -> None:
    worker = await bench.shell('exec <&-; echo "{\\"v\\": 1}"', row={"text": "x" * 5_000_000})
    assert await worker.work() == Ended()
    assert bench.results == [{"v": 1}]


async def test_a_large_row_arrives_whole(bench: Bench) -> None:
    worker = await bench.shell("cat", row={"text": "é" * 3_000_000})
    assert await worker.work() == Ended()
    [result] = bench.results
    assert isinstance(result, dict)
    assert result["row"] == {"text": "é" * 3_000_000}


# -- what counts as a report ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    ['{"v": 1}', '\n {"v":\n1}\n\n', '```json\n{"v": 1}\n```\n', '\ufeff{"v": 1}\n'],
)
async def test_one_object_is_the_report(text: str, bench: Bench) -> None:
    worker = await bench.start(f"printf %s {shlex.quote(text)}")
    assert await worker.work() == Ended()
    assert bench.reporter.reports == [Reported({"v": 1}, stop=False, usage=None)]


async def test_stop_on_standard_output_is_a_result_like_any_other(bench: Bench) -> None:
    worker = await bench.shell('echo "{\\"stop\\": true}"')
    assert await worker.work() == Ended()
    assert bench.reporter.reports == [Reported({"stop": True}, stop=False, usage=None)]


async def test_nothing_said_and_a_good_end_is_for_the_store_to_judge(bench: Bench) -> None:
    worker = await bench.shell("echo; echo log >&2")
    assert await worker.work() == Ended()
    assert bench.results == []


@pytest.mark.parametrize("text", ["hello", "[1]", '{"v": 1} {"v": 2}', 'Here it is:\n```\n{"v": 1}\n```'])
async def test_anything_else_is_an_invalid_result_and_is_kept(text: str, bench: Bench) -> None:
    worker = await bench.start(f"printf %s {shlex.quote(text)}")
    ended = await worker.work()
    assert (ended.error_class, ended.raw_answer) == (ErrorClass.INVALID_RESULT, text)
    assert ended.message
    assert bench.results == []


async def test_output_that_is_no_text_is_an_invalid_result(bench: Bench) -> None:
    worker = await bench.shell('printf \'{"v": "\\377"}\'')
    assert await worker.work() == Ended(
        ErrorClass.INVALID_RESULT,
        "standard output is not UTF-8: byte 0xff at 7",
        raw_answer='{"v": "\ufffd"}',
    )


async def test_a_refused_result_is_invalid_with_the_reason(bench: Bench) -> None:
    bench.reporter.verdicts = [Verdict(accepted=False, reason="at $.v: 7 is not a string", mendable=True)]
    worker = await bench.shell('echo "{\\"v\\": 7}"')
    assert await worker.work() == Ended(
        ErrorClass.INVALID_RESULT, "at $.v: 7 is not a string", raw_answer='{"v": 7}\n'
    )


async def test_the_refusal_that_rowcrew_report_prints_is_not_taken_for_a_result(bench: Bench) -> None:
    answer = json.dumps({"accepted": False, "reason": "result must be a JSON object"})
    worker = await bench.shell(f"echo {shlex.quote(answer)}")
    ended = await worker.work()
    assert (ended.error_class, ended.message) == (
        ErrorClass.INVALID_RESULT,
        "`rowcrew report` was refused: result must be a JSON object",
    )
    assert bench.results == []


async def test_a_result_of_that_shape_is_one_when_the_schema_names_it(bench: Bench) -> None:
    result = {"accepted": False, "reason": "income too low"}
    schema = {"type": "object", "properties": {"accepted": {"type": "boolean"}}}
    worker = await bench.shell(f"echo {shlex.quote(json.dumps(result))}", output_schema=schema)
    assert await worker.work() == Ended()
    assert bench.results == [result]


async def test_a_line_of_many_bytes_is_a_report(bench: Bench) -> None:
    worker = await bench.python('print(\'{"v": "\' + "x" * 2_000_000 + \'"}\')')
    assert await worker.work() == Ended()
    assert bench.results == [{"v": "x" * 2_000_000}]


async def test_too_much_output_is_drained_and_refused(bench: Bench) -> None:
    worker = await bench.python('import sys\nfor _ in range(20):\n    sys.stdout.write("x" * (1 << 20))')
    ended = await worker.work()
    assert (ended.error_class, ended.message) == (
        ErrorClass.INVALID_RESULT,
        "standard output is longer than 16 MiB",
    )
    assert ended.raw_answer == "x" * (64 << 10)


# -- report, then live on ---------------------------------------------------------------------------------


class TellingReporter(RecordingReporter):
    """Says when the first report has come."""

    __slots__ = ("came",)

    def __init__(self) -> None:
        super().__init__()
        self.came = asyncio.Event()

    async def __call__(self, result: object, **options: Any) -> Verdict:
        verdict = await super().__call__(result, **options)
        self.came.set()
        return verdict


async def test_a_program_that_hangs_after_its_report_has_reported(bench: Bench) -> None:
    bench.reporter = TellingReporter()
    worker = await bench.shell('echo "{\\"v\\": 1}"; sleep 600')
    work = asyncio.create_task(worker.work())
    await asyncio.wait_for(bench.reporter.came.wait(), 30)
    assert not work.done()
    assert worker.process is not None
    assert is_alive(worker.process)
    await worker.end(5)
    assert await work == Ended()
    assert bench.results == [{"v": 1}]
    assert not is_alive(worker.process)


async def test_what_a_program_does_after_its_report_changes_nothing(bench: Bench) -> None:
    bench.reporter = TellingReporter()
    os.mkfifo(bench.folder / "go")
    worker = await bench.shell('echo "{\\"v\\": 1}"; cat go; echo more; exit 3')
    work = asyncio.create_task(worker.work())
    await asyncio.wait_for(bench.reporter.came.wait(), 30)
    await asyncio.to_thread((bench.folder / "go").write_text, "")
    assert await work == Ended()
    assert bench.results == [{"v": 1}]


async def test_an_object_in_pieces_is_waited_for(bench: Bench) -> None:
    worker = await bench.shell("printf '{\"v\":'; sleep 0.7; echo ' 1}'; sleep 0.1; echo")
    assert await worker.work() == Ended()
    assert bench.results == [{"v": 1}]


async def test_text_that_comes_soon_after_an_object_makes_it_no_report(bench: Bench) -> None:
    worker = await bench.shell("echo '{\"v\": 1}'; sleep 0.2; echo '{\"v\": 2}'; sleep 0.8")
    ended = await worker.work()
    assert (ended.error_class, bench.results) == (ErrorClass.INVALID_RESULT, [])


async def test_a_process_whose_report_was_refused_is_ended(bench: Bench) -> None:
    bench.reporter.verdicts = [Verdict(accepted=False, reason="at $.v: no", mendable=True)]
    worker = await bench.shell("echo '{\"v\": 1}'; exec sleep 600")
    assert await worker.work() == Ended(ErrorClass.INVALID_RESULT, "at $.v: no", raw_answer='{"v": 1}\n')
    assert worker.process is not None
    assert not is_alive(worker.process)


async def test_a_process_that_has_reported_by_itself_may_go_on(bench: Bench) -> None:
    bench.reporter.verdicts = [Verdict(accepted=False, reason="this item has been reported already")]
    worker = await bench.shell("echo '{\"accepted\": true}'; sleep 0.8; touch went-on")
    assert (await worker.work()).message == "this item has been reported already"
    assert (bench.folder / "went-on").exists()


# -- what an end means ------------------------------------------------------------------------------------


async def test_another_status_is_a_crash_with_the_end_of_standard_error(bench: Bench) -> None:
    worker = await bench.shell('echo "{\\"v\\": 1}"; echo "no such model" >&2; exit 3')
    assert await worker.work() == Ended(ErrorClass.CRASHED, "exited with status 3: no such model")
    assert bench.results == []


async def test_a_signal_is_a_crash_that_names_it(bench: Bench) -> None:
    worker = await bench.shell("kill -KILL $$")
    assert await worker.work() == Ended(ErrorClass.CRASHED, "killed by SIGKILL")


async def test_status_75_is_try_later(bench: Bench) -> None:
    worker = await bench.shell("echo overloaded >&2; exit 75")
    assert await worker.work() == Ended(ErrorClass.PROVIDER, "exited with status 75: overloaded")


async def test_what_goes_with_status_75_is_no_report_however_slowly_the_program_ends(bench: Bench) -> None:
    # Longer than output has to rest to count as the report of a program that lives on.
    script = """echo '{"retry_after": 3}'; sleep 1; exit 75"""
    worker = await bench.shell(script)
    ended = await worker.work()
    assert (ended.error_class, ended.retry_after, bench.results) == (ErrorClass.RATE_LIMITED, 3.0, [])


@pytest.mark.parametrize(
    ("said", "ended"),
    [
        ('{"retry_after": 2.5}', Ended(ErrorClass.RATE_LIMITED, "exited with status 75", retry_after=2.5)),
        (
            '{"retry_after": 3, "message": "429"}',
            Ended(ErrorClass.RATE_LIMITED, "429", retry_after=3.0),
        ),
        (
            '{"retry_after": 1e999}',
            Ended(ErrorClass.RATE_LIMITED, "exited with status 75", retry_after=86400.0),
        ),
        ('{"error": "account", "message": "no credit"}', Ended(ErrorClass.ACCOUNT, "no credit")),
        ('{"retry_after": true}', Ended(ErrorClass.PROVIDER, "exited with status 75")),
        ('{"retry_after": -1}', Ended(ErrorClass.PROVIDER, "exited with status 75")),
        ("later", Ended(ErrorClass.PROVIDER, "exited with status 75")),
    ],
)
async def test_status_75_may_say_why(said: str, ended: Ended, bench: Bench) -> None:
    worker = await bench.shell(f"echo {shlex.quote(said)}; exit 75")
    got = await worker.work()
    if "1e999" in said and got.error_class is ErrorClass.PROVIDER:
        ended = Ended(ErrorClass.PROVIDER, "exited with status 75")  # a number that JSON readers may refuse
    assert got == ended
    assert bench.results == []


async def test_a_flood_on_standard_error_neither_blocks_nor_fills_memory(bench: Bench) -> None:
    script = """
import sys
for n in range(5000):
    sys.stderr.write(f"{n:05} " + "x" * 993 + "\\n")
sys.exit(1)
"""
    worker = await bench.python(script)
    ended = await worker.work()
    assert ended.error_class is ErrorClass.CRASHED
    assert ended.message is not None
    assert ended.message.startswith("exited with status 1: …")
    assert "\n04999 x" in ended.message
    assert len(ended.message) < 2100


async def test_a_nul_on_standard_error_does_not_reach_the_store(bench: Bench) -> None:
    worker = await bench.shell("printf 'a\\000b' >&2; exit 1")
    assert await worker.work() == Ended(ErrorClass.CRASHED, "exited with status 1: a\ufffdb")


# -- ending what runs -------------------------------------------------------------------------------------


async def test_a_process_is_asked_first(bench: Bench) -> None:
    os.mkfifo(bench.folder / "ready")
    script = """
import signal, sys, time
def asked(*_):
    open("asked", "w").write("asked")
    sys.exit(0)
signal.signal(signal.SIGTERM, asked)
open("ready", "w").write("x")
time.sleep(600)
"""
    worker = await bench.python(script)
    work = asyncio.create_task(worker.work())
    await _line_of(bench.folder / "ready")
    await worker.end(30)
    assert await work == Ended()
    assert (bench.folder / "asked").read_text() == "asked"


async def test_a_process_that_does_not_listen_is_made_to_end(bench: Bench) -> None:
    os.mkfifo(bench.folder / "ready")
    worker = await bench.shell("trap '' TERM; echo x > ready; sleep 600; sleep 600")
    work = asyncio.create_task(worker.work())
    await _line_of(bench.folder / "ready")
    await worker.end(0.2)
    assert await work == Ended(ErrorClass.CRASHED, "killed by SIGKILL")
    assert worker.process is not None
    assert not is_alive(worker.process)


async def test_a_second_shorter_end_does_not_wait_for_the_first(bench: Bench) -> None:
    os.mkfifo(bench.folder / "ready")
    worker = await bench.shell("trap '' TERM; echo x > ready; sleep 600; sleep 600")
    work = asyncio.create_task(worker.work())
    await _line_of(bench.folder / "ready")
    patient = asyncio.create_task(worker.end(600))
    await asyncio.wait_for(worker.end(0), 30)
    await asyncio.wait_for(patient, 30)
    assert (await work).message == "killed by SIGKILL"


async def test_a_stopped_process_is_ended_too(bench: Bench) -> None:
    os.mkfifo(bench.folder / "ready")
    worker = await bench.shell("echo x > ready; kill -STOP $$; sleep 600")
    work = asyncio.create_task(worker.work())
    await _line_of(bench.folder / "ready")
    await worker.end(30)
    assert (await work).message == "killed by SIGTERM"


async def test_cancelled_work_leaves_no_process(bench: Bench) -> None:
    os.mkfifo(bench.folder / "ready")
    worker = await bench.shell("sleep 600 & echo $! > ready; wait")
    work = asyncio.create_task(worker.work())
    child = int(await _line_of(bench.folder / "ready"))
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    assert worker.process is not None
    assert not is_alive(worker.process)
    assert _is_gone(child)


async def test_a_report_that_the_store_cannot_take_ends_the_process(bench: Bench) -> None:
    async def broken(*_: Any, **__: Any) -> Verdict:
        raise RowcrewError("the store is broken")

    worker = await bench.shell("echo '{\"v\": 1}'; exec sleep 600", report=broken)
    with pytest.raises(RowcrewError, match="the store is broken"):
        await worker.work()
    assert worker.process is not None
    assert not is_alive(worker.process)


async def test_closing_the_kind_ends_what_still_lives(bench: Bench) -> None:
    worker = await bench.shell("sleep 600")
    work = asyncio.create_task(worker.work())
    await bench.kinds[0].close()
    assert (await work).message == "killed by SIGKILL"


# -- what is left behind ----------------------------------------------------------------------------------


@on_linux
async def test_children_that_hold_the_pipes_are_ended_with_the_program(bench: Bench) -> None:
    worker = await bench.shell('sleep 600 & echo "{\\"child\\": $!}"')
    assert await worker.work() == Ended()
    [result] = bench.results
    assert isinstance(result, dict)
    assert _is_gone(result["child"])


async def test_output_that_a_child_writes_shortly_after_the_end_still_counts(bench: Bench) -> None:
    worker = await bench.shell("(sleep 0.1; echo '{\"v\": 1}') &")
    assert await worker.work() == Ended()
    assert bench.results == [{"v": 1}]


DAEMON = """
import os, time
os.mkfifo("ready")
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        with open("ready", "w") as file:
            file.write(str(os.getpid()))
        time.sleep(600)
    os._exit(0)
os.wait()
"""


@on_linux
async def test_a_daemon_of_a_program_that_ended_well_is_gone_too(bench: Bench) -> None:
    worker = await bench.python(DAEMON + "pid = int(open('ready').read())\nprint('{\"daemon\": %d}' % pid)")
    assert await worker.work() == Ended()
    [result] = bench.results
    assert isinstance(result, dict)
    assert _is_gone(result["daemon"])


@on_linux
async def test_a_daemon_of_a_program_that_is_ended_is_gone_too(bench: Bench) -> None:
    os.mkfifo(bench.folder / "daemon")
    worker = await bench.python(DAEMON + "open('daemon', 'w').write(open('ready').read())\ntime.sleep(600)")
    work = asyncio.create_task(worker.work())
    daemon = int(await _line_of(bench.folder / "daemon"))
    assert not _is_gone(daemon)
    await worker.end(0.2)
    await work
    assert _is_gone(daemon)


@on_linux
async def test_no_file_stays_open_after_many_workers(bench: Bench) -> None:
    kind = bench.kind("sh -c 'echo {}'")
    before = _open_files()

    async def attempt(number: int) -> Ended:
        worker = await kind.start(bench.order())
        if number % 5 == 0:
            await worker.end(0)
        return await worker.work()

    ended = await asyncio.gather(*(attempt(number) for number in range(40)))
    assert [one.error_class for one in ended] == [ErrorClass.CRASHED, None, None, None, None] * 8
    assert _open_files() == before


@on_linux
async def test_a_system_without_process_handles_has_threads_instead(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "pidfd_open")
    worker = await bench.shell('sleep 600 & echo "{\\"child\\": $!}"')
    assert await worker.work() == Ended()
    hanging = await bench.shell("exec sleep 600")
    work = asyncio.create_task(hanging.work())
    await hanging.end(30)
    assert (await work).error_class is ErrorClass.CRASHED
    [result] = bench.results
    assert isinstance(result, dict)
    assert _is_gone(result["child"])


def test_commands_work_on_uvloop_too(tmp_path: Path) -> None:
    import uvloop

    async def story() -> list[object]:
        bench = Bench(tmp_path)
        worker = await bench.shell("cat", row={"text": "x" * 1_000_000})
        assert await worker.work() == Ended()
        bench.reporter = TellingReporter()
        hanging = await bench.shell('echo "{\\"v\\": 1}"; sleep 600')
        work = asyncio.create_task(hanging.work())
        await asyncio.wait_for(bench.reporter.came.wait(), 30)
        await hanging.end(5)
        assert await work == Ended()
        return bench.results

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert runner.run(story()) == [{"v": 1}]
