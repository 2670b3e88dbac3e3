"""Rows through a model on loopback: against a plain asyncio script with the same client, and how well held.

The plain script has no store, no scheduler and no retry: the ratio is what durability costs.
"""

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import uvloop
from pydantic_ai.messages import ModelRequest, UserPromptPart

from _figures import done, figure, folder, table
from rowcrew.agent.models import ModelChoice, ModelClient
from rowcrew.config import Settings
from rowcrew.domain.job import JobSettings
from rowcrew.domain.prompt import worker_prompt
from rowcrew.engine import Engine
from rowcrew.scheduler.creation import JobRequest

# Codex 0.142.5 measured 2.9 rows/s on two cores with an instant model.
CODEX_ROWS_PER_SECOND = 2.9
SCHEMA = {"type": "object", "properties": {"answer": {"type": "string"}}, "required": ["answer"]}


@contextmanager
def server(latency: float) -> Iterator[str]:
    """The test server's URL."""
    command = [sys.executable, str(Path(__file__).with_name("_model_server.py")), str(latency)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        yield process.stdout.readline().strip()
        process.stdin.close()


async def rows_per_second(url: str, worker: str, rows: int, concurrency: int) -> float:
    """A whole job, from the lease to the end."""
    with folder() as path:
        async with Engine.open(Settings.load()) as engine:
            settings = JobSettings(
                worker=worker, model="openai-chat:scripted", base_url=url, max_concurrency=concurrency
            )
            request = JobRequest(table(path / "in.csv", rows), "{word}", settings=settings, auto_export=False)
            created = await engine.jobs.create_from_table(request)
            start = time.perf_counter()
            result = await (await engine.jobs.start(created.job.id)).done()
            seconds = time.perf_counter() - start
    assert result.completed_items == rows, result
    return rows / seconds


async def plain_rows_per_second(url: str, rows: int, concurrency: int) -> float:
    """The same requests by a script of a dozen lines."""
    async with await ModelClient.open(ModelChoice("openai-chat:scripted", base_url=url)) as client:
        waiting = iter(range(rows))

        async def work() -> None:
            for number in waiting:
                prompt = worker_prompt(
                    job_id="11111111-0000-4000-8000-000000000001",
                    item_id=f"row-{number}",
                    instruction=f"word{number}",
                    row={
                        "id": f"r{number}",
                        "word": f"word{number}",
                        "sentence": "The quick brown fox jumps",
                    },
                    output_schema=None,
                    previous_error=None,
                    reports_by_tool=False,
                )
                answer = await client.ask([ModelRequest([UserPromptPart(prompt)])], output_schema=SCHEMA)
                json.loads(answer.response.text or "")

        start = time.perf_counter()
        await asyncio.gather(*(work() for _ in range(concurrency)))
        return rows / (time.perf_counter() - start)


async def main() -> None:
    with server(0.0) as url:
        await plain_rows_per_second(url, 100, 16)
        plain = await plain_rows_per_second(url, 2000, 16)
        oneshot = await rows_per_second(url, "oneshot", 2000, 16)
        agent = await rows_per_second(url, "agent", 600, 16)
    figure("plain script, instant model, 16 at once", plain, "rows/s")
    figure("oneshot worker, instant model, -j 16", oneshot, "rows/s")
    figure("oneshot over the plain script, both short of processor time", oneshot / plain, "x")
    figure("agent worker, instant model, -j 16", agent, "rows/s")
    figure("agent worker over Codex 0.142.5", agent / CODEX_ROWS_PER_SECOND, "x", at_least=100)
    with server(0.2) as url:
        plain = await plain_rows_per_second(url, 800, 16)
        oneshot = await rows_per_second(url, "oneshot", 800, 16)
    figure("oneshot over the plain script, 16 at once x 0.2 s", oneshot / plain, "x", at_least=0.95)
    for concurrency, latency, rounds, bound in ((64, 2, 5, 0.97), (256, 1, 8, 0.90)):
        for worker in ("oneshot", "agent"):
            with server(latency) as url:
                rate = await rows_per_second(url, worker, concurrency * rounds, concurrency)
            held = rate / (concurrency / latency)
            figure(f"{worker} held at {concurrency} x {latency} s", held, "of 1", at_least=bound)
    done()


if __name__ == "__main__":
    uvloop.run(main())
