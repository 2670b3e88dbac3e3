"""The machine's clock is set an hour forward and back while a job runs: it goes on, and waits no hour."""

import asyncio
import importlib
from pathlib import Path

import pytest

from rowcrew.clock import SystemClock
from rowcrew.config import Settings
from rowcrew.domain.job import JobSettings, RetryPolicy
from rowcrew.engine import Engine
from rowcrew.scheduler.creation import JobRequest
from tests.torture.conftest import Torture

HOUR_MS = 3_600_000
WORKER = """
seen = []
set_clock = None

async def fails_once(row):
    if row["id"] not in seen:
        seen.append(row["id"])
        # By now the first rows wait for their next attempt, by the clock of before.
        if len(seen) == 20:
            set_clock()
        raise ConnectionError("the first time never works")
    return {}
"""


class SetClock(SystemClock):
    """The machine's clock, which someone sets."""

    offset_ms = 0

    def now_ms(self) -> int:
        return super().now_ms() + self.offset_ms


@pytest.mark.parametrize("hours", [1, -1])
async def test_a_clock_that_is_set_by_an_hour(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, torture: Torture, hours: int
) -> None:
    name = f"clocked_{'forward' if hours > 0 else 'back'}"
    (tmp_path / f"{name}.py").write_text(WORKER)
    (tmp_path / "in.csv").write_text("id\n" + "".join(f"r{number}\n" for number in range(40)))
    monkeypatch.syspath_prepend(str(tmp_path))
    clock = SetClock()
    monkeypatch.setattr(
        importlib.import_module(name), "set_clock", lambda: setattr(clock, "offset_ms", hours * HOUR_MS)
    )
    settings = JobSettings(
        worker=f"python:{name}:fails_once",
        max_concurrency=4,
        retry=RetryPolicy(base_delay=0.2, max_delay=0.2),
        working_folder=str(tmp_path),
    )
    async with Engine.open(Settings(home=tmp_path / "home"), clock=clock) as engine:
        created = await engine.jobs.create_from_table(
            JobRequest(tmp_path / "in.csv", "{id}", settings=settings)
        )
        async with asyncio.timeout(60):
            result = await (await engine.jobs.start(created.job.id)).done()
    assert (result.status, result.completed_items) == ("completed", 40)
    torture.tell(f"the clock set by {hours:+d} h: 40 rows done, none waited for it")
