"""From the options of `exec` to what is to be run: the prompt, the thread, its setup. It starts nothing.

The options are those of Codex's `exec`, so that programs written for it, its SDK first, need no change.
"""

import functools
import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from rowcrew.agent.setup import ThreadSetup
from rowcrew.cli.session import Session
from rowcrew.cli.terminal import say
from rowcrew.domain.schema import OutputSchema
from rowcrew.errors import InvalidRequest
from rowcrew.setting_kinds import SANDBOX_MODES

FEATURES = ("collab", "sqlite")
STDIN = "-"
# Settings of Codex's that its SDK passes. One has a name of its own here; one says what always holds.
CODEX_BASE_URL = "openai_base_url"
CODEX_SATISFIED = frozenset({"approval_policy"})
CODEX_KEY = "CODEX_API_KEY"
OPENAI_KEY = "OPENAI_API_KEY"


@dataclass(frozen=True, slots=True)
class ExecRequest:
    """One call. `thread` is the id or prefix to go on with; None with `is_resumed` is the latest."""

    prompt: str
    setup: ThreadSetup
    is_resumed: bool = False
    thread: str | None = None
    output_schema: dict[str, Any] | None = None
    message_path: Path | None = None


def _tag(text: str) -> Callable[[Any], Any]:
    return click.option(text, hidden=True, is_flag=True, expose_value=False, help="Accepted; means nothing.")


OPTIONS: tuple[Callable[[Any], Any], ...] = (
    click.argument("words", nargs=-1, metavar="[resume THREAD] [PROMPT|-]"),
    click.option(
        "--json",
        "--experimental-json",
        "as_json",
        is_flag=True,
        help="Print JSON event lines, as Codex's exec.",
    ),
    click.option("-m", "--model", help="The model, such as openai:gpt-5 or local."),
    click.option("--base-url", help="An OpenAI-compatible server to ask."),
    click.option("-s", "--sandbox", type=click.Choice(SANDBOX_MODES), help="What the agent may touch."),
    click.option("--full-auto", is_flag=True, help="The same as --sandbox workspace-write."),
    click.option(
        "--dangerously-bypass-approvals-and-sandbox",
        "--yolo",
        "unconfined",
        is_flag=True,
        help="The same as --sandbox danger-full-access.",
    ),
    click.option("-C", "--cd", "folder", type=click.Path(path_type=Path), help="The folder to work in."),
    click.option(
        "--add-dir",
        "folders",
        multiple=True,
        type=click.Path(path_type=Path),
        help="A further folder to work in. Repeatable.",
    ),
    click.option(
        "--output-schema",
        "schema_path",
        type=click.Path(path_type=Path),
        help="A file with the JSON Schema that the last message is to fit.",
    ),
    click.option(
        "-o",
        "--output-last-message",
        "message_path",
        type=click.Path(path_type=Path),
        help="Write the last message to this file too.",
    ),
    click.option("--last", is_flag=True, help="With resume: the thread that was used last."),
    click.option(
        "--enable", multiple=True, metavar="FEATURE", help="Turn a feature on: collab (it is), sqlite."
    ),
    click.option("--disable", multiple=True, metavar="FEATURE", help="Turn a feature off: collab."),
    click.option(
        "-i",
        "--image",
        "images",
        multiple=True,
        type=click.Path(path_type=Path),
        help="Name a file in the prompt.",
    ),
    click.option("-c", "more_config", multiple=True, metavar="KEY=VALUE", help="The same as --config."),
    click.option("--color", hidden=True, expose_value=False, help="Accepted; means nothing."),
    click.option("--thread-source", hidden=True, expose_value=False, help="Accepted; means nothing."),
    click.option("--cyber-access-program", hidden=True, expose_value=False, help="Accepted; means nothing."),
    _tag("--skip-git-repo-check"),
)


def exec_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """All options and arguments of exec."""
    return functools.reduce(lambda wrapped, option: option(wrapped), reversed(OPTIONS), command)


def build(session: Session, given: dict[str, Any]) -> ExecRequest:
    """Read what has to be read. Raises InvalidRequest."""
    is_resumed, thread, words = _split(list(given["words"]), last=given["last"])
    prompt = _prompt(words)
    for image in given["images"]:
        # A thread's turns are text; the agent can look at what it has tools for.
        prompt += f"\n\nAttached file: {image.absolute()}"
    base_url = _take_codex_settings(session, given)
    model = given["model"]
    if base_url is not None and given["base_url"] is None:
        model = of_openai(model)
    setup = ThreadSetup(
        cwd=given["folder"],
        model=model,
        base_url=given["base_url"] or base_url,
        sandbox_mode=_sandbox_mode(given),
        also_writable=given["folders"],
        collab=_collab(given),
    )
    schema_path, message_path = given["schema_path"], given["message_path"]
    if message_path is not None:
        _check_writable(message_path)
    return ExecRequest(
        prompt=prompt,
        setup=setup,
        is_resumed=is_resumed,
        thread=thread,
        output_schema=None if schema_path is None else _read_schema(schema_path),
        message_path=message_path,
    )


def of_openai(model: str | None) -> str | None:
    """A bare model name as Codex means it. With a server of the user's own it is that server's, and stays."""
    return model if model is None or ":" in model or model == "local" else f"openai:{model}"


def _split(words: list[str], *, last: bool) -> tuple[bool, str | None, list[str]]:
    """(whether a thread is gone on with, which one, what is left)."""
    if words[:1] != ["resume"]:
        if last:
            raise InvalidRequest("--last belongs to `exec resume`", hint="rowcrew exec resume --last PROMPT")
        return False, None, words
    if last:
        return True, None, words[1:]
    if len(words) < 2:
        raise InvalidRequest(
            "no thread is named to go on with",
            hint="rowcrew exec resume THREAD PROMPT, or resume --last PROMPT",
        )
    return True, words[1], words[2:]


def _prompt(words: list[str]) -> str:
    if len(words) > 1:
        raise InvalidRequest(
            f"the prompt is one argument and {len(words)} were given", hint="put quotes around it"
        )
    prompt = words[0] if words else STDIN
    if prompt == STDIN:
        if not words and sys.stdin is not None and sys.stdin.isatty():
            raise InvalidRequest("there is no prompt", hint="rowcrew exec PROMPT, or - to type it here")
        prompt = _read_stdin()
    if not prompt.strip():
        raise InvalidRequest("the prompt is empty", hint="say what the agent is to do")
    return prompt


def _read_stdin() -> str:
    data = b"" if sys.stdin is None else sys.stdin.buffer.read()
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InvalidRequest(
            f"standard input is no UTF-8 (byte {error.start})", hint="save the prompt as UTF-8"
        ) from error


def _check_writable(path: Path) -> None:
    """Before anything is asked and paid for."""
    why = None
    if path.is_dir():
        why = "it is a folder"
    elif not path.parent.is_dir():
        why = f"there is no folder {path.parent}"
    elif not os.access(path if path.exists() else path.parent, os.W_OK):
        why = "it may not be written"
    if why is not None:
        raise InvalidRequest(
            f"the last message cannot be written to {path}: {why}", hint="name another file with -o"
        )


def _read_schema(path: Path) -> dict[str, Any]:
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no UTF-8"
        raise InvalidRequest(
            f"the output schema {path} cannot be read: {reason}", hint="name a file with a JSON Schema"
        ) from error
    return OutputSchema.parse(text).document


def _sandbox_mode(given: dict[str, Any]) -> str | None:
    if given["sandbox"] is not None:
        return str(given["sandbox"])
    if given["unconfined"]:
        return "danger-full-access"
    return "workspace-write" if given["full_auto"] else None


def _collab(given: dict[str, Any]) -> bool | None:
    for name in (*given["enable"], *given["disable"]):
        if name not in FEATURES:
            say(f"Note: there is no feature {name!r}; it is ignored. There are: {', '.join(FEATURES)}.")
    if "collab" in given["disable"]:
        return False
    return True if "collab" in given["enable"] else None


def _take_codex_settings(session: Session, given: dict[str, Any]) -> str | None:
    """What Codex's SDK says through --config and the environment. The base URL, where it names one."""
    for text in given["more_config"]:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise InvalidRequest(f"-c {text!r} is not KEY=VALUE", hint="such as -c agents.max_threads=4")
        session.overrides[key.strip()] = value.strip()
    for key in CODEX_SATISFIED:
        session.overrides.pop(key, None)
    if os.environ.get(CODEX_KEY):
        os.environ[OPENAI_KEY] = os.environ[CODEX_KEY]
    url = session.overrides.pop(CODEX_BASE_URL, None)
    if url is None:
        return None
    try:
        read = json.loads(url)
    except ValueError:
        read = url
    return str(read)
