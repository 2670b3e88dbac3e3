"""Frames on their way out."""

import asyncio

from rowcrew.appserver.outbox import BATCH_BYTES, Outbox


async def test_small_frames_go_out_together_and_a_large_one_alone() -> None:
    outbox = Outbox()
    small, large = b"x" * 10, b"y" * BATCH_BYTES
    for frame in (small, small, large, small):
        outbox.put(frame)
    assert [await outbox.take() for _ in range(3)] == [[small, small], [large], [small]]
    assert outbox.size == 0


async def test_there_is_room_again_when_enough_has_been_taken() -> None:
    outbox = Outbox(capacity=3)
    for frame in (b"ab", b"cd"):
        outbox.put(frame)
    waiting = asyncio.create_task(outbox.room())
    assert (outbox.is_full, await asyncio.wait({waiting}, timeout=0)) == (True, (set(), {waiting}))
    assert await outbox.take() == [b"ab", b"cd"]
    await waiting


async def test_what_waits_is_taken_after_the_end_unless_nobody_is_there() -> None:
    outbox = Outbox()
    outbox.put(b"last")
    outbox.close()
    outbox.put(b"too late")
    assert [await outbox.take(), await outbox.take()] == [[b"last"], []]
    gone = Outbox(capacity=1)
    gone.put(b"unread")
    gone.close(drop=True)
    await gone.room()
    assert await gone.take() == []
