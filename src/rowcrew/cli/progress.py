"""Showing how a run goes. A thread of its own prints, so that a slow reader never slows the rows.

Discipline: `show`, `say` and `tell` of Display may be called from the event loop; they leave something for
the thread and never wait. Of progress only the latest is kept; sentences and events all stay, in order.
"""

import threading
import time
from collections import deque
from collections.abc import Callable
from importlib import import_module
from types import TracebackType
from typing import Literal, Protocol, cast

from rowcrew.cli.render import progress_line
from rowcrew.cli.shapes import Shape, progress_event
from rowcrew.cli.terminal import say, show_json
from rowcrew.errors import RowcrewError
from rowcrew.scheduler.progress import Progress

PLAIN_EVERY_SECONDS = 5.0
# A reader that takes nothing any more must not keep the command from ending.
CLOSE_SECONDS = 2.0

Style = Literal["rich", "plain", "none", "json"]


class Painter(Protocol):
    """One way to show progress. Called from the display's thread only."""

    def draw(self, progress: Progress) -> None:
        """Show the state; may leave it out when the last one is recent."""
        ...

    def say(self, text: str) -> None:
        """A sentence between two states."""
        ...

    def close(self) -> None:
        """Show what was left out, and stop."""
        ...


class PlainLines:
    """A line every few seconds, and one at the end."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._next = 0.0
        self._left_out: Progress | None = None

    def draw(self, progress: Progress) -> None:
        now = self._clock()
        if now < self._next:
            self._left_out = progress
            return
        self._next, self._left_out = now + PLAIN_EVERY_SECONDS, None
        say(progress_line(progress))

    def say(self, text: str) -> None:
        say(text)

    def close(self) -> None:
        if self._left_out is not None:
            say(progress_line(self._left_out))


class Silent:
    """No progress; sentences only."""

    def draw(self, progress: Progress) -> None:
        return

    def say(self, text: str) -> None:
        say(text)

    def close(self) -> None:
        return


class JsonLines:
    """A JSON line for each state, on standard output; sentences go to people as ever."""

    def __init__(self, job_id: str) -> None:
        self._job_id = job_id

    def draw(self, progress: Progress) -> None:
        show_json(progress_event(self._job_id, progress))

    def say(self, text: str) -> None:
        say(text)

    def close(self) -> None:
        return


def painter_for(style: Style, job_id: str, title: str) -> Painter:
    """The painter of a style. rich is loaded only when a panel is drawn."""
    if style == "rich":
        return cast("Painter", import_module("rowcrew.cli.panel").Panel(title))
    if style == "json":
        return JsonLines(job_id)
    return PlainLines() if style == "plain" else Silent()


class Display:
    """The painter's thread. Use as a context manager around the run."""

    def __init__(self, painter: Painter) -> None:
        self._painter = painter
        self._changed = threading.Condition()
        self._sentences: deque[str | Shape] = deque()
        self._latest: Progress | None = None
        self._closing = False
        self._thread = threading.Thread(target=self._paint, name="progress", daemon=True)

    def __enter__(self) -> "Display":
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join(CLOSE_SECONDS)

    def show(self, progress: Progress) -> None:
        """The newest state; one that was not yet shown is dropped."""
        with self._changed:
            self._latest = progress
            self._changed.notify()

    def say(self, text: str) -> None:
        """A sentence for people."""
        with self._changed:
            self._sentences.append(text)
            self._changed.notify()

    def tell(self, event: Shape) -> None:
        """A JSON line that must not be dropped."""
        with self._changed:
            self._sentences.append(event)
            self._changed.notify()

    def _paint(self) -> None:
        closing = False
        while not closing:
            with self._changed:
                self._changed.wait_for(lambda: self._sentences or self._latest or self._closing)
                said, self._sentences = self._sentences, deque()
                latest, self._latest = self._latest, None
                closing = self._closing
            try:
                self._show_all(said, latest)
            except RowcrewError as error:
                # The rows go on without an audience.
                say(f"Error: {error.message}")
        self._painter.close()

    def _show_all(self, said: deque[str | Shape], latest: Progress | None) -> None:
        for sentence in said:
            if isinstance(sentence, str):
                self._painter.say(sentence)
            else:
                show_json(sentence)
        if latest is not None:
            self._painter.draw(latest)
