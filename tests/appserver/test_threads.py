"""Threads and their turns over the wire: every turn that starts ends once, after all its items."""

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from rowcrew.agent.durable import DurableJournal
from rowcrew.agent.tools import ToolRegistry
from rowcrew.appserver import notifications
from rowcrew.errors import DiskFull
from rowcrew.testing import CallTool, Reply, unauthorized
from tests.appserver.conftest import Client, Desk, Failure, Opened

ONE_MESSAGE = [
    "turn/started",
    "item/started",
    "item/completed",
    "item/started",
    "item/agentMessage/delta",
    "item/completed",
    "thread/tokenUsage/updated",
    "turn/completed",
]


async def test_a_turn_is_told_in_order_and_ends_once(desk: Desk) -> None:
    client = await desk.client()
    started = await client.call("thread/start")
    thread = started["thread"]
    assert started["approvalPolicy"] == "never"
    assert started["sandbox"] == {"type": "readOnly", "networkAccess": False}
    assert (started["model"], started["modelProvider"]) == ("openai-chat:scripted", "openai-chat")
    turn = await client.say(thread["id"], "hello")
    assert client.methods(turn["id"]) == ONE_MESSAGE
    assert (turn["status"], turn["error"]) == ("completed", None)
    assert [item["type"] for item in turn["items"]] == ["userMessage", "agentMessage"]
    assert turn["items"][1]["text"] == "ok"
    told = await client.notified("thread/started")
    assert told["thread"]["id"] == thread["id"]
    statuses = [
        one["params"]["status"]["type"] for one in client.told if one.get("method") == "thread/status/changed"
    ]
    await client.notified("thread/status/changed", status={"type": "idle"})
    assert statuses[0] == "active"


async def test_outputs_are_in_the_items_and_not_in_the_completed_turn(open_desk: Opened) -> None:
    script = [Reply(calls=[CallTool("list_dir", {})]), Reply(text="done")]
    async with open_desk(script) as desk:
        client = await desk.client()
        thread_id = await desk.thread(client)
        turn = await client.say(thread_id, "look")
        call = next(item for item in turn["items"] if item["type"] == "dynamicToolCall")
        item = (
            await client.until(
                lambda one: (
                    one.get("method") == "item/completed" and one["params"]["item"]["id"] == call["id"]
                )
            )
        )["params"]["item"]
        assert (call["tool"], call["status"], call["success"], call["contentItems"]) == (
            "list_dir",
            "completed",
            True,
            None,
        )
        assert item["contentItems"][0]["type"] == "inputText"
        read = await client.call("thread/read", threadId=thread_id, includeTurns=True)
        assert item in read["thread"]["turns"][0]["items"]


async def test_a_failed_turn_tells_its_error_and_the_next_one_runs(open_desk: Opened) -> None:
    async with open_desk([unauthorized(), "better"]) as desk:
        client = await desk.client()
        thread_id = await desk.thread(client)
        failed = await client.say(thread_id, "hello")
        assert failed["status"] == "failed"
        assert failed["error"]["codexErrorInfo"] == "unauthorized"
        assert client.methods(failed["id"])[-2:] == ["error", "turn/completed"]
        await client.notified("thread/status/changed", status={"type": "systemError"})
        assert (await client.say(thread_id, "again"))["status"] == "completed"


def holding(gate: asyncio.Event) -> Any:
    async def answer(_: Any) -> Reply:
        await gate.wait()
        return Reply(text="released")

    return answer


async def start(client: Client, thread_id: str, text: str) -> str:
    answer = await client.call("turn/start", threadId=thread_id, input=[{"type": "text", "text": text}])
    turn_id: str = answer["turn"]["id"]
    return turn_id


async def test_a_turn_can_be_interrupted_and_steered_only_by_its_own_id(open_desk: Opened) -> None:
    gate = asyncio.Event()
    async with open_desk(holding(gate)) as desk:
        client = await desk.client()
        thread_id = await desk.thread(client)
        turn_id = await start(client, thread_id, "hello")
        await desk.models.until(arrived=1)
        text = [{"type": "text", "text": "and this"}]
        with pytest.raises(Failure, match=f"expected active turn id x but found {turn_id}"):
            await client.call("turn/steer", threadId=thread_id, expectedTurnId="x", input=text)
        with pytest.raises(Failure, match=f"expected active turn id x but found {turn_id}"):
            await client.call("turn/interrupt", threadId=thread_id, turnId="x")
        steered = await client.call("turn/steer", threadId=thread_id, expectedTurnId=turn_id, input=text)
        assert steered == {"turnId": turn_id}
        await client.call("turn/interrupt", threadId=thread_id, turnId=turn_id)
        turn = await client.turn_ended(turn_id)
        assert turn["status"] == "interrupted"
        assert [item["content"][0]["text"] for item in turn["items"]] == ["hello", "and this"]
        with pytest.raises(Failure, match="no active turn to steer"):
            await client.call("turn/steer", threadId=thread_id, expectedTurnId=turn_id, input=text)


async def test_threads_run_side_by_side_and_each_turn_ends_once(desk: Desk) -> None:
    client = await desk.client()
    threads = [await desk.thread(client) for _ in range(4)]
    turns = await asyncio.gather(*(client.say(thread_id, "hello") for thread_id in threads))
    ends = Counter(
        one["params"]["turn"]["id"] for one in client.told if one.get("method") == "turn/completed"
    )
    assert ends == {turn["id"]: 1 for turn in turns}


async def test_a_thread_is_found_named_archived_and_deleted(desk: Desk) -> None:
    client = await desk.client()
    thread_id = await desk.thread(client)
    await client.say(thread_id, "a first message")
    await client.call("thread/name/set", threadId=thread_id, name=" tidy up ")
    assert await client.notified("thread/name/updated") == {"threadId": thread_id, "threadName": "tidy up"}
    [found] = (await client.call("thread/list"))["data"]
    assert (found["name"], found["preview"], found["status"]) == (
        "tidy up",
        "a first message",
        {"type": "idle"},
    )
    await client.call("thread/archive", threadId=thread_id)
    await client.notified("thread/archived", threadId=thread_id)
    await client.notified("thread/closed", threadId=thread_id)
    assert (await client.call("thread/list"))["data"] == []
    [archived] = (await client.call("thread/list", archived=True))["data"]
    assert archived["status"] == {"type": "notLoaded"}
    unarchived = await client.call("thread/unarchive", threadId=thread_id)
    assert unarchived["thread"]["id"] == thread_id
    await client.call("thread/delete", threadId=thread_id)
    await client.notified("thread/deleted", threadId=thread_id)
    with pytest.raises(Failure, match="there is no thread"):
        await client.call("thread/read", threadId=thread_id)


async def test_a_thread_is_resumed_after_a_restart_and_forked(open_desk: Opened) -> None:
    async with open_desk("one") as desk:
        client = await desk.client()
        thread_id = await desk.thread(client)
        await client.say(thread_id, "hello")
    async with open_desk("two") as desk:
        client = await desk.client()
        with pytest.raises(Failure, match="thread not loaded"):
            await client.say(thread_id, "too early")
        resumed = await client.call("thread/resume", threadId=thread_id)
        assert len(resumed["thread"]["turns"]) == 1
        bare = await client.call("thread/resume", threadId=thread_id, excludeTurns=True)
        assert bare["thread"]["turns"] == []
        assert (await client.say(thread_id, "again"))["items"][1]["text"] == "two"
        forked = await client.call("thread/fork", threadId=thread_id)
        assert forked["thread"]["forkedFromId"] == thread_id
        assert len(forked["thread"]["turns"]) == 2
        assert sorted((await client.call("thread/loaded/list"))["data"]) == sorted(
            [thread_id, forked["thread"]["id"]]
        )


async def test_a_turn_may_name_another_folder_and_sandbox_from_now_on(desk: Desk, tmp_path: Path) -> None:
    client = await desk.client()
    thread_id = await desk.thread(client)
    (tmp_path / "elsewhere").mkdir()
    await client.say(
        thread_id, "hello", cwd=str(tmp_path / "elsewhere"), sandboxPolicy={"type": "workspaceWrite"}
    )
    shown = await client.call("thread/resume", threadId=thread_id, excludeTurns=True)
    assert shown["cwd"] == str(tmp_path / "elsewhere")
    assert shown["sandbox"]["type"] == "workspaceWrite"
    with pytest.raises(Failure, match="absolute path of a folder"):
        await client.call("thread/start", cwd="elsewhere")


async def test_who_is_not_subscribed_hears_of_threads_and_not_of_their_turns(desk: Desk) -> None:
    client, other = await desk.client(), await desk.client()
    thread_id = await desk.thread(client)
    turn = await client.say(thread_id, "hello")
    await other.notified("thread/status/changed", status={"type": "idle"})
    assert other.methods(turn["id"]) == []
    await other.call("thread/resume", threadId=thread_id)
    assert await client.call("thread/unsubscribe", threadId=thread_id) == {"status": "unsubscribed"}
    assert await client.call("thread/unsubscribe", threadId=thread_id) == {"status": "notSubscribed"}
    assert await client.call("thread/unsubscribe", threadId="x") == {"status": "notLoaded"}
    second = await start(other, thread_id, "hello")
    await other.turn_ended(second)
    assert client.methods(second) == []


async def test_who_comes_in_the_middle_of_a_turn_gets_the_whole_of_it_at_its_end(open_desk: Opened) -> None:
    gate = asyncio.Event()
    async with open_desk(holding(gate)) as desk:
        client, other = await desk.client(), await desk.client()
        thread_id = await desk.thread(client)
        turn_id = await start(client, thread_id, "hello")
        await desk.models.until(arrived=1)
        await other.call("thread/resume", threadId=thread_id)
        gate.set()
        mine, others = await client.turn_ended(turn_id), await other.turn_ended(turn_id)
        assert [item["type"] for item in others["items"]] == ["userMessage", "agentMessage"]
        assert others == mine


async def test_a_slow_reader_loses_deltas_and_no_completion(desk: Desk) -> None:
    client, slow = await desk.client(), await desk.client()
    thread_id = await desk.thread(client)
    await slow.call("thread/resume", threadId=thread_id)
    slow.reads.clear()
    # As if it were far behind: what fits between it and the work is a few facts.
    connection, feed = list(desk.server._connections.items())[1]
    connection.outbox._capacity = 1
    feed._facts._capacity = 16
    turns = [await client.say(thread_id, f"message {number}") for number in range(40)]
    slow.reads.set()
    await slow.turn_ended(turns[-1]["id"])

    def told(method: str) -> list[dict[str, Any]]:
        return [one["params"] for one in slow.told if one.get("method") == method]

    assert [one["turn"] for one in told("turn/completed")] == turns
    completed = [one["item"]["id"] for one in told("item/completed")]
    assert completed == [item["id"] for turn in turns for item in turn["items"]]
    assert [one["item"]["id"] for one in told("item/started")] == completed
    assert len(told("item/agentMessage/delta")) < len(turns)
    for turn in turns:
        assert slow.methods(turn["id"])[-1] == "turn/completed"


async def test_the_end_of_the_server_ends_the_turns_and_tells_it(open_desk: Opened) -> None:
    gate = asyncio.Event()
    async with open_desk(holding(gate)) as desk:
        client = await desk.client()
        turn_id = await start(client, await desk.thread(client), "hello")
        await desk.models.until(arrived=1)
    assert (await client.turn_ended(turn_id))["status"] == "interrupted"
    assert client.methods(turn_id)[-1] == "turn/completed"


async def test_a_turn_that_never_starts_is_told_to_have_ended(open_desk: Opened) -> None:
    gate = asyncio.Event()
    async with open_desk(holding(gate)) as desk:
        client = await desk.client()
        thread_id = await desk.thread(client)
        first = await start(client, thread_id, "first")
        await desk.models.until(arrived=1)
        second = await start(client, thread_id, "second")
        await client.call("thread/archive", threadId=thread_id)
        assert (await client.turn_ended(first))["status"] == "interrupted"
        never = await client.turn_ended(second)
        assert (never["status"], never["items"], never["itemsView"]) == ("interrupted", [], "notLoaded")
        assert client.methods(second) == ["turn/completed"]


async def test_a_turn_whose_telling_breaks_still_ends_once(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    client = await desk.client()
    thread_id = await desk.thread(client)

    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("for a test")

    with monkeypatch.context() as patched:
        patched.setattr(notifications, "wire_turn", broken)
        turn_id = await start(client, thread_id, "hello")
        turn = await client.turn_ended(turn_id)
    assert (turn["status"], turn["itemsView"]) == ("completed", "notLoaded")
    assert client.methods(turn_id).count("turn/completed") == 1
    assert "a notification could not be made" in caplog.text
    assert client.methods((await client.say(thread_id, "again"))["id"]) == ONE_MESSAGE


async def test_a_tool_that_breaks_fails_the_turn_and_no_item_stays_open(
    open_desk: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("for a test")

    monkeypatch.setattr(ToolRegistry, "run", broken)
    async with open_desk([Reply(calls=[CallTool("list_dir", {})])]) as desk:
        client = await desk.client()
        turn = await client.say(await desk.thread(client), "look")
        assert turn["status"] == "failed"
        assert "ZeroDivisionError: for a test" in turn["error"]["message"]
        methods = client.methods(turn["id"])
        assert methods.count("item/started") == methods.count("item/completed") == 2
        assert methods[-2:] == ["error", "turn/completed"]


async def test_a_tool_that_refuses_is_told_to_the_model_and_the_turn_goes_on(open_desk: Opened) -> None:
    script = [Reply(calls=[CallTool("read_file", {"path": "none"})]), Reply(text="I see")]
    async with open_desk(script) as desk:
        client = await desk.client()
        turn = await client.say(await desk.thread(client), "look")
        assert (turn["status"], turn["items"][-1]["text"]) == ("completed", "I see")
        assert (turn["items"][1]["status"], turn["items"][1]["success"]) == ("failed", False)
        assert client.methods(turn["id"])[-1] == "turn/completed"


async def test_a_turn_that_cannot_be_written_down_has_failed_and_ends_once(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = await desk.client()
    thread_id = await desk.thread(client)

    async def full(*_: object, **__: object) -> None:
        raise DiskFull("the disk is full")

    with monkeypatch.context() as patched:
        patched.setattr(DurableJournal, "flush", full)
        turn = await client.say(thread_id, "hello")
    assert (turn["status"], turn["error"]["message"]) == ("failed", "the disk is full")
    assert client.methods(turn["id"]).count("turn/completed") == 1
    assert (await client.say(thread_id, "again"))["status"] == "completed"


@pytest.mark.parametrize(
    ("params", "code", "said"),
    [
        ({"input": []}, -32600, "the input is empty"),
        ({"input": [{"type": "text", "text": " "}]}, -32600, "the input is empty"),
        ({"input": [{"type": "image", "url": "data:,"}]}, -32602, "agents here read text only"),
        ({"input": [{"type": "smell"}]}, -32602, "wrong parameters for turn/start"),
        ({"input": [], "toolOutput": {"name": "x", "output": "y"}}, -32602, "`toolOutput` is not supported"),
    ],
)
async def test_input_that_no_agent_here_can_read_is_refused(
    desk: Desk, params: dict[str, Any], code: int, said: str
) -> None:
    client = await desk.client()
    thread_id = await desk.thread(client)
    with pytest.raises(Failure, match=said) as failure:
        await client.call("turn/start", threadId=thread_id, **params)
    assert failure.value.code == code
