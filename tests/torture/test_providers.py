"""Providers at their worst: storms of 429, 5xx, cut streams, half JSON, silence, and credit that runs out."""

import csv
import json
import random
from collections import Counter
from pathlib import Path

from rowcrew.config import Settings
from rowcrew.domain.job import JobSettings, RetryPolicy
from rowcrew.engine import Engine
from rowcrew.scheduler.creation import JobRequest
from rowcrew.testing import (
    Answer,
    Cut,
    HalfJson,
    ModelServer,
    Received,
    Reply,
    Silence,
    out_of_credit,
    overloaded,
    rate_limited,
)
from tests.torture.conftest import Torture

GOOD = Reply('{"ok": true}')


def table(folder: Path, rows: int) -> Path:
    path = folder / "in.csv"
    path.write_text("id\n" + "".join(f"r{number}\n" for number in range(rows)))
    return path


def job(source: Path, url: str, *, concurrency: int, seconds: float = 30.0) -> JobRequest:
    settings = JobSettings(
        worker="oneshot",
        model="openai-chat:m",
        base_url=url,
        max_concurrency=concurrency,
        max_runtime_seconds=seconds,
        retry=RetryPolicy(max_attempts=1000, base_delay=0.01, max_delay=0.05),
    )
    return JobRequest(source, "Say ok to {id}.", settings=settings, output_path=source.with_name("out.csv"))


async def test_a_provider_that_does_all_it_can_loses_no_row(tmp_path: Path, torture: Torture) -> None:
    rows = 500 if torture.is_long else 24
    chance = torture.random("providers")
    answered = Counter[str]()

    def answer(_: Received) -> Answer:
        kinds: dict[str, Answer] = {
            "429": rate_limited(0.05),
            "5xx": overloaded(),
            "cut": Cut(),
            "half": HalfJson(),
            "wrong": Reply("no JSON at all"),
            "good": GOOD,
        }
        kind = chance.choices([*kinds, "silence"], weights=[20, 15, 10, 10, 5, 38, 2])[0]
        answered[kind] += 1
        return kinds.get(kind) or Silence()

    async with ModelServer(answer) as server, Engine.open(Settings(home=tmp_path / "home")) as engine:
        request = job(table(tmp_path, rows), server.url, concurrency=16, seconds=1.0)
        created = await engine.jobs.create_from_table(request)
        result = await (await engine.jobs.start(created.job.id)).done()
        attempts = await engine.state.read(
            lambda connection: list(
                connection.execute(
                    "SELECT error_class, counted, count(*) FROM agent_job_attempts GROUP BY 1, 2"
                )
            )
        )
    assert (result.status, result.completed_items, result.failed_items) == ("completed", rows, 0)
    with (tmp_path / "out.csv").open(newline="") as file:
        written = list(csv.DictReader(file))
    assert [json.loads(row["result_json"]) for row in written] == [{"ok": True}] * rows
    uncounted = sum(count for error, counted, count in attempts if not counted)
    assert uncounted == sum(count for error, _, count in attempts if error == "rate_limited")
    assert sum(int(row["attempt_count"]) for row in written) == sum(
        count for _, counted, count in attempts if counted
    )
    kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(answered.items()))
    torture.tell(f"a provider at its worst: {rows} rows, all completed, by these answers: {kinds}")


async def test_credit_that_runs_out_pauses_the_job_and_burns_no_row(tmp_path: Path, torture: Torture) -> None:
    rows, paid, concurrency = 500, 50, 16
    left = paid

    def answer(_: Received) -> Answer:
        nonlocal left
        left -= 1
        return GOOD if left >= 0 else out_of_credit()

    async with ModelServer(answer) as server, Engine.open(Settings(home=tmp_path / "home")) as engine:
        created = await engine.jobs.create_from_table(
            job(table(tmp_path, rows), server.url, concurrency=concurrency)
        )
        job_id = created.job.id
        await (await engine.jobs.start(job_id)).done()
        paused = (await engine.jobs.view(job_id)).job
        asked = len(server.requests)
        assert (str(paused.status), str(paused.paused_reason)) == ("paused", "account")
        assert (paused.counts.completed, paused.counts.failed, paused.counts.running) == (paid, 0, 0)
        # Those that were under way, and no more.
        assert asked <= paid + concurrency
        left = rows
        result = await (await engine.jobs.start(job_id)).done()
    assert (result.status, result.completed_items, result.failed_items) == ("completed", rows, 0)
    torture.tell(f"credit gone at row {paid} of {rows}: {asked - paid} requests refused, 0 rows failed")


def test_the_same_seed_tortures_in_the_same_way(torture: Torture) -> None:
    assert torture.random("x").random() == random.Random(f"{torture.seed} x").random()
