"""Lets a few at a time of all that could go on do so. It knows neither question nor answer.

An event loop does all that is ready before it looks at its sockets again, and what is sent meanwhile leaves
at the end. When hundreds of answers come together, that is hundreds of answers read, then hundreds of results
stored, then hundreds of new requests made, and the first of these leaves with the last: the model stands idle
for as long as the work on all of them takes, in every round. With a few at a time, the first new request is
on its way before the tenth answer is read.
"""

import asyncio
from collections import deque

# Each is about a millisecond of work; fewer would only turn the loop more often.
AT_A_TIME = 3


class Turnstile:
    """Who asks goes before who has heard an answer; among themselves, first come, first served.

    Discipline: one event loop. `_left` says how many may still pass in this step; the next step comes after
    the loop has looked at its sockets.
    """

    def __init__(self, at_a_time: int = AT_A_TIME) -> None:
        self._at_a_time = at_a_time
        self._left = at_a_time
        self._asking: deque[asyncio.Future[None]] = deque()
        self._heard: deque[asyncio.Future[None]] = deque()
        self._stepping = False

    async def ask(self) -> None:
        """Return when it is the caller's turn to make a request."""
        await self._pass(self._asking)

    async def hear(self) -> None:
        """Return when it is the caller's turn to read an answer."""
        await self._pass(self._heard)

    async def _pass(self, queue: deque[asyncio.Future[None]]) -> None:
        loop = asyncio.get_running_loop()
        if not self._stepping:
            self._stepping = True
            loop.call_soon(self._step)
        if self._left > 0 and not self._asking and not self._heard:
            self._left -= 1
            return
        turn = loop.create_future()
        queue.append(turn)
        await turn

    def _step(self) -> None:
        self._left = self._at_a_time
        while self._left > 0 and (queue := self._asking or self._heard):
            turn = queue.popleft()
            # Who was cancelled meanwhile does not want it any more.
            if not turn.done():
                turn.set_result(None)
                self._left -= 1
        self._stepping = self._left < self._at_a_time
        if self._stepping:
            asyncio.get_running_loop().call_soon(self._step)
