"""The instant test server in a process of its own, so that it does not share the engine's event loop.

`python _model_server.py LATENCY` prints its URL and serves until its standard input ends.
"""

import asyncio
import re
import sys

import uvloop

from rowcrew.testing.answers import CallTool, Received, Reply
from rowcrew.testing.server import ModelServer

ITEM = re.compile(r"Job ID: (\S+)\nItem ID: (\S+)")


def answer(latency: float) -> object:
    """Report at once where there is a tool for it; else answer with the result."""

    def reply(request: Received) -> Reply:
        if "report_agent_job_result" not in request.tool_names:
            return Reply('{"answer": "ok"}', delay=latency)
        if request.tool_outputs:
            return Reply("done", delay=latency)
        job_id, item_id = ITEM.search(request.text).groups()  # type: ignore[union-attr]
        call = CallTool(
            "report_agent_job_result", {"job_id": job_id, "item_id": item_id, "result": {"answer": "ok"}}
        )
        return Reply(calls=[call], delay=latency)

    return reply


async def main() -> None:
    async with ModelServer(answer(float(sys.argv[1])), record=False) as server:
        print(server.url, flush=True)
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    uvloop.run(main())
