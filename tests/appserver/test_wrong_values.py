"""Every parameter of every method with values that nobody meant: refused or answered, never a breakdown."""

from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from rowcrew.appserver.catalogue import METHODS
from rowcrew.appserver.errors import INTERNAL
from tests.appserver.conftest import Desk

# They end the thread that the other methods need, or it takes a model to answer them.
ENDS = {"thread/archive", "thread/delete"}
DEEP: list[Any] = []
for _ in range(500):
    DEEP = [DEEP]
VALUES = [None, "", "x", "\0", "a\0b", "\ud800", -1, 2**63, 2**70, 1e308, True, [], {}, "a" * 5000, DEEP]
VALUES += [[{"type": "text", "text": "\ud83d\0"}], {"type": "object", "$ref": "http://127.0.0.1/"}]


def fields(params: type[BaseModel]) -> list[str]:
    return [field.alias or name for name, field in params.model_fields.items()]


@pytest.mark.parametrize("method", sorted(METHODS))
async def test_no_value_breaks_a_method(desk: Desk, tmp_path: Path, method: str) -> None:
    (tmp_path / "people.csv").write_text("id,name\n1,Ada\n")
    client = await desk.client()
    thread_id = await desk.thread(client)
    job = {"inputPath": "people.csv", "instruction": "Greet {name}", "worker": "command:true", "new": True}
    right: dict[str, Any] = {
        "clientInfo": {"name": "test"},
        "threadId": thread_id,
        "input": [{"type": "text", "text": "hello"}],
        "turnId": "x",
        "expectedTurnId": "x",
        "name": "a name",
        "jobId": (await client.call("job/create", **job))["job"]["jobId"],
        **job,
        "outputPath": str(tmp_path / "out.csv"),
        "force": True,
    }
    params, _ = METHODS[method]
    known = {name: value for name, value in right.items() if name in fields(params)}
    for name in fields(params):
        if method in ENDS and name != "threadId":
            continue
        numbers = {client.ask(method, **{**known, name: value}): value for value in VALUES}
        for number, value in numbers.items():
            answer = await client.until(lambda one, number=number: one.get("id") == number)  # type: ignore[misc]
            if "error" in answer:
                assert answer["error"]["code"] != INTERNAL, (name, str(value)[:40], answer["error"])
                assert answer["error"]["message"], (name, str(value)[:40])
    assert (await client.call("model/list"))["data"]
