"""Reports: what is kept of one that could not be accepted, and how often an attempt may try."""

from pathlib import Path
from typing import Any

import pytest

from rowcrew.domain.schema import OutputSchema
from rowcrew.scheduler.reports import MAX_RAW_ANSWER, Report, readable, take
from tests.store.job_store import JOB, open_store


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
