"""What a job used and cost, summed over attempts and sessions, and what is said when a part is unknown."""

import re
from typing import Any

import pytest

from rowcrew.testing import CallTool, Reply
from rowcrew.testing.answers import Received
from tests.cli.conftest import Desk
from tests.served import ServerThread

PRICES = """
[prices."openai-chat:m"]
input = 1.0
cached_input = 0.5
output = 10
"""
TOKENS: dict[str, Any] = {
    "input_tokens": 1000,
    "cached_tokens": 400,
    "output_tokens": 50,
    "reasoning_tokens": 20,
}


class Reporter:
    """A model whose report about Grace is no object, until it is `mended`."""

    mended = False

    def __call__(self, received: Received) -> Reply:
        named = re.search(r"Job ID: (\S+)\nItem ID: (\S+)", received.text)
        assert named
        good = self.mended or named[2] != "b2"
        values = {"job_id": named[1], "item_id": named[2], "result": {"n": 1} if good else []}
        return Reply(calls=[CallTool("report_agent_job_result", values)], **TOKENS)


def used(requests: int, **cost: Any) -> dict[str, Any]:
    return {
        "requests": requests,
        "input_tokens": 1000 * requests,
        "cached_input_tokens": 400 * requests,
        "output_tokens": 50 * requests,
        "reasoning_tokens": 20 * requests,
        **cost,
    }


@pytest.fixture
def model() -> Reporter:
    return Reporter()


def run(desk: Desk, url: str) -> int:
    given = [
        "people.csv",
        "--id-column",
        "id",
        "-i",
        "Greet {name}",
        "-m",
        "openai-chat:m",
        "--base-url",
        url,
    ]
    return desk.rowcrew("run", *given, "--max-attempts", "2", "--progress", "none").code


def test_the_cost_is_the_sum_over_all_attempts_and_sessions(desk: Desk, model: Reporter) -> None:
    (desk.folder / "rowcrew.toml").write_text(PRICES)
    with ServerThread(model) as served:
        assert run(desk, served.server.url) == 100
        model.mended = True
        retried = desk.rowcrew("retry")
    assert (retried.code, retried.err.splitlines()[-1]) == (0, "Cost: $0.011700")
    # Two rows at once; Grace's with three requests in each of two attempts, and one after the retry.
    usage = used(9, cost=0.0117, known_cost=0.0117, unpriced_requests=0)
    assert desk.rowcrew("status", "--json").json["usage"] == usage
    attempts = desk.rowcrew("show", desk.jobs()[0]["job_id"], "b2", "--json").json["attempts"]
    assert [attempt["usage"] for attempt in attempts] == [
        used(3, cost=0.0039, known_cost=0.0039, unpriced_requests=0),
        used(3, cost=0.0039, known_cost=0.0039, unpriced_requests=0),
        used(1, cost=0.0013, known_cost=0.0013, unpriced_requests=0),
    ]
    assert [turn["usage"] for attempt in attempts for turn in attempt["turns"]] == [
        attempt["usage"] for attempt in attempts
    ]
    assert desk.rowcrew("status").out.splitlines()[-2:] == [
        "  usage      9 requests, 9,000 tokens in (3,600 cached), 450 out (180 reasoning)",
        "  cost       $0.011700",
    ]
    shown = desk.rowcrew("show", desk.jobs()[0]["job_id"], "b2").out
    assert "1 request, 1,000 tokens in (400 cached), 50 out (20 reasoning); $0.001300" in shown


def test_without_a_price_the_cost_is_unknown_and_never_0(desk: Desk, model: Reporter) -> None:
    model.mended = True
    with ServerThread(model) as served:
        assert run(desk, served.server.url) == 0
    usage = used(3, cost=None, known_cost=None, unpriced_requests=3)
    assert desk.rowcrew("status", "--json").json["usage"] == usage
    assert desk.rowcrew("status").out.splitlines()[-1].startswith("  usage ")


def test_a_price_that_comes_later_counts_from_then_on(desk: Desk, model: Reporter) -> None:
    with ServerThread(model) as served:
        assert run(desk, served.server.url) == 100
        model.mended = True
        (desk.folder / "rowcrew.toml").write_text(PRICES)
        assert desk.rowcrew("retry").code == 0
    usage = used(9, cost=None, known_cost=0.0013, unpriced_requests=8)
    assert desk.rowcrew("status", "--json").json["usage"] == usage
    assert desk.rowcrew("status").out.splitlines()[-1] == (
        "  cost       $0.001300 and 8 of 9 requests at an unknown price"
    )
