"""Rows through a model on loopback: against a plain asyncio script with the same library, and how well held.

The plain script asks as pydantic-ai's and OpenAI's pages show it, with OpenAI's client on its aiohttp
transport: no store, no scheduler, no retry, and none of what `agent/openai_client.py` and
`agent/preparing.py` save. A second one asks through the engine's own client; its ratio is what durability
alone costs.
"""

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import openai
import uvloop
from pydantic_ai.direct import model_request
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, UserPromptPart
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.output import OutputObjectDefinition
from pydantic_ai.providers.openai import OpenAIProvider

from _figures import HELD, done, figure, folder, table
from rowcrew.agent.models import ModelChoice, ModelClient
from rowcrew.config import Settings
from rowcrew.domain.job import JobSettings
from rowcrew.domain.prompt import worker_prompt
from rowcrew.engine import Engine
from rowcrew.scheduler.creation import JobRequest

# Codex 0.142.5 measured 2.9 rows/s on two cores with an instant model.
CODEX_ROWS_PER_SECOND = 2.9
TURNS = 3
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


def prompt(number: int) -> str:
    """A worker's prompt, as the engine makes it."""
    return worker_prompt(
        job_id="11111111-0000-4000-8000-000000000001",
        item_id=f"row-{number}",
        instruction=f"word{number}",
        row={"id": f"r{number}", "word": f"word{number}", "sentence": "The quick brown fox jumps"},
        output_schema=None,
        previous_error=None,
        reports_by_tool=False,
    )


async def at_once(
    ask: Callable[[list[ModelMessage]], Awaitable[ModelResponse]], rows: int, width: int
) -> float:
    """Rows per second of a dozen lines that keep `width` requests under way."""
    waiting = iter(range(rows))

    async def work() -> None:
        for number in waiting:
            answer = await ask([ModelRequest([UserPromptPart(prompt(number))])])
            json.loads(answer.text or "")

    start = time.perf_counter()
    await asyncio.gather(*(work() for _ in range(width)))
    return rows / (time.perf_counter() - start)


async def plain_rows_per_second(url: str, rows: int, concurrency: int) -> float:
    """A script with the library as it comes."""
    http = openai.DefaultAioHttpClient(limits=httpx2.Limits(max_connections=concurrency))
    async with openai.AsyncOpenAI(base_url=url, api_key="k", http_client=http, max_retries=0) as client:
        model = OpenAIChatModel("scripted", provider=OpenAIProvider(openai_client=client))
        output = OutputObjectDefinition(SCHEMA, name="result")
        parameters = ModelRequestParameters(output_mode="native", output_object=output)

        async def ask(messages: list[ModelMessage]) -> ModelResponse:
            return await model_request(model, messages, model_request_parameters=parameters)

        return await at_once(ask, rows, concurrency)


async def client_rows_per_second(url: str, rows: int, concurrency: int) -> float:
    """A script with the engine's client."""
    async with await ModelClient.open(ModelChoice("openai-chat:scripted", base_url=url)) as client:

        async def ask(messages: list[ModelMessage]) -> ModelResponse:
            return (await client.ask(messages, output_schema=SCHEMA)).response

        return await at_once(ask, rows, concurrency)


async def main() -> None:
    with server(0.0) as url:
        await plain_rows_per_second(url, 100, 16)
        await client_rows_per_second(url, 100, 16)
        # In turns, the best of each: who else uses the machine then weighs on neither.
        plain = client = oneshot = agent = 0.0
        for _ in range(TURNS):
            plain = max(plain, await plain_rows_per_second(url, 800, 16))
            client = max(client, await client_rows_per_second(url, 800, 16))
            oneshot = max(oneshot, await rows_per_second(url, "oneshot", 800, 16))
            agent = max(agent, await rows_per_second(url, "agent", 400, 16))
    figure("plain script, instant model, 16 at once", plain, "rows/s")
    figure("the same with the engine's client", client, "rows/s")
    figure("oneshot worker, instant model, -j 16", oneshot, "rows/s")
    figure("oneshot over the plain script", oneshot / plain, "x", at_least=0.95)
    figure("oneshot over the engine's client alone", oneshot / client, "x")
    figure("agent worker, instant model, -j 16", agent, "rows/s")
    figure("agent worker over Codex 0.142.5", agent / CODEX_ROWS_PER_SECOND, "x", at_least=100)
    with server(0.2) as url:
        plain = await plain_rows_per_second(url, 800, 16)
        oneshot = await rows_per_second(url, "oneshot", 800, 16)
    figure("oneshot over the plain script, 16 at once x 0.2 s", oneshot / plain, "x", at_least=0.95)
    for concurrency, latency, rounds, bound in HELD:
        best, rows = concurrency / latency, concurrency * rounds
        with server(latency) as url:
            plain = await plain_rows_per_second(url, rows, concurrency)
        figure(f"plain script held at {concurrency} x {latency} s", plain / best, "of 1")
        for worker in ("oneshot", "agent"):
            with server(latency) as url:
                rate = await rows_per_second(url, worker, rows, concurrency)
            figure(f"{worker} held at {concurrency} x {latency} s", rate / best, "of 1", at_least=bound)
    done()


if __name__ == "__main__":
    uvloop.run(main())
