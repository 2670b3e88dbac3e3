"""models pull, models list: the embedded model's weights, and how models are named. It loads no model."""

import os
import sys
from pathlib import Path

import click

from rowcrew.agent import weights
from rowcrew.cli.exits import OK
from rowcrew.cli.opening import load_settings
from rowcrew.cli.render import table
from rowcrew.cli.session import Verb, json_option, session_of
from rowcrew.cli.terminal import printable, say, show, show_json

MEGABYTE = 1_000_000
# Names as pydantic-ai has them; the key comes from the variable.
PROVIDERS = (
    ("openai:NAME", "OPENAI_API_KEY", "the responses interface; openai-chat:NAME for the other one"),
    ("anthropic:NAME", "ANTHROPIC_API_KEY", "with the extra: pip install 'rowcrew[anthropic]'"),
)


@click.group(no_args_is_help=True)
def models() -> None:
    """Fetch and list the embedded models."""


@models.command(cls=Verb)
@json_option()
@click.pass_context
def pull(context: click.Context, *, as_json: bool) -> int:
    """Fetch the weights of the embedded model (98 MB, once)."""
    home = load_settings(session_of(context)).home
    path = fetch_weights(home)
    if as_json:
        show_json({"model": "local", "path": str(path)})
    return OK


def fetch_weights(home: Path) -> Path:
    """The weights, fetched with a progress bar if they are not there. Raises RowcrewError."""
    if (found := weights.find(home)) is not None:
        say(f"The weights of the embedded model are at {printable(str(found))}")
        return found
    size = weights.SMOLLM2.download_size
    say(f"Fetching the weights of the embedded model ({size // MEGABYTE} MB, once) …")
    path = weights.pull(home, Meter(size))
    say(f"The weights are at {printable(str(path))}")
    return path


class Meter:
    """Shows a download: a bar in place on a terminal, a line every tenth elsewhere."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._tenth = 0
        self._bar = click.progressbar(length=size, label="models pull", file=sys.stderr)
        self._in_place = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
        self._shown = 0

    def __call__(self, done: int, total: int) -> None:
        if self._in_place:
            self._bar.update(done - self._shown)
            self._shown = done
            if done >= total:
                self._bar.render_finish()
        elif (tenth := 10 * done // max(1, total)) > self._tenth:
            self._tenth = tenth
            say(f"{10 * tenth} % of {total // MEGABYTE} MB")


@models.command("list", cls=Verb)
@json_option()
@click.pass_context
def list_models(context: click.Context, *, as_json: bool) -> int:
    """List the models that are here, and how others are named."""
    settings = load_settings(session_of(context))
    found = weights.find(settings.home)
    folder = weights.place(settings.home).parent
    others = sorted(path for path in folder.glob("*.gguf") if path != found) if folder.is_dir() else []
    if as_json:
        here = [{"model": "local", "path": str(weights.place(settings.home)), "present": found is not None}]
        here += [{"model": f"local:{path}", "path": str(path), "present": True} for path in others]
        named = [
            {
                "model": f"{name}:NAME",
                "base_url": provider.get("base_url"),
                "env_key": provider.get("env_key"),
            }
            for name, provider in settings.model_providers.items()
        ]
        show_json({"models": here, "model_providers": named, "default": settings.model}, indent=2)
        return OK
    state = "here" if found else "not here yet: rowcrew models pull"
    lines = [("local", "", f"{weights.SMOLLM2.file_name}, {state}")]
    lines += [(f"local:{path}", "", "here") for path in others]
    lines += [(name, _key_state(variable), what) for name, variable, what in PROVIDERS]
    for name, provider in settings.model_providers.items():
        key = provider.get("env_key", "")
        lines.append((f"{name}:NAME", _key_state(key) if key else "", provider.get("base_url", "")))
    show(table(("MODEL", "KEY", ""), [tuple(map(printable, line)) for line in lines]))
    say("Any other server that speaks as OpenAI does: -m openai-chat:NAME --base-url URL")
    return OK


def _key_state(variable: str) -> str:
    return f"{variable} {'is set' if os.environ.get(variable) else 'is not set'}"
