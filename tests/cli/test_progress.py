"""How progress is shown: as lines, as JSON lines, as a panel; and that showing never holds up the rows."""

import io
import json
import re
import threading
from collections.abc import Sequence

import pytest
from rich.console import Console

from rowcrew.cli.panel import Panel
from rowcrew.cli.progress import Display, JsonLines, PlainLines, Silent, painter_for
from rowcrew.scheduler.progress import Progress

Streams = pytest.CaptureFixture[str]


def progress(done: int, *, failed: int = 0) -> Progress:
    return Progress(10, 10 - done - failed, 0, done, failed, 2.0, 3.0, 1.0)


def line(done: int) -> str:
    return f"{done}/10 rows done, 0 running, 2.0 rows/s, about 3 s left"


class Clock:
    """Gives the times it was told, one after the other."""

    def __init__(self, times: Sequence[float]) -> None:
        self._times = iter(times)

    def __call__(self) -> float:
        return next(self._times)


def test_plain_lines_come_every_five_seconds_and_at_the_end(capsys: Streams) -> None:
    lines = PlainLines(Clock([100.0, 101.0, 105.0, 106.0]))
    for done in (0, 1, 2, 3):
        lines.draw(progress(done))
    lines.say("Look out.")
    lines.close()
    assert capsys.readouterr().err.splitlines() == [line(0), line(2), "Look out.", line(3)]


def test_plain_lines_do_not_repeat_the_last_state(capsys: Streams) -> None:
    lines = PlainLines(Clock([100.0]))
    lines.draw(progress(10))
    lines.close()
    assert capsys.readouterr().err.splitlines() == [line(10)]


def test_json_lines_go_to_standard_output_and_sentences_do_not(capsys: Streams) -> None:
    lines = JsonLines("job-1")
    lines.draw(progress(4, failed=1))
    lines.say("Look out.")
    lines.close()
    out, err = capsys.readouterr()
    assert (json.loads(out), err) == (
        {
            "type": "job.progress",
            "job_id": "job-1",
            "total_items": 10,
            "pending_items": 5,
            "running_items": 0,
            "completed_items": 4,
            "failed_items": 1,
            "rate": 2.0,
            "eta_seconds": 3.0,
            "elapsed_seconds": 1.0,
            "held_by": None,
        },
        "Look out.\n",
    )


def test_silence_still_says_sentences(capsys: Streams) -> None:
    silent = Silent()
    silent.draw(progress(1))
    silent.say("Look out.")
    silent.close()
    assert capsys.readouterr() == ("", "Look out.\n")


def test_each_style_has_its_painter() -> None:
    kinds = {"rich": Panel, "plain": PlainLines, "none": Silent, "json": JsonLines}
    assert {style: type(painter_for(style, "id", "title")) for style in kinds} == kinds  # type: ignore[arg-type]


def panel_output(monkeypatch: pytest.MonkeyPatch, *, no_color: bool) -> str:
    monkeypatch.setenv("TERM", "xterm-256color")
    if no_color:
        monkeypatch.setenv("NO_COLOR", "1")
    file = io.StringIO()
    panel = Panel("1a2b reviews", Console(file=file, force_terminal=True, width=60))
    panel.draw(progress(4))
    panel.say("Look [bold]out.")
    panel.draw(progress(10))
    panel.close()
    return file.getvalue()


def test_a_panel_shows_title_counts_and_sentences(monkeypatch: pytest.MonkeyPatch) -> None:
    text = panel_output(monkeypatch, no_color=False)
    assert [
        part for part in ("1a2b reviews", "4/10 rows done", "Look [bold]out.", "10/10") if part not in text
    ] == []
    assert re.findall(r"\x1b\[[0-9;]*38;[0-9;]*m", text) != []


def test_a_panel_honours_no_color(monkeypatch: pytest.MonkeyPatch) -> None:
    text = panel_output(monkeypatch, no_color=True)
    assert "10/10 rows done" in text
    assert re.findall(r"\x1b\[[0-9;]*[34][0-9][0-9;]*m", text) == []


class Slow:
    """A painter whose audience takes nothing until it is let go."""

    def __init__(self) -> None:
        self.drawing = threading.Event()
        self.go_on = threading.Event()
        self.seen: list[object] = []

    def draw(self, progress: Progress) -> None:
        self.drawing.set()
        assert self.go_on.wait(60)
        self.seen.append(progress.completed)

    def say(self, text: str) -> None:
        self.seen.append(text)

    def close(self) -> None:
        self.seen.append("closed")


def test_a_slow_audience_sees_the_latest_state_and_every_sentence() -> None:
    slow = Slow()
    with Display(slow) as display:
        display.show(progress(1))
        assert slow.drawing.wait(60)
        for done in (2, 3, 4):
            display.show(progress(done))
        display.say("one")
        display.say("two")
        slow.go_on.set()
    assert slow.seen == [1, "one", "two", 4, "closed"]


def test_events_are_json_lines_in_order(capsys: Streams) -> None:
    with Display(JsonLines("job-1")) as display:
        display.tell({"type": "job.started"})
        display.show(progress(1))
    types = [json.loads(text)["type"] for text in capsys.readouterr().out.splitlines()]
    assert types == ["job.started", "job.progress"]
