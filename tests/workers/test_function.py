"""Function workers: how a function is found and called, what its end means, and what cannot be ended."""

import asyncio
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rowcrew.errors import ErrorClass, InvalidRequest
from rowcrew.testing import RecordingReporter, Reported, make_order
from rowcrew.workers.contract import Ended, Verdict, WorkerKind
from rowcrew.workers.function import open_function


@pytest.fixture(autouse=True)
def _clean_imports() -> Iterator[None]:
    """What a test imports is forgotten after it."""
    path, modules = list(sys.path), set(sys.modules)
    yield
    sys.path[:] = path
    for name in set(sys.modules) - modules:
        del sys.modules[name]


class Bench:
    """Writes a module into a folder and calls its function once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.reporter = RecordingReporter()

    def kind(self, source: str, target: str = "rows:work") -> WorkerKind:
        (self.folder / "rows.py").write_text(source, encoding="utf-8")
        return open_function(target, self.folder)

    async def ended(self, source: str, **order: Any) -> Ended:
        kind = self.kind(source)
        worker = await kind.start(make_order(report=self.reporter, home=self.folder, **order))
        assert worker.process is None
        try:
            return await asyncio.wait_for(worker.work(), 30)
        finally:
            await kind.close()

    @property
    def results(self) -> list[object]:
        return [reported.result for reported in self.reporter.reports]


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


# -- before the first row -------------------------------------------------------------------------------


@pytest.mark.parametrize("target", ["", "rows", "rows:", ":work", "ro ws:work", "rows:wo-rk", "rows.py:work"])
def test_what_names_no_function_is_refused(target: str, bench: Bench) -> None:
    with pytest.raises(InvalidRequest) as caught:
        bench.kind("", target)
    assert caught.value.message in (
        f"{target!r} does not name a Python function",
        f"there is no Python module 'rows.py' in {bench.folder} or among the installed ones",
    )
    assert caught.value.hint is not None


@pytest.mark.parametrize(
    ("source", "target", "sentence"),
    [
        ("", "no_such_module:work", "there is no Python module 'no_such_module' in "),
        ("", "rows.inner:work", "there is no Python module 'rows.inner' in "),
        ("import no_such_library", "rows:work", "ModuleNotFoundError: No module named 'no_such_library'"),
        ("def work(", "rows:work", "the Python module rows cannot be imported: SyntaxError: "),
        (
            "1 / 0",
            "rows:work",
            "the Python module rows cannot be imported: ZeroDivisionError: division by zero",
        ),
        ("import sys; sys.exit(3)", "rows:work", "the Python module rows cannot be imported: SystemExit: 3"),
        ("def other(row): pass", "rows:work", "the Python module rows has no function 'work'"),
        ("work = 7", "rows:work", "rows:work is not a function but int"),
        ("def work(): pass", "rows:work", "rows:work cannot be called with a row"),
        ("def work(a, b, c): pass", "rows:work", "rows:work cannot be called with a row"),
        ("def work(row, *, key): pass", "rows:work", "rows:work cannot be called with a row"),
        ("def work(row): yield {}", "rows:work", "rows:work yields, and a report is one object"),
        ("async def work(row): yield {}", "rows:work", "rows:work yields, and a report is one object"),
    ],
)
def test_a_function_that_cannot_be_called_is_refused_with_the_reason(
    source: str, target: str, sentence: str, bench: Bench
) -> None:
    with pytest.raises(InvalidRequest) as caught:
        bench.kind(source, target)
    assert sentence in caught.value.message


def test_a_file_name_in_place_of_a_module_is_put_right(bench: Bench) -> None:
    with pytest.raises(InvalidRequest) as caught:
        bench.kind("def work(row): pass", "rows.py:work")
    assert caught.value.hint == "leave out `.py`: `python:rows:FUNCTION`"


def test_the_functions_that_are_there_are_named(bench: Bench) -> None:
    with pytest.raises(InvalidRequest) as caught:
        bench.kind("def other(row): pass\ndef more(row): pass")
    assert caught.value.hint == "it has: more, other"


# -- how it is called -----------------------------------------------------------------------------------


async def test_it_is_called_with_the_row(bench: Bench) -> None:
    source = "def work(row): return {'got': row, 'kind': type(row).__name__}"
    assert await bench.ended(source, row={"name": "apple", "n": "007"}) == Ended()
    assert bench.reporter.reports == [
        Reported({"got": {"name": "apple", "n": "007"}, "kind": "dict"}, stop=False, usage=None)
    ]


async def test_it_is_called_with_a_context_when_it_takes_two(bench: Bench) -> None:
    source = """
def work(row, ctx):
    return [ctx.job_id, ctx.item_id, ctx.attempt, ctx.instruction, ctx.output_schema]
"""
    assert await bench.ended(source, attempt=2, output_schema={"type": "object"}) == Ended()
    assert bench.results == [["job-1", "row-1", 2, "Say what this is.", {"type": "object"}]]


@pytest.mark.parametrize(
    ("source", "result"),
    [
        ("def work(row, context=None): return {'v': context.attempt}", {"v": 1}),
        ("def work(row, size=3): return {'v': size}", {"v": 3}),
        ("def work(*rows): return {'v': len(rows)}", {"v": 1}),
        ("def work(row, **options): return {'v': options}", {"v": {}}),
        ("class Work:\n  def __call__(self, row): return {'v': 1}\nwork = Work()", {"v": 1}),
        ("class Work:\n  async def __call__(self, row): return {'v': 2}\nwork = Work()", {"v": 2}),
        ("from functools import partial\ndef f(v, row): return {'v': v}\nwork = partial(f, 4)", {"v": 4}),
        ("async def f(row): return {'v': 5}\nwork = lambda row: f(row)", {"v": 5}),
        ("async def work(row, context): return {'v': context.item_id}", {"v": "row-1"}),
    ],
)
async def test_all_usual_shapes_of_functions_are_called_rightly(
    source: str, result: object, bench: Bench
) -> None:
    assert await bench.ended(source) == Ended()
    assert bench.results == [result]


async def test_a_function_within_a_class_of_a_package_is_found(bench: Bench) -> None:
    package = bench.folder / "pack"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "inner.py").write_text("class Tools:\n  @staticmethod\n  def work(row): return {'v': 1}")
    kind = open_function("pack.inner:Tools.work", bench.folder)
    worker = await kind.start(make_order(report=bench.reporter))
    assert await worker.work() == Ended()
    assert bench.results == [{"v": 1}]
    await kind.close()


async def test_two_folders_with_a_module_of_the_same_name_are_two(tmp_path: Path) -> None:
    kinds = []
    reporter = RecordingReporter()
    for name in ("one", "two"):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "same.py").write_text(f"NAME = {name!r}\ndef work(row): return {{'v': NAME}}")
        kinds.append(open_function("same:work", folder))
    for kind in kinds:
        assert await (await kind.start(make_order(report=reporter))).work() == Ended()
        await kind.close()
    assert [reported.result for reported in reporter.reports] == [{"v": "one"}, {"v": "two"}]


async def test_stop_goes_with_the_report(bench: Bench) -> None:
    source = "def work(row, context):\n  context.stop()\n  return {'v': 1}"
    assert await bench.ended(source) == Ended()
    assert bench.reporter.reports == [Reported({"v": 1}, stop=True, usage=None)]


# -- what its end means ---------------------------------------------------------------------------------


async def test_none_is_no_report(bench: Bench) -> None:
    assert await bench.ended("def work(row): pass") == Ended()
    assert bench.results == []


async def test_a_pydantic_model_is_reported_as_its_json(bench: Bench) -> None:
    source = """
import datetime, pydantic
class Answer(pydantic.BaseModel):
    day: datetime.date
def work(row): return Answer(day=datetime.date(2024, 2, 29))
"""
    assert await bench.ended(source) == Ended()
    assert bench.results == [{"day": "2024-02-29"}]


@pytest.mark.parametrize("error", ["SystemExit(3)", "KeyboardInterrupt()", "ValueError('bad')"])
async def test_a_model_that_breaks_as_it_is_dumped_ends_its_row_alone(bench: Bench, error: str) -> None:
    source = f"""
class Answer:
    def __repr__(self): return "an answer"
    def model_dump(self, mode): raise {error}
def work(row): return Answer()
"""
    ended = await bench.ended(source)
    message = error.removesuffix("()").replace("(", ": ").replace(")", "").replace("'", "")
    assert ended == Ended(ErrorClass.INVALID_RESULT, message, raw_answer="an answer")
    assert bench.results == []


async def test_a_refused_result_is_invalid_and_is_kept(bench: Bench) -> None:
    bench.reporter.verdicts = [Verdict(accepted=False, reason="result must be a JSON object", mendable=True)]
    assert await bench.ended("def work(row): return {1, 2}") == Ended(
        ErrorClass.INVALID_RESULT, "result must be a JSON object", raw_answer="{1, 2}"
    )


@pytest.mark.parametrize("define", ["def", "async def"])
@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("raise ValueError('bad')", "ValueError: bad"),
        ("raise ValueError", "ValueError"),
        ("raise SystemExit(3)", "SystemExit: 3"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt"),
        ("import asyncio; raise asyncio.CancelledError", "CancelledError"),
        ("next(iter(()))", "StopIteration"),
        ("raise ValueError('a\\0b')", "ValueError: a\ufffdb"),
    ],
)
async def test_an_exception_is_a_crash_with_its_type_and_text(
    define: str, statement: str, message: str, bench: Bench
) -> None:
    ended = await bench.ended(f"{define} work(row):\n  {statement}")
    if (define, statement) == ("async def", "next(iter(()))"):
        message = "RuntimeError: coroutine raised StopIteration"  # as Python has it
    assert ended == Ended(ErrorClass.CRASHED, message)
    assert bench.results == []


async def test_an_exception_that_cannot_be_shown_is_a_crash_all_the_same(bench: Bench) -> None:
    source = """
class Odd(Exception):
    def __str__(self): raise RuntimeError
def work(row): raise Odd
"""
    assert await bench.ended(source) == Ended(ErrorClass.CRASHED, "Odd: (its text cannot be shown)")


async def test_a_model_error_keeps_its_class(bench: Bench) -> None:
    source = """
from rowcrew.errors import ErrorClass, ModelError
def work(row): raise ModelError("slow down", error_class=ErrorClass.RATE_LIMITED, retry_after=2)
"""
    assert await bench.ended(source) == Ended(ErrorClass.RATE_LIMITED, "slow down", retry_after=2)


# -- ending ---------------------------------------------------------------------------------------------


HELD = """
import threading
started, go, returned = threading.Event(), threading.Event(), threading.Event()
def work(row):
    started.set()
    go.wait()
    returned.set()
    return {"v": "late"}
"""


async def test_a_function_that_hangs_is_left_behind_and_its_late_answer_dropped(bench: Bench) -> None:
    kind = bench.kind(HELD)
    module = sys.modules["rows"]
    worker = await kind.start(make_order(report=bench.reporter))
    work = asyncio.create_task(worker.work())
    await asyncio.to_thread(module.started.wait)
    await worker.end(0)
    assert await work == Ended()
    await kind.close()
    module.go.set()
    await asyncio.to_thread(module.returned.wait)
    assert bench.results == []


async def test_a_hung_function_does_not_hold_up_the_others(bench: Bench) -> None:
    source = HELD.replace("def work(row):", "def work(row):\n    if row['name'] == 'quick': return {'v': 1}")
    kind = bench.kind(source)
    module = sys.modules["rows"]
    hung = [asyncio.create_task((await kind.start(make_order(report=bench.reporter))).work()) for _ in "abc"]
    quick = await kind.start(make_order(report=bench.reporter, row={"name": "quick"}))
    assert await asyncio.wait_for(quick.work(), 30) == Ended()
    assert bench.results == [{"v": 1}]
    module.go.set()
    assert await asyncio.gather(*hung) == [Ended()] * 3
    await kind.close()


async def test_a_function_that_returns_within_the_grace_time_has_reported(bench: Bench) -> None:
    kind = bench.kind(HELD)
    module = sys.modules["rows"]
    worker = await kind.start(make_order(report=bench.reporter))
    work = asyncio.create_task(worker.work())
    await asyncio.to_thread(module.started.wait)
    end = asyncio.create_task(worker.end(30))
    module.go.set()
    assert await work == Ended()
    await end
    assert bench.results == [{"v": "late"}]
    await kind.close()


ASYNC_HELD = """
import asyncio
started, undone = asyncio.Event(), []
async def work(row):
    started.set()
    try:
        await asyncio.Event().wait()
    finally:
        undone.append(row["name"])
"""


async def test_an_async_function_is_cancelled_and_may_undo(bench: Bench) -> None:
    kind = bench.kind(ASYNC_HELD)
    module = sys.modules["rows"]
    worker = await kind.start(make_order(report=bench.reporter))
    work = asyncio.create_task(worker.work())
    await module.started.wait()
    await worker.end(30)
    await worker.end(0)
    assert await work == Ended()
    assert module.undone == ["apple"]


STUBBORN = """
import asyncio
started, undone = asyncio.Event(), []
async def work(row):
    started.set()
    try:
        while True:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                pass
    finally:
        undone.append(row["name"])
"""


@pytest.mark.parametrize("function", ["async def work(row):", "async def real(row):"])
async def test_an_async_function_that_takes_no_cancellation_is_broken_off(
    bench: Bench, function: str
) -> None:
    source = STUBBORN.replace("async def work(row):", function)
    # A `def` that hands out a coroutine is one, too.
    kind = bench.kind(source if "work" in function else f"{source}\ndef work(row): return real(row)\n")
    module = sys.modules["rows"]
    worker = await kind.start(make_order(report=bench.reporter))
    work = asyncio.create_task(worker.work())
    await module.started.wait()
    await worker.end(0)
    assert await asyncio.wait_for(work, 30) == Ended()
    assert bench.results == []
    assert module.undone == ["apple"]
    await kind.close()


async def test_cancelled_work_cancels_an_async_function(bench: Bench) -> None:
    kind = bench.kind(ASYNC_HELD)
    module = sys.modules["rows"]
    worker = await kind.start(make_order(report=bench.reporter))
    work = asyncio.create_task(worker.work())
    await module.started.wait()
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    assert module.undone == ["apple"]


async def test_work_after_an_end_calls_nothing(bench: Bench) -> None:
    kind = bench.kind("def work(row): return {'v': 1}")
    worker = await kind.start(make_order(report=bench.reporter))
    await worker.end(0)
    assert await worker.work() == Ended()
    assert bench.results == []


async def test_threads_are_used_again_and_end_with_the_kind(bench: Bench) -> None:
    kind = bench.kind("def work(row): return {'v': 1}")
    for _ in range(20):
        worker = await kind.start(make_order(report=bench.reporter))
        assert await worker.work() == Ended()
    threads = [one for one in threading.enumerate() if one.name.startswith("row-function")]
    assert len(threads) == 1
    await kind.close()
    threads[0].join(30)
    assert not threads[0].is_alive()


PROGRAM = """
import asyncio
from pathlib import Path
from rowcrew.testing import RecordingReporter, make_order
from rowcrew.workers.function import open_function

async def main():
    kind = open_function("rows:work", Path.cwd())
    worker = await kind.start(make_order(report=RecordingReporter()))
    work = asyncio.ensure_future(worker.work())
    import rows
    await asyncio.to_thread(rows.started.wait)
    await worker.end(0)
    print(await work)
    await kind.close()

asyncio.run(main())
"""


def test_a_hung_function_does_not_keep_the_program_from_ending(bench: Bench) -> None:
    bench.folder.joinpath("rows.py").write_text(HELD)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=bench.folder, capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, str(Ended()), "")
