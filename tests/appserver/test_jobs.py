"""Jobs over the wire, with a function as their worker."""

import itertools
from pathlib import Path
from typing import Any

import pytest

from tests.appserver.conftest import Client, Desk, Failure

_NUMBERS = itertools.count()
WORKER = """
import asyncio, pathlib

def greet(row):
    if row["name"] == "Grace":
        raise ValueError("no Grace")
    return {"greeting": "Hello " + row["name"]}

async def wait(row):
    while not pathlib.Path("go").exists():
        await asyncio.sleep(0.01)
    return {}
"""


@pytest.fixture
def worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    # A name of its own, because this process keeps the modules that it has imported.
    name = f"appserver_worker_{next(_NUMBERS)}"
    (tmp_path / f"{name}.py").write_text(WORKER)
    (tmp_path / "people.csv").write_text("id,name\na1,Ada\nb2,Grace\nc3,Alan\n")
    monkeypatch.chdir(tmp_path)
    return f"python:{name}"


async def create(client: Client, worker: str, **params: Any) -> dict[str, Any]:
    answer = await client.call(
        "job/create",
        inputPath="people.csv",
        instruction="Greet {name}",
        idColumn="id",
        worker=worker,
        maxAttempts=1,
        outputPath="out.csv",
        **params,
    )
    job: dict[str, Any] = answer["job"]
    return job


async def test_a_job_is_created_run_and_told_to_its_end(desk: Desk, worker: str, tmp_path: Path) -> None:
    client = await desk.client()
    job = await create(client, f"{worker}:greet", name="greetings")
    assert (job["status"], job["totalItems"], job["name"]) == ("pending", 3, "greetings")
    ran = await client.call("job/run", jobId=job["jobId"][:8])
    assert (ran["started"], ran["reason"]) == (True, None)
    ended = await client.notified("job/completed", jobId=job["jobId"])
    assert ended == {
        "jobId": job["jobId"],
        "status": "completed",
        "outputCsvPath": str(tmp_path / "out.csv"),
        "totalItems": 3,
        "completedItems": 2,
        "failedItems": 1,
        "jobError": None,
        "failedItemErrors": [
            {"itemId": "b2", "sourceId": "b2", "lastError": ended["failedItemErrors"][0]["lastError"]}
        ],
    }
    assert "no Grace" in ended["failedItemErrors"][0]["lastError"]
    progress = await client.notified("job/progress", jobId=job["jobId"])
    assert progress["totalItems"] == 3
    status = (await client.call("job/status", jobId=job["jobId"]))["job"]
    assert (status["status"], status["runnerActive"]) == ("completed", False)
    assert (await client.call("job/list"))["data"] == [status]
    [failed] = (await client.call("job/items", jobId=job["jobId"], status="failed"))["data"]
    assert (failed["itemId"], failed["row"], failed["errorClass"]) == (
        "b2",
        {"id": "b2", "name": "Grace"},
        "crashed",
    )
    [first] = (await client.call("job/items", jobId=job["jobId"], limit=1))["data"]
    assert first["result"] == {"greeting": "Hello Ada"}
    exported = await client.call("job/export", jobId=job["jobId"], path="again.jsonl", format="jsonl")
    assert exported == {
        "jobId": job["jobId"],
        "outputCsvPath": str(tmp_path / "again.jsonl"),
        "rowCount": 3,
    }
    again = await client.call("job/run", jobId=job["jobId"])
    assert again["started"] is False
    assert "has no row left to run" in again["reason"]


async def test_a_job_is_paused_resumed_and_cancelled(desk: Desk, worker: str, tmp_path: Path) -> None:
    client = await desk.client()
    job_id = (await create(client, f"{worker}:wait"))["jobId"]
    await client.call("job/run", jobId=job_id, maxConcurrency=1)
    twice = await client.call("job/run", jobId=job_id)
    assert (twice["started"], "is running here already" in twice["reason"]) == (False, True)
    paused = (await client.call("job/pause", jobId=job_id))["job"]
    assert (paused["status"], paused["pausedReason"]) == ("paused", "user")
    await client.notified("job/completed", jobId=job_id, status="paused")
    start = len(client.told)
    (tmp_path / "go").touch()
    await client.call("job/run", jobId=job_id)
    await client.notified("job/completed", jobId=job_id, status="completed", start=start)
    with pytest.raises(Failure, match="is completed already") as failure:
        await client.call("job/cancel", jobId=job_id)
    assert failure.value.data["state"] == "completed"


async def test_wrong_jobs_are_refused_with_what_to_do(desk: Desk, worker: str) -> None:
    client = await desk.client()
    with pytest.raises(Failure, match="no job id begins with abc"):
        await client.call("job/status", jobId="abc")
    with pytest.raises(Failure, match="there is no file"):
        await client.call("job/create", inputPath="none.csv", instruction="x", worker=f"{worker}:greet")
    with pytest.raises(Failure, match="wrong parameters for job/create") as failure:
        await client.call("job/create", inputPath="people.csv", instruction="x", workers=4)
    assert failure.value.code == -32602


async def test_the_end_of_the_server_pauses_its_jobs_and_tells_it(desk: Desk, worker: str) -> None:
    client = await desk.client()
    job_id = (await create(client, f"{worker}:wait"))["jobId"]
    await client.call("job/run", jobId=job_id)
    await desk.server.close()
    ended = await client.notified("job/completed", jobId=job_id)
    assert (ended["status"], ended["completedItems"]) == ("paused", 0)
