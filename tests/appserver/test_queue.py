"""The queue of turns over the wire."""

import asyncio
from typing import Any

import pytest

from rowcrew.testing import Reply
from tests.appserver.conftest import Client, Desk, Failure, Opened


async def add(client: Client, thread_id: str, text: str, **params: Any) -> dict[str, Any]:
    answer = await client.call(
        "thread/queue/add", threadId=thread_id, input=[{"type": "text", "text": text}], **params
    )
    submission: dict[str, Any] = answer["queuedSubmission"]
    return submission


async def listed(client: Client, thread_id: str) -> list[tuple[str, str]]:
    page = await client.call("thread/queue/list", threadId=thread_id)
    return [(one["input"][0]["text"], one["status"]) for one in page["data"]]


async def test_what_is_queued_runs_when_the_thread_is_idle_and_every_change_is_told(desk: Desk) -> None:
    client = await desk.client()
    thread_id = await desk.thread(client)
    queued = await add(client, thread_id, "later", clientUserMessageId="mine")
    assert (queued["clientUserMessageId"], queued["status"]) == ("mine", "pending")
    ended = await client.notified("turn/completed", threadId=thread_id)
    assert ended["turn"]["items"][0]["content"][0]["text"] == "later"
    await client.notified("thread/queue/changed", threadId=thread_id)
    again = await client.call(
        "thread/queue/add",
        threadId=thread_id,
        clientUserMessageId="mine",
        input=[{"type": "text", "text": "later"}],
    )
    assert again == {"queuedSubmission": None} or again["queuedSubmission"]["id"] == queued["id"]
    with pytest.raises(Failure, match="already stands for another queued turn"):
        await add(client, thread_id, "something else", clientUserMessageId="mine")


async def test_a_queue_that_an_interrupt_holds_is_changed_and_started_over_the_wire(
    open_desk: Opened,
) -> None:
    gate = asyncio.Event()

    async def answer(_: Any) -> Reply:
        await gate.wait()
        return Reply(text="released")

    async with open_desk(answer) as desk:
        client = await desk.client()
        thread_id = await desk.thread(client)
        started = await client.call(
            "turn/start", threadId=thread_id, input=[{"type": "text", "text": "mine"}]
        )
        await desk.models.until(arrived=1)
        first, second, third = [await add(client, thread_id, text) for text in "ABC"]
        await client.call("turn/interrupt", threadId=thread_id, turnId=started["turn"]["id"])
        await client.turn_ended(started["turn"]["id"])
        assert (await client.call("thread/queue/list", threadId=thread_id))["held"] is True

        await client.call(
            "thread/queue/update",
            threadId=thread_id,
            queuedSubmissionId=second["id"],
            input=[{"type": "text", "text": "B, but better"}],
        )
        deleted = await client.call("thread/queue/delete", threadId=thread_id, queuedSubmissionId=first["id"])
        assert deleted == {"deleted": True}
        with pytest.raises(Failure, match="must include every visible queued turn exactly once"):
            await client.call("thread/queue/reorder", threadId=thread_id, queuedSubmissionIds=[third["id"]])
        await client.call(
            "thread/queue/reorder", threadId=thread_id, queuedSubmissionIds=[third["id"], second["id"]]
        )
        assert await listed(client, thread_id) == [("C", "pending"), ("B, but better", "pending")]
        with pytest.raises(Failure, match="has not failed"):
            await client.call("thread/queue/retry", threadId=thread_id, queuedSubmissionId=third["id"])
        with pytest.raises(Failure, match="is not the head of its queue"):
            await client.call("thread/queue/start", threadId=thread_id, queuedSubmissionId=second["id"])
        gate.set()
        gone_on = await client.call("thread/queue/start", threadId=thread_id, queuedSubmissionId=third["id"])
        turn = await client.turn_ended(gone_on["turn"]["id"])
        assert turn["items"][0]["content"][0]["text"] == "C"
        await client.until(
            lambda one: (
                one.get("method") == "turn/completed"
                and one["params"]["turn"]["items"][0]["content"][0]["text"] == "B, but better"
            )
        )


async def test_pages_of_a_queue_follow_each_other(open_desk: Opened) -> None:
    async with open_desk() as desk:
        client = await desk.client()
        thread_id = await desk.thread(client)
        await client.call("thread/archive", threadId=thread_id)
        for number in range(5):
            await add(client, thread_id, str(number))
        texts: list[str] = []
        cursor = None
        while True:
            page = await client.call("thread/queue/list", threadId=thread_id, limit=2, cursor=cursor)
            texts += [one["input"][0]["text"] for one in page["data"]]
            cursor = page["nextCursor"]
            if cursor is None:
                break
        assert texts == ["0", "1", "2", "3", "4"]
        with pytest.raises(Failure, match="is no cursor of this list"):
            await client.call("thread/queue/list", threadId=thread_id, cursor="x")
        with pytest.raises(Failure, match="thread not loaded"):
            await client.call("thread/queue/start", threadId=thread_id)


async def test_deleting_a_thread_deletes_its_queue(desk: Desk) -> None:
    client = await desk.client()
    thread_id = await desk.thread(client)
    await client.call("thread/archive", threadId=thread_id)
    await add(client, thread_id, "never")
    await client.call("thread/delete", threadId=thread_id)
    with pytest.raises(Failure, match="there is no thread"):
        await client.call("thread/queue/list", threadId=thread_id)
