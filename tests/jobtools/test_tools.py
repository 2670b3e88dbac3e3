"""The job tools over a real engine: what they answer, what they refuse, what goes on without a caller."""

import asyncio
import csv
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from rowcrew.agent.tools import ToolCall, ToolError, ToolRegistry
from rowcrew.jobtools import JOB_TOOLS, JobDefaults, JobTools
from rowcrew.scheduler.creation import JobRequest
from rowcrew.scheduler.progress import Progress
from rowcrew.scheduler.service import CreatedJob
from tests.jobtools.conftest import Desk

SPAWN = {"csv_path": "people.csv", "instruction": "Greet {name}", "id_column": "id"}
STATUS_KEYS = [
    "job_id",
    "status",
    "total_items",
    "pending_items",
    "running_items",
    "completed_items",
    "failed_items",
    "output_csv_path",
    "runner_active",
]


def rows_of(path: str) -> list[dict[str, str]]:
    return list(csv.DictReader(Path(path).read_text("utf-8").splitlines()))


async def interrupted(desk: Desk) -> str:
    """A job that stopped with one of its three rows done."""
    tools = desk.tools("gated")
    done: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    def hear(job_id: str, progress: Progress) -> None:
        if progress.completed == 1 and not done.done():
            done.set_result(job_id)

    call = asyncio.create_task(tools.call("spawn_agents_on_csv", SPAWN, on_progress=hear))
    job_id = await done
    await tools.close()
    assert (await call)["status"] == "paused"
    return job_id


def test_the_tools_of_an_agent_and_of_a_worker_are_six() -> None:
    assert [spec.name for spec in JobTools.specs()] == [
        "spawn_agents_on_csv",
        "run_agent_job",
        "get_agent_job_status",
        "wait_agent_job",
        "export_agent_job_csv",
    ]
    assert [spec.name for spec in JobTools.specs(for_workers=True)] == ["report_agent_job_result"]


@pytest.mark.parametrize("name", JOB_TOOLS)
def test_every_schema_is_a_schema_and_says_what_each_argument_is(name: str) -> None:
    parameters = JOB_TOOLS[name].parameters
    jsonschema_rs.meta.validate(dict(parameters))
    assert parameters["additionalProperties"] is False
    assert all(argument["description"] for argument in parameters["properties"].values())


async def test_spawning_runs_every_row_and_answers_the_result(desk: Desk) -> None:
    (desk.folder / "out").mkdir()
    answer = await desk.tools().call(
        "spawn_agents_on_csv",
        {
            **SPAWN,
            "output_csv_path": "out/greetings.csv",
            "output_schema": {"type": "object", "properties": {"greeting": {"type": "string"}}},
            "max_workers": 1,
            "job_name": None,
        },
    )
    output = str(desk.folder / "out" / "greetings.csv")
    assert answer == {
        "job_id": answer["job_id"],
        "status": "completed",
        "output_csv_path": output,
        "total_items": 3,
        "completed_items": 2,
        "failed_items": 1,
        "job_error": None,
        "failed_item_errors": [{"item_id": "8", "source_id": "8", "last_error": "ValueError: no Grace"}],
    }
    assert [(row["id"], row["result.greeting"]) for row in rows_of(output)] == [
        ("7", "Hello Ada"),
        ("8", ""),
        ("9", "Hello Alan"),
    ]


async def test_the_caller_hears_of_the_progress(desk: Desk) -> None:
    heard: list[tuple[str, Progress]] = []
    answer = await desk.tools().call(
        "spawn_agents_on_csv", SPAWN, on_progress=lambda job_id, progress: heard.append((job_id, progress))
    )
    assert {job_id for job_id, _ in heard} == {answer["job_id"]}
    last = heard[-1][1]
    assert (last.total, last.completed, last.failed) == (3, 2, 1)


async def test_a_wait_that_is_too_long_ends_with_what_to_call_next(desk: Desk) -> None:
    tools = desk.tools("gated", max_wait=0)
    answer = await tools.call("spawn_agents_on_csv", SPAWN)
    assert (answer["status"], answer["total_items"]) == ("running", 3)
    assert "wait_agent_job" in answer["next"]
    job_id = answer["job_id"]
    status = await tools.call("get_agent_job_status", {"job_id": job_id})
    assert list(status) == STATUS_KEYS
    assert status["runner_active"]
    again = await tools.call("run_agent_job", {"job_id": job_id})
    assert (again["job_id"], again["started"], "here already" in again["reason"]) == (job_id, False, True)


async def test_a_call_that_is_given_up_leaves_its_job_running(desk: Desk) -> None:
    tools = desk.tools("gated")
    begun = asyncio.Event()
    heard: list[str] = []

    def hear(job_id: str, progress: Progress) -> None:
        heard.append(job_id)
        begun.set()

    call = asyncio.create_task(tools.call("spawn_agents_on_csv", SPAWN, on_progress=hear))
    await begun.wait()
    call.cancel()
    await asyncio.wait({call})
    status = await tools.call("get_agent_job_status", {"job_id": heard[0]})
    assert (status["status"], status["runner_active"]) == ("running", True)


async def test_a_call_that_is_given_up_while_the_job_is_made_starts_it_all_the_same(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    tools = desk.tools("gated")
    create, creating = desk.engine.jobs.create_from_table, asyncio.Event()

    async def watched(request: JobRequest) -> CreatedJob:
        creating.set()
        return await create(request)

    monkeypatch.setattr(desk.engine.jobs, "create_from_table", watched)
    call = asyncio.create_task(tools.call("spawn_agents_on_csv", SPAWN))
    await creating.wait()
    call.cancel()
    await tools.close()
    [view] = await desk.engine.jobs.list()
    assert (str(view.job.status), str(view.job.paused_reason)) == ("paused", "interrupted")


async def test_closing_pauses_and_another_resumes_without_running_a_row_twice(desk: Desk) -> None:
    job_id = await interrupted(desk)
    tools = desk.tools("gated")
    paused = await tools.call("wait_agent_job", {"job_id": job_id})
    assert paused == {
        "status": {
            "job_id": job_id,
            "status": "paused",
            "total_items": 3,
            "pending_items": 2,
            "running_items": 0,
            "completed_items": 1,
            "failed_items": 0,
            "output_csv_path": paused["status"]["output_csv_path"],
            "runner_active": False,
            "paused_reason": "interrupted",
            "job_error": "interrupted; resume goes on where it stopped",
        },
        "timed_out": False,
    }
    (desk.folder / "open").touch()
    resumed = await tools.call("run_agent_job", {"job_id": job_id[:8], "max_concurrency": 1})
    assert (resumed["job_id"], resumed["started"]) == (job_id, True)
    ended = await tools.call("wait_agent_job", {"job_id": job_id, "timeout_ms": 300_000})
    assert (ended["timed_out"], ended["status"]["status"], ended["status"]["completed_items"]) == (
        False,
        "completed",
        3,
    )
    attempts = [len((await desk.engine.jobs.item(job_id, item))[1]) for item in ("7", "8", "9")]
    assert attempts[0] == 1


async def test_a_job_without_rows_left_is_not_started_again(desk: Desk) -> None:
    tools = desk.tools()
    job_id = (await tools.call("spawn_agents_on_csv", SPAWN))["job_id"]
    again = await tools.call("run_agent_job", {"job_id": job_id})
    assert list(again) == ["job_id", "started", "reason", *STATUS_KEYS[1:], "failed_item_errors"]
    assert (again["started"], again["status"]) == (False, "completed")
    assert f"`export_agent_job_csv` with job_id `{job_id[:8]}`" in again["reason"]


async def test_a_wait_ends_at_its_bound(desk: Desk) -> None:
    tools = desk.tools("gated", max_wait=0)
    job_id = (await tools.call("spawn_agents_on_csv", SPAWN))["job_id"]
    heard: list[Progress] = []
    waited = await tools.call(
        "wait_agent_job", {"job_id": job_id, "timeout_ms": 1}, on_progress=lambda _, seen: heard.append(seen)
    )
    assert (waited["timed_out"], waited["status"]["status"], heard[-1].total) == (True, "running", 3)


@pytest.mark.parametrize("timeout_ms", [0, -5, 1.5, "soon", True])
async def test_a_wait_without_a_sensible_time_is_refused(desk: Desk, timeout_ms: object) -> None:
    sentence = await desk.refusal("wait_agent_job", job_id="1", timeout_ms=timeout_ms)
    assert sentence.startswith("wrong arguments for `wait_agent_job`: ")
    assert "`timeout_ms`" in sentence


async def test_export_writes_in_any_state_and_never_over_another_file(desk: Desk) -> None:
    job_id = await interrupted(desk)
    tools = desk.tools("gated")
    answer = await tools.call("export_agent_job_csv", {"job_id": job_id, "path": "part.csv"})
    assert answer == {
        "job_id": job_id,
        "output_csv_path": str(desk.folder / "part.csv"),
        "row_count": 3,
    }
    assert [row["status"] for row in rows_of(answer["output_csv_path"])] == [
        "completed",
        "pending",
        "pending",
    ]
    sentence = await desk.refusal("export_agent_job_csv", job_id=job_id, path="part.csv")
    assert sentence.endswith("exists already. Hint: give another `path`, or remove that file")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"csv_path": "nope.csv"}, "there is no file"),
        ({"csv_path": "\0"}, "`csv_path` holds a NUL character"),
        ({"csv_path": ""}, "(at `csv_path`)"),
        ({"csv_path": None}, "(at `csv_path`)"),
        ({"instruction": " "}, "the instruction is empty"),
        ({"instruction": "Greet {nam}"}, "nearest: name"),
        ({"id_column": "ident"}, 'there is no column "ident"'),
        ({"output_csv_path": "people.csv"}, "give another `output_csv_path`"),
        ({"output_csv_path": "no/such/out.csv"}, "make it first"),
        ({"output_schema": [1]}, "the output schema must be a JSON object"),
        ({"output_schema": {"type": "objekt"}}, "schema"),
        ({"max_concurrency": 0}, "(at `max_concurrency`)"),
        ({"max_concurrency": 2, "max_workers": 3}, "`max_workers` is another name for `max_concurrency`"),
        ({"max_runtime_seconds": 0}, "(at `max_runtime_seconds`)"),
        ({"max_runtime": 5}, "unknown argument `max_runtime` (did you mean `max_runtime_seconds`?)"),
        ({"auto_export": "yes"}, "(at `auto_export`)"),
    ],
)
async def test_a_wrong_spawn_is_refused_and_stores_nothing(
    desk: Desk, change: dict[str, Any], said: str
) -> None:
    sentence = await desk.refusal("spawn_agents_on_csv", **{**SPAWN, **change})
    assert said in sentence
    # No word of the command line where a tool's own word exists.
    assert "--" not in sentence
    assert await desk.engine.jobs.list() == []


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"id;name\n1;Ada\n", "save it comma-separated first"),
        (b"id\tname\n1\tAda\n", "give the file a name that ends in .tsv"),
        (b"id,name\n1,Ad\xe4\n", "save the file as UTF-8 first"),
    ],
)
async def test_a_file_of_another_dialect_is_refused_with_what_the_model_can_do(
    desk: Desk, content: bytes, said: str
) -> None:
    (desk.folder / "other.csv").write_bytes(content)
    sentence = await desk.refusal("spawn_agents_on_csv", **{**SPAWN, "csv_path": "other.csv"})
    assert said in sentence
    assert "--" not in sentence


async def test_the_same_job_is_not_paid_for_twice(desk: Desk) -> None:
    job_id = await interrupted(desk)
    with pytest.raises(ToolError) as refused:
        await desk.tools("gated").call("spawn_agents_on_csv", SPAWN)
    assert str(refused.value).endswith(
        f"go on with it: call `run_agent_job` with job_id `{job_id[:8]}`; it is not started a second time"
    )


@pytest.mark.parametrize(
    "name", ["run_agent_job", "get_agent_job_status", "wait_agent_job", "export_agent_job_csv"]
)
@pytest.mark.parametrize("job_id", ["12345678", "no id"])
async def test_an_unknown_job_is_refused_with_where_ids_come_from(desk: Desk, name: str, job_id: str) -> None:
    sentence = await desk.refusal(name, job_id=job_id)
    assert sentence.endswith("Hint: use the job_id that `spawn_agents_on_csv` answered")


async def test_an_unknown_tool_is_refused_naming_the_tools(desk: Desk) -> None:
    assert "there is no tool `spawn`; the tools are spawn_agents_on_csv," in await desk.refusal("spawn")


async def test_a_job_without_a_model_is_the_users_to_mend(desk: Desk) -> None:
    tools = JobTools(desk.engine, desk.folder)
    with pytest.raises(ToolError, match="only your user can choose one: `-m PROVIDER:MODEL`"):
        await tools.call("spawn_agents_on_csv", SPAWN)


async def test_jobs_get_the_defaults_and_the_folder_of_the_tools(desk: Desk) -> None:
    tools = JobTools(
        desk.engine,
        desk.folder,
        replace(JobDefaults(), worker="command:cat", sandbox_mode="workspace-write"),
    )
    answer = await tools.call("spawn_agents_on_csv", {**SPAWN, "max_runtime_seconds": 9})
    settings = (await desk.engine.jobs.find(answer["job_id"])).settings
    assert (settings.worker, settings.sandbox_mode, settings.working_folder) == (
        "command:cat",
        "workspace-write",
        str(desk.folder),
    )
    assert settings.max_runtime_seconds == 9


async def test_a_report_without_a_worker_is_refused(desk: Desk) -> None:
    sentence = await desk.refusal("report_agent_job_result", job_id="1", item_id="2", result={})
    assert sentence == "only the worker of a job item may report a result"


async def test_a_report_of_the_wrong_kind_is_answered_and_not_raised(desk: Desk) -> None:
    tools = desk.tools("gated", max_wait=0)
    job_id = (await tools.call("spawn_agents_on_csv", SPAWN))["job_id"]
    report = {"job_id": job_id, "item_id": "8"}
    assert await tools.call("report_agent_job_result", {**report, "result": "text"}, thread_id="t") == {
        "accepted": False,
        "reason": "result must be a JSON object",
    }
    other = await tools.call("report_agent_job_result", {**report, "result": {}}, thread_id="t")
    assert other["accepted"] is False


async def test_a_closed_set_of_tools_starts_nothing(desk: Desk) -> None:
    tools = desk.tools()
    await tools.close()
    with pytest.raises(ToolError, match="stopping here"):
        await tools.call("spawn_agents_on_csv", SPAWN)
    assert await desk.engine.jobs.list() == []


async def test_an_agent_calls_them_as_any_other_tool(desk: Desk) -> None:
    registry = ToolRegistry(desk.tools().agent_tools())
    result = await registry.run(
        ToolCall("1", "spawn_agents_on_csv", json.dumps({**SPAWN, "max_workers": None}))
    )
    assert (result.ok, json.loads(result.output)["completed_items"]) == (True, 2)
    wrong = await registry.run(ToolCall("2", "wait_agent_job", {"job_id": "1", "timeout": 5}))
    assert (wrong.ok, "did you mean `timeout_ms`?" in wrong.output) == (False, True)
