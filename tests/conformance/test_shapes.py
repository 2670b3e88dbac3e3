"""Every message of ours, as Codex's own generated types take it: nothing is missing or of another type."""

import importlib
from types import ModuleType
from typing import Any

from rowcrew.appserver.catalogue import METHODS, NOTIFICATIONS
from rowcrew.testing import CallTool, Received, Reply, unauthorized
from tests.appserver.conftest import Client, Opened, open_desk  # noqa: F401 - a fixture

# Rowcrew's own; Codex has none of these, or does not show its SDK their types.
OWN = ("job/", "thread/queue/")

# Where the type of Codex's answer has another name than ours.
NAMES = {
    "thread/archive": "ThreadArchiveResponse",
    "thread/delete": "ThreadDeleteResponse",
    "thread/name/set": "ThreadSetNameResponse",
    "turn/interrupt": "TurnInterruptResponse",
}
TEXT = [{"type": "text", "text": "hello"}]


def answer(received: Received) -> Any:
    text = received.last_user_text
    if "refuse" in text:
        return unauthorized()
    if "work" in text and not received.tool_outputs:
        calls = [
            CallTool("shell", {"command": "echo hi"}),
            CallTool("write_file", {"path": "a", "content": "b"}),
            CallTool("list_dir", {}),
            CallTool("no_such_tool", {"a": 1}),
        ]
        return Reply(calls=calls, reasoning="Let me see.")
    return Reply("done", reasoning="So.", delay=3600 if "wait" in text else 0)


class Everything:
    """A client that calls every method once, and what it was answered by method."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.answers: dict[str, dict[str, Any]] = {}

    async def call(self, method: str, **params: Any) -> dict[str, Any]:
        self.answers[method] = await self.client.call(method, **params)
        return self.answers[method]

    async def turn(self, thread_id: str, text: str) -> str:
        started = await self.call("turn/start", threadId=thread_id, input=[{"type": "text", "text": text}])
        turn_id: str = started["turn"]["id"]
        return turn_id

    async def say(self, thread_id: str, text: str) -> None:
        await self.client.turn_ended(await self.turn(thread_id, text))


async def do_everything(client: Client, models: Any) -> dict[str, dict[str, Any]]:
    all_of = Everything(client)
    await all_of.call("initialize", clientInfo={"name": "test", "version": "1"})
    thread_id = (await all_of.call("thread/start", sandbox="danger-full-access"))["thread"]["id"]
    for text in ("work", "refuse", "hello"):
        await all_of.say(thread_id, text)
    turn_id = await all_of.turn(thread_id, "wait")
    await models.until(arrived=5)
    await all_of.call("turn/steer", threadId=thread_id, expectedTurnId=turn_id, input=TEXT)
    await all_of.call("turn/interrupt", threadId=thread_id, turnId=turn_id)
    await client.turn_ended(turn_id)
    await all_of.call("thread/name/set", threadId=thread_id, name="a name")
    await all_of.call("thread/read", threadId=thread_id, includeTurns=True)
    await all_of.call("thread/resume", threadId=thread_id)
    fork = (await all_of.call("thread/fork", threadId=thread_id))["thread"]["id"]
    for method in ("thread/list", "thread/loaded/list", "model/list"):
        await all_of.call(method)
    await all_of.call("thread/unsubscribe", threadId=thread_id)
    await all_of.call("thread/archive", threadId=thread_id)
    await all_of.call("thread/unarchive", threadId=thread_id)
    await all_of.call("thread/delete", threadId=fork)
    await client.notified("thread/deleted")
    return all_of.answers


async def test_every_message_is_one_of_codexs(sdk: ModuleType, open_desk: Opened) -> None:  # noqa: F811
    generated = importlib.import_module("openai_codex.generated.v2_all")
    registry = importlib.import_module("openai_codex.generated.notification_registry")
    async with open_desk(answer) as desk:
        client = desk.connect()
        answers = await do_everything(client, desk.models)
        thread_id = await desk.thread(client)
        queued = (await client.call("thread/queue/add", threadId=thread_id, input=TEXT))["queuedSubmission"]
        await client.notified("thread/queue/changed", threadId=thread_id)
    assert sorted(answers) == [name for name in METHODS if not name.startswith(OWN)]
    models = importlib.import_module("openai_codex.models")
    models.InitializeResponse.model_validate(answers.pop("initialize"))
    for method, result in answers.items():
        getattr(generated, NAMES.get(method, METHODS[method][1].__name__)).model_validate(result)
    told = [one for one in client.told if "method" in one]
    for one in told:
        registry.NOTIFICATION_MODELS[one["method"]].model_validate(one["params"])
    heard = {one["method"] for one in told}
    assert {*NOTIFICATIONS} - heard == {"job/completed", "job/progress"}
    generated.QueuedSubmission.model_validate(queued)
