"""The progress panel on a terminal. The only module that loads rich; loaded when a panel is drawn."""

from rich.box import ROUNDED
from rich.console import Console
from rich.live import Live
from rich.panel import Panel as Frame
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from rowcrew.cli.render import progress_line
from rowcrew.scheduler.progress import Progress

WIDTH = 100


class Panel:
    """A bar and a line that are drawn again in place. rich itself honours NO_COLOR."""

    def __init__(self, title: str, console: Console | None = None) -> None:
        self._console = console or Console(stderr=True)
        self._title = title
        self._live: Live | None = None

    def draw(self, progress: Progress) -> None:
        done = progress.completed + progress.failed
        bar = ProgressBar(total=max(1, progress.total), completed=done if progress.total else 1)
        body = Table.grid(expand=True)
        body.add_row(bar)
        body.add_row(Text(progress_line(progress)))
        frame = Frame(body, title=Text(self._title), box=ROUNDED, width=min(WIDTH, self._console.width))
        if self._live is None:
            self._live = Live(
                frame,
                console=self._console,
                auto_refresh=False,
                redirect_stdout=False,
                redirect_stderr=False,
            )
            self._live.start(refresh=True)
        else:
            self._live.update(frame, refresh=True)

    def say(self, text: str) -> None:
        """Above the panel, which stays where it is."""
        self._console.print(Text(text), soft_wrap=True)

    def close(self) -> None:
        if self._live is not None:
            self._live.stop()
