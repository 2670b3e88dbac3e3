"""Reports: what is kept of one that could not be accepted, and how often an attempt may try."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rowcrew.domain.attempt import Usage
from rowcrew.domain.schema import OutputSchema
from rowcrew.scheduler.reports import MAX_RAW_ANSWER, Report, readable, take
from tests.store.job_store import JOB, open_store, side_by_side


def deep() -> Any:
    value: dict[str, Any] = {}
    for _ in range(100_000):
        value = {"a": value}
    return value


class Broken:
    def __repr__(self) -> str:
        raise RuntimeError("not now")


@pytest.mark.parametrize(
    ("result", "text"),
    [
        ({"a": [1, None]}, '{"a":[1,null]}'),
        ({"a": (1,)}, '{"a":[1]}'),
        ({1, 2}, "{1, 2}"),
        ({"a": float("nan")}, "{'a': nan}"),
        ({"a": "\ud800"}, '{"a":"?"}'),
        ({"a": 10**5000}, "(dict that cannot be shown)"),
        (deep(), "(dict that cannot be shown)"),
        (Broken(), "(Broken that cannot be shown)"),
    ],
    ids=["json", "tuple", "set", "nan", "surrogate", "integer", "deep", "broken"],
)
def test_it_is_text_whatever_it_was(result: object, text: str) -> None:
    assert readable(result) == text


def test_of_a_long_one_the_beginning_is_kept() -> None:
    assert readable("x" * 100_000) == '"' + "x" * (MAX_RAW_ANSWER - 1)


async def test_from_another_process_too_an_attempt_may_mend_its_report_a_few_times_only(
    tmp_path: Path,
) -> None:
    schema = OutputSchema.parse({"properties": {"v": {"type": "integer"}}})
    async with open_store(tmp_path) as store:
        await store.create(1)
        epoch = await store.run_job()
        await store.items(lambda items: items.claim(JOB, limit=1, epoch=epoch, now=3))
        await store.items(
            lambda items: items.assign(JOB, "r0", thread_id="t", process=None, epoch=epoch, now=3)
        )
        wrong, right = (Report(JOB, "r0", "t", {"v": value}) for value in ("x", 1))
        verdicts = [await take(store.database, report, schema, now=4) for report in (wrong,) * 3 + (right,)]
        miss = 'at $.v: "x" is not of type "integer"'
        assert [(verdict.accepted, verdict.reason, verdict.mendable) for verdict in verdicts] == [
            (False, miss, True),
            (False, miss, True),
            (False, miss, False),
            (
                False,
                "this attempt has broken the rules in too many reports; it is not heard any more",
                False,
            ),
        ]
        assert await store.sql("SELECT status, result_json FROM agent_job_items") == [("running", None)]


async def test_reports_that_come_side_by_side_fare_as_each_would_alone(tmp_path: Path) -> None:
    good = [Report(JOB, f"r{n}", f"t{n}", {"v": n}, usage=Usage(1, n)) for n in range(5)]
    groups = {
        "all good": good[:3],
        "twice the same": [good[0], good[0], good[1]],
        "of a stranger": [good[0], replace(good[1], thread_id="stranger"), good[2]],
        "of no such row": [replace(good[0], item_id="none"), good[1]],
        "one that stops the job": [good[0], replace(good[1], stop=True), good[2]],
        "of two leases": [good[0], replace(good[1], epoch=7), good[2]],
        "from here and from elsewhere": [good[0], replace(good[1], epoch=1), good[2]],
    }
    told: dict[str, list[object]] = {}
    for way in ("alone", "together"):
        for name, reports in groups.items():
            folder = tmp_path / way / name
            folder.mkdir(parents=True)
            async with open_store(folder) as store:
                await store.create(5)
                epoch = await store.run_job()
                await store.items(lambda items, epoch=epoch: items.claim(JOB, limit=5, epoch=epoch, now=3))
                for n in range(5):
                    await store.items(
                        lambda items, n=n, epoch=epoch: items.assign(
                            JOB, f"r{n}", thread_id=f"t{n}", process=None, epoch=epoch, now=3
                        )
                    )
                takes = (take(store.database, report, None, now=4) for report in reports)
                if way == "together":
                    verdicts = await side_by_side(store.database, *takes)
                else:
                    verdicts = [(await asyncio.gather(one, return_exceptions=True))[0] for one in takes]
                tables = ("agent_jobs", "agent_job_items", "agent_job_attempts", "agent_job_totals")
                rows = [await store.sql(f"SELECT * FROM {table}") for table in tables]
                told.setdefault(name, []).append(([repr(verdict) for verdict in verdicts], rows))
    for alone, together in told.values():
        assert together == alone
