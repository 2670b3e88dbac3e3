"""One call as an answer: nothing that a tool does may reach the client as anything else."""

from typing import Any, cast

from mcp_types import CallToolResult, TextContent

from rowcrew.jobtools import JobTools, Listener
from rowcrew.mcp.tools import answer, progress_line
from rowcrew.scheduler.progress import Progress


class Tools:
    """Stands for JobTools where a broken one is wanted."""

    def __init__(self, error: Exception | None = None) -> None:
        self._error = error

    async def call(self, name: str, arguments: dict[str, Any], *, on_progress: Listener) -> dict[str, Any]:
        if self._error is not None:
            raise self._error
        return {"job_id": name, **arguments}


def seen(**values: Any) -> Progress:
    known = {"total": 4, "pending": 0, "running": 0, "completed": 0, "failed": 0}
    return Progress(**{**known, "rate": None, "eta_seconds": None, "elapsed": 1.0, **values})


async def told(tools: Tools) -> CallToolResult:
    async def report(_done: float, _total: float, _line: str) -> None:
        raise AssertionError

    return await answer(cast("JobTools", tools), "run_agent_job", {"a": "ä"}, report=report)


async def test_an_answer_is_text_and_structure() -> None:
    result = await told(Tools())
    assert result == CallToolResult(
        content=[TextContent(text='{"job_id": "run_agent_job", "a": "ä"}')],
        structured_content={"job_id": "run_agent_job", "a": "ä"},
    )


async def test_a_bug_is_an_answer_without_a_traceback() -> None:
    result = await told(Tools(KeyError("x")))
    assert result == CallToolResult(
        content=[
            TextContent(
                text="something in rowcrew itself broke (KeyError: 'x'); jobs are safe, look at their status"
            )
        ],
        is_error=True,
    )


def test_progress_is_told_on_one_line() -> None:
    assert progress_line(seen(completed=1)) == "1 of 4 rows done"
    busy = seen(completed=1, failed=1, eta_seconds=61.4, held_by="rate limit")
    assert progress_line(busy) == "2 of 4 rows done, 1 failed, about 61 s left, waiting: rate limit"
