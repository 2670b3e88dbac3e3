"""Lets a few at a time of all that could go on do so. It knows neither question nor answer.

An event loop does all that is ready before it looks at its sockets again, and what is sent meanwhile leaves
at the end. When hundreds of answers come together, that is hundreds of answers read, then hundreds of results
stored, then hundreds of new requests made, and the first of these leaves with the last: the model stands idle
for as long as the work on all of them takes, in every round. With a few at a time, the first new request is
on its way before the tenth answer is read.
"""

import asyncio
from collections import deque
from collections.abc import Callable

from rowcrew.store.backlog import Backlog

# Each is about a millisecond of work; fewer would only turn the loop more often.
AT_A_TIME = 3
# However slow the disk is, so long after the last one the next few pass.
MAX_HOLD_SECONDS = 0.25
# More than this must not be left undone for the sake of those who go before.
MOST_FINISHING = 256

_Queue = deque[asyncio.Future[None]]


class Turnstile:
    """Who asks goes first, then who has heard an answer, then who only finishes; in a queue, who came first.

    With a backlog set, answers and what finishes are held back while it is long: what is read then would not
    be stored sooner, and the results before it would be stored later.

    Discipline: one event loop. `_left` says how many may still pass in this step; the next step comes after
    the loop has looked at its sockets.
    """

    def __init__(self, at_a_time: int = AT_A_TIME) -> None:
        self.backlog: Backlog | None = None
        self._at_a_time = at_a_time
        self._left = at_a_time
        self._asking: _Queue = deque()
        self._heard: _Queue = deque()
        self._finishing: _Queue = deque()
        self._stepping = False
        self._hold: asyncio.TimerHandle | None = None

    async def ask(self) -> None:
        """Return when it is the caller's turn to make a request."""
        await self._pass(self._asking)

    async def hear(self) -> None:
        """Return when it is the caller's turn to read an answer."""
        await self._pass(self._heard)

    async def finish(self) -> None:
        """Return when it is the caller's turn to do what no request waits for."""
        await self._pass(self._finishing)

    async def _pass(self, queue: _Queue) -> None:
        self._step_soon()
        waits = self._asking or self._heard or self._finishing
        if self._left > 0 and not waits and (queue is self._asking or not self._holds_back()):
            self._left -= 1
            return
        turn = asyncio.get_running_loop().create_future()
        queue.append(turn)
        await turn

    def _first(self) -> _Queue | None:
        """The queue whose turn it is; None when nobody waits or all who do are held back."""
        if self._asking:
            return self._asking
        behind = self._behind()
        return None if not behind or self._holds_back() else behind

    def _behind(self) -> _Queue:
        """Of those who may be held back: the queue that goes first. Empty when nobody waits there."""
        return self._finishing if len(self._finishing) > MOST_FINISHING else self._heard or self._finishing

    def _holds_back(self) -> bool:
        if self._hold is None and self.backlog is not None and self.backlog.is_long:
            loop = asyncio.get_running_loop()
            self._hold = loop.call_later(MAX_HOLD_SECONDS, self._let_go)
            self.backlog.when_shorter(self._look_again)
        return self._hold is not None

    def _look_again(self) -> None:
        if self._hold is not None:
            self._hold.cancel()
            self._hold = None
            self._step_soon()

    def _let_go(self) -> None:
        """The backlog is as long as before, and has been for too long."""
        self._let_through(self._behind)
        self._look_again()

    def _step_soon(self) -> None:
        if not self._stepping:
            self._stepping = True
            asyncio.get_running_loop().call_soon(self._step)

    def _step(self) -> None:
        self._let_through(self._first)
        self._stepping = False
        if self._left < self._at_a_time:
            self._step_soon()

    def _let_through(self, first: Callable[[], _Queue | None]) -> None:
        """A few, each from the queue that goes first then."""
        self._left = self._at_a_time
        while self._left > 0 and (queue := first()):
            turn = queue.popleft()
            # Who was cancelled meanwhile does not want it any more.
            if not turn.done():
                turn.set_result(None)
                self._left -= 1
