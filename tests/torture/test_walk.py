"""Random walks over the verbs of jobs, on a real home: after each step the books are right."""

import asyncio
import shutil
import sys
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import apsw
from hypothesis import seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from rowcrew.config import Settings
from rowcrew.domain.job import JobSettings, PausedReason, RetryPolicy
from rowcrew.engine import Engine
from rowcrew.errors import Conflict, InvalidRequest, NotFound
from rowcrew.scheduler.creation import JobRequest
from tests.torture.conftest import Torture

T = TypeVar("T")
ROWS = 6
WORKER = """
import asyncio

async def work(row):
    await asyncio.sleep(0)
    if row["do"] == "fail":
        raise ValueError("as asked")
    if row["do"] == "hang":
        await asyncio.sleep(3600)
    return {"did": row["do"]}

async def stop(row, context):
    context.stop()
    return {}
"""
doings = st.lists(st.sampled_from(["ok", "ok", "ok", "fail", "hang"]), min_size=ROWS, max_size=ROWS)
jobs = st.integers(min_value=0, max_value=5)


@contextmanager
def importable(folder: Path) -> Iterator[None]:
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))


class Walk(RuleBasedStateMachine):
    """Each rule is a verb; what it may refuse, it refuses with one of three errors."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="rowcrew-walk-"))
        (self.folder / "walked.py").write_text(WORKER)
        self.known: list[str] = []
        # What was reported once, and which jobs were completed once, for the comparison after each step.
        self.results: dict[tuple[str, str], str] = {}
        self.completed: set[str] = set()
        # Jobs whose worker stops them, after which they may go on.
        self.stopping: set[str] = set()
        self.tables = 0

    def teardown(self) -> None:
        shutil.rmtree(self.folder)

    def with_engine(self, work: Callable[[Engine], Awaitable[T]]) -> T | None:
        """One verb in an engine of its own, as a command has it. None where it was refused."""

        async def main() -> T:
            async with asyncio.timeout(60), Engine.open(Settings(home=self.folder / "home")) as engine:
                return await work(engine)

        try:
            with importable(self.folder):
                return asyncio.run(main())
        except (Conflict, InvalidRequest, NotFound):
            return None

    def named(self, place: int) -> str:
        return self.known[place % len(self.known)] if self.known else "0" * 8

    @rule(doing=doings, export=st.booleans(), function=st.sampled_from(["work", "work", "stop"]))
    def create(self, doing: list[str], *, export: bool, function: str) -> None:
        self.tables += 1
        source = self.folder / f"in-{self.tables}.csv"
        source.write_text("do\n" + "".join(f"{one}\n" for one in doing))
        wanted = JobSettings(
            worker=f"python:walked:{function}",
            max_concurrency=2,
            max_runtime_seconds=0.05,
            retry=RetryPolicy(max_attempts=2, base_delay=0.001, max_delay=0.001),
            working_folder=str(self.folder),
        )
        request = JobRequest(source, "{do}", settings=wanted, auto_export=export)

        async def work(engine: Engine) -> str:
            return (await engine.jobs.create_from_table(request)).job.id

        if (made := self.with_engine(work)) is not None:
            self.known.append(made)
            if function == "stop":
                self.stopping.add(made)

    @rule(place=jobs)
    def run_to_its_end(self, place: int) -> None:
        self.with_engine(lambda engine: self._run(engine, self.named(place)))

    @rule(place=jobs, verb=st.sampled_from(["interrupt", "pause", "cancel"]))
    def run_and_stop(self, place: int, verb: str) -> None:
        async def work(engine: Engine) -> Any:
            run = await engine.jobs.start(self.named(place))
            await asyncio.sleep(0)
            if verb == "interrupt":
                run.interrupt()
            else:
                await getattr(engine.jobs, verb)(self.named(place))
            return await run.done()

        self.with_engine(work)

    @rule(place=jobs, verb=st.sampled_from(["pause", "cancel", "view", "result", "items"]))
    def say(self, place: int, verb: str) -> None:
        self.with_engine(lambda engine: getattr(engine.jobs, verb)(self.named(place)))

    @rule(place=jobs, row=st.none() | st.integers(0, ROWS - 1))
    def retry(self, place: int, row: int | None) -> None:
        job_id = self.named(place)
        items = () if row is None else (f"row-{row + 1}",)
        if self.with_engine(lambda engine: engine.jobs.retry_failed(job_id, items)):
            self.completed.discard(job_id)

    @rule(place=jobs)
    def run_from_two_engines(self, place: int) -> None:
        """One of them runs it; the other is told so. Where nothing is left to run, neither does.

        After a worker's word to stop, the other one may have come to go on.
        """
        job_id = self.named(place)

        async def work(engine: Engine) -> int:
            async with Engine.open(Settings(home=self.folder / "home")) as other:
                runs = await asyncio.gather(
                    self._run(engine, job_id), self._run(other, job_id), return_exceptions=True
                )
            refused = [run for run in runs if isinstance(run, Exception)]
            assert [error for error in refused if not isinstance(error, (Conflict, NotFound))] == []
            return len(refused)

        assert self.with_engine(work) in ((0, 1, 2) if job_id in self.stopping else (1, 2))

    @rule(place=jobs, attempt=st.integers(0, 30))
    def report_late(self, place: int, attempt: int) -> None:
        """What an attempt says when nothing runs any more is not heard."""
        attempts = self.look("SELECT job_id, item_id, thread_id FROM agent_job_attempts ORDER BY id")
        if attempts:
            job_id, item_id, thread_id = attempts[attempt % len(attempts)]
            verdict = self.with_engine(
                lambda engine: engine.jobs.report(job_id, item_id, thread_id=thread_id, result={"late": 1})
            )
            assert verdict is not None
            assert not verdict.accepted

    @rule(place=jobs)
    def export(self, place: int) -> None:
        self.with_engine(lambda engine: engine.jobs.export(self.named(place), force=True))

    @rule(place=jobs)
    def remove(self, place: int) -> None:
        job_id = self.named(place)

        async def work(engine: Engine) -> bool:
            await engine.remove_job(job_id)
            return True

        if self.with_engine(work):
            self.known.remove(job_id)
            self.completed.discard(job_id)
            self.results = {key: text for key, text in self.results.items() if key[0] != job_id}

    async def _run(self, engine: Engine, job_id: str) -> Any:
        return await (await engine.jobs.start(job_id)).done()

    # -- what always holds ------------------------------------------------------------------------------

    def look(self, query: str) -> list[tuple[Any, ...]]:
        path = self.folder / "home" / "state_1.sqlite"
        if not path.exists():
            return []
        connection = apsw.Connection(str(path))
        try:
            return list(connection.execute(query))
        finally:
            connection.close()

    @invariant()
    def the_books_are_right(self) -> None:
        counted = self.look(
            "SELECT job_id, count(*), sum(status = 'pending'), sum(status = 'running'),"
            " sum(status = 'completed'), sum(status = 'failed') FROM agent_job_items GROUP BY 1 ORDER BY 1"
        )
        kept = self.look(
            "SELECT job_id, total, pending, running, completed, failed FROM agent_job_totals ORDER BY 1"
        )
        assert counted == kept
        assert {job_id for job_id, *_ in kept} == set(self.known)
        assert all(total == ROWS and running == 0 for _, total, _, running, _, _ in kept)

    @invariant()
    def nobody_runs_a_job(self) -> None:
        rows = self.look("SELECT status, lease_owner, paused_reason FROM agent_jobs")
        assert [row for row in rows if row[1] is not None or row[0] == "running"] == []
        assert {reason for _, _, reason in rows if reason} <= {str(reason) for reason in PausedReason}

    @invariant()
    def a_completed_job_stays_one_until_a_user_says_otherwise(self) -> None:
        # One with rows to run again has had a user's word: it may start, and be paused or cancelled.
        now = {
            job_id
            for (job_id,) in self.look(
                "SELECT id FROM agent_jobs JOIN agent_job_totals ON job_id = id"
                " WHERE status = 'completed' AND pending = 0"
            )
        }
        assert self.completed - now == set()
        self.completed = now

    @invariant()
    def a_row_has_one_report_and_keeps_it(self) -> None:
        twice = self.look(
            "SELECT item_id FROM agent_job_attempts WHERE outcome = 'reported' GROUP BY job_id, item_id"
            " HAVING count(*) > 1"
        )
        assert twice == []
        now = {
            (job_id, item_id): text
            for job_id, item_id, text in self.look(
                "SELECT job_id, item_id, result_json FROM agent_job_items WHERE status = 'completed'"
            )
        }
        assert {key: now.get(key) for key in self.results} == self.results
        self.results = now

    @invariant()
    def attempts_are_what_the_counts_say(self) -> None:
        wrong = self.look(
            "SELECT i.item_id FROM agent_job_items i WHERE i.attempt_count > (SELECT count(*) FROM"
            " agent_job_attempts a WHERE a.job_id = i.job_id AND a.item_id = i.item_id AND a.counted = 1)"
        )
        assert wrong == []
        assert self.look("SELECT id FROM agent_job_attempts WHERE outcome = 'running'") == []


def test_random_walks_over_the_verbs(torture: Torture) -> None:
    walks = torture.times(4)
    run_state_machine_as_test(
        # One seed, the same walks; the short form's are always the same.
        seed(torture.seed)(Walk),
        settings=settings(
            max_examples=walks,
            stateful_step_count=12 if not torture.is_long else 30,
            deadline=None,
            derandomize=not torture.is_long,
            database=None,
        ),
    )
    torture.tell(f"random walks over the verbs: {walks}, the books right after each step")
