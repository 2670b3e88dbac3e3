"""What a client may send, and what it is answered."""

import asyncio
import json
from typing import Any

import pytest

from rowcrew.appserver import connection
from rowcrew.appserver.connection import MAX_REQUESTS
from rowcrew.testing import Reply
from tests.appserver.conftest import Client, Desk, Failure, Opened


async def error_after(client: Client, line: bytes) -> dict[str, Any]:
    start = len(client.told)
    client.write(line)
    answer = await client.until(lambda one: "error" in one, start=start)
    assert answer["id"] is None or isinstance(answer["id"], int | str)
    error: dict[str, Any] = answer["error"]
    return error


async def test_nothing_is_answered_before_initialize_and_initialize_only_once(desk: Desk) -> None:
    client = desk.connect()
    with pytest.raises(Failure, match=r"^Not initialized$") as early:
        await client.call("thread/list")
    answer = await client.call("initialize", clientInfo={"name": "test", "version": "1"})
    client.write(b'{"method":"initialized"}')
    with pytest.raises(Failure, match=r"^Already initialized$") as twice:
        await client.call("initialize", clientInfo={"name": "test", "version": "1"})
    assert (early.value.code, twice.value.code) == (-32600, -32600)
    assert answer["serverInfo"]["name"] == "rowcrew"
    assert answer["userAgent"].startswith("rowcrew/")
    assert (await client.call("thread/list"))["data"] == []


@pytest.mark.parametrize(
    ("line", "code", "said"),
    [
        (b"{", -32600, "the message is not valid JSON"),
        (b"\xff\xfe", -32600, "the message is not valid JSON"),
        (b"[" * 100_000, -32600, "the message is not valid JSON"),
        (b'{"id":1,"method":"thread/list","params":{"limit":NaN}}', -32600, "NaN is no number of JSON"),
        (b'{"id":1,"method":"thread/list","params":{"limit":1e999}}', -32600, "1e999 is no number of JSON"),
        (b'{"id":' + b"9" * 5000 + b',"method":"thread/list"}', -32600, "the message is not valid JSON"),
        (
            b'{"id":1,"method":"x","params":' + b"[" * 200 + b"]" * 200 + b"}",
            -32600,
            "at most 128 levels deep",
        ),
        (b"[]", -32600, "a message must be one JSON object"),
        (b"17", -32600, "a message must be one JSON object"),
        (b'{"id":1}', -32600, "`method` is missing or no string"),
        (b'{"id":1,"method":2}', -32600, "`method` is missing or no string"),
        (b'{"id":[1],"method":"thread/list"}', -32600, "`id` must be a string or a whole number"),
        (b'{"id":true,"method":"thread/list"}', -32600, "`id` must be a string or a whole number"),
        (b'{"id":1,"method":"thread/frobnicate"}', -32601, "there is no method `thread/frobnicate`"),
        (b'{"id":1,"method":"thread/read","params":[]}', -32602, "`params` must be an object"),
        (b'{"id":1,"method":"thread/read"}', -32602, "wrong parameters for thread/read: Field required"),
        (b'{"id":1,"method":"thread/read","params":{"threadId":7}}', -32602, "valid string (at `threadId`)"),
        (b'{"id":1,"method":"thread/read","params":{"threadId":"x"}}', -32600, "there is no thread x"),
        (b'{"id":1,"method":"job/list","params":{"surprise":1}}', -32602, "(at `surprise`)"),
    ],
)
async def test_a_wrong_request_is_answered_with_its_code_and_the_connection_lives(
    desk: Desk, line: bytes, code: int, said: str
) -> None:
    client = await desk.client()
    error = await error_after(client, line)
    assert (error["code"], said in error["message"]) == (code, True), error
    assert (await client.call("thread/loaded/list")) == {"data": [], "nextCursor": None}


async def test_a_line_of_one_mebibyte_is_read_and_one_of_ten_refused(desk: Desk) -> None:
    client = await desk.client()
    thread_id = await desk.thread(client)
    text = "x" * (1024 * 1024)
    turn = await client.say(thread_id, text)
    assert turn["status"] == "completed"
    assert turn["items"][0]["content"][0]["text"] == text
    assert desk.models.requests[0].last_user_text == text
    error = await error_after(client, b'{"id":1,"method":"' + b"x" * (10 * 1024 * 1024) + b'"}')
    assert error == {"code": -32600, "message": "a message may have at most 4194304 bytes"}
    assert (await client.call("thread/loaded/list"))["data"] == [thread_id]


async def test_answers_and_notifications_of_a_client_ask_for_nothing(desk: Desk) -> None:
    client = await desk.client()
    before = len(client.told)
    for line in (b'{"id":7,"result":{}}', b'{"id":7,"error":{"code":1}}', b'{"method":"initialized"}'):
        client.write(line)
    await client.call("thread/list")
    assert len(client.told) == before + 1


async def test_half_a_character_becomes_a_replacement_character(desk: Desk) -> None:
    client = await desk.client()
    turn = await client.say(await desk.thread(client), "half: \ud83d, whole: \U0001f600")
    assert turn["status"] == "completed"
    assert turn["items"][0]["content"][0]["text"] == "half: \ufffd, whole: \U0001f600"


async def test_a_flood_of_ten_thousand_requests_is_answered_to_the_last_one(desk: Desk) -> None:
    client = await desk.client()
    numbers = [client.ask("thread/loaded/list") for _ in range(10_000)]
    await client.until(lambda one: one.get("id") == numbers[-1])
    answered = sorted(one["id"] for one in client.told if one.get("id", -1) >= numbers[0])
    assert answered == numbers


async def test_who_does_not_read_is_not_read_from_and_misses_nothing(desk: Desk) -> None:
    client = await desk.client()
    outbox = next(iter(desk.server._connections)).outbox
    outbox._capacity = 10_000
    client.reads.clear()
    numbers = [client.ask("thread/list") for _ in range(2_000)]
    for _ in range(5_000):
        await asyncio.sleep(0)
    assert outbox.is_full
    # What was being carried out when it became full still fits; the rest stays with the client.
    assert outbox.size < 10_000 + MAX_REQUESTS * 100
    assert client.to_server.qsize() > 1_000
    client.reads.set()
    await client.until(lambda one: one.get("id") == numbers[-1])
    assert sorted(one["id"] for one in client.told if one.get("id", -1) >= numbers[0]) == numbers


async def test_a_connection_that_is_full_says_that_it_is_overloaded(open_desk: Opened) -> None:
    gate = asyncio.Event()

    async def held(_: Any) -> Reply:
        await gate.wait()
        return Reply(text="late")

    async with open_desk(held) as desk:
        client = await desk.client()
        thread_id = await desk.thread(client)
        # Requests for one thread are carried out one after the other: the first holds those behind it.
        thread_lock = next(iter(desk.server._connections))._turn_of(thread_id)
        async with thread_lock:
            numbers = [client.ask("thread/read", threadId=thread_id) for _ in range(MAX_REQUESTS + 1)]
            answer = await client.until(lambda one: one.get("id") == numbers[-1])
        assert answer["error"]["code"] == -32001
        assert answer["error"]["data"] == {"codexErrorInfo": "server_overloaded"}
        await client.until(lambda one: one.get("id") == numbers[-2])
        gate.set()
        assert all("result" in one for one in client.told if one.get("id") in numbers[:-1])


async def test_a_request_that_takes_too_long_is_given_up(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    client = await desk.client()
    thread_id = await desk.thread(client)
    held = next(iter(desk.server._connections))._turn_of(thread_id)
    with monkeypatch.context() as patched:
        patched.setattr(connection, "REQUEST_SECONDS", 0.05)
        async with held:
            with pytest.raises(
                Failure, match=r"thread/read took longer than 0\.05 s and was given up"
            ) as late:
                await client.call("thread/read", threadId=thread_id)
    assert late.value.code == -32603
    assert (await client.call("thread/read", threadId=thread_id))["thread"]["id"] == thread_id


async def test_a_method_that_breaks_is_an_error_and_the_connection_lives(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    client = await desk.client()

    def broken() -> None:
        raise ZeroDivisionError("for a test")

    with monkeypatch.context() as patched:
        patched.setattr(desk.server._threads, "list_loaded", broken)
        with pytest.raises(Failure, match=r"itself broke \(ZeroDivisionError: for a test\)") as failure:
            await client.call("thread/loaded/list")
    assert (failure.value.code, "thread/loaded/list broke" in caplog.text) == (-32603, True)
    assert (await client.call("thread/loaded/list"))["data"] == []


async def test_what_the_client_opted_out_of_is_not_told(desk: Desk) -> None:
    client = await desk.client(optOutNotificationMethods=["item/agentMessage/delta", "thread/started"])
    turn = await client.say(await desk.thread(client), "hello")
    told = {one["method"] for one in client.told if "method" in one}
    assert turn["status"] == "completed"
    assert "item/completed" in told
    assert told.isdisjoint({"item/agentMessage/delta", "thread/started"})


async def test_requests_under_way_are_answered_when_the_client_has_said_its_last_word(desk: Desk) -> None:
    client = await desk.client()
    number = client.ask("thread/start")
    client.to_server.put_nowait(None)
    await asyncio.wait_for(desk.serving[0], 20)
    answer = next(one for one in client.told if one.get("id") == number)
    assert json.dumps(answer["result"]["thread"]["status"]) == '{"type": "idle"}'
