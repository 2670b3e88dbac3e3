"""What a call was given besides its verb: --config and -v, before or after it. It reads no setting."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import click


@dataclass(slots=True)
class Session:
    """One call of the command. Filled while its options are parsed."""

    overrides: dict[str, str] = field(default_factory=dict)
    verbosity: int = 0


def session_of(context: click.Context) -> Session:
    """The session of this call."""
    return context.find_root().ensure_object(Session)


def _take_config(context: click.Context, option: click.Parameter, values: tuple[str, ...]) -> None:
    for value in values:
        key, equals, text = value.partition("=")
        if not equals or not key.strip():
            raise click.BadParameter(f"{value!r} is not KEY=VALUE", ctx=context, param=option)
        session_of(context).overrides[key.strip()] = text.strip()


def _take_verbosity(context: click.Context, _option: click.Parameter, count: int) -> None:
    session_of(context).verbosity += count


def shared_options() -> list[click.Parameter]:
    """The options that every verb takes, and that may also stand before it."""
    return [
        click.Option(
            ["--config"],
            multiple=True,
            metavar="KEY=VALUE",
            expose_value=False,
            callback=_take_config,
            help="Override a setting, such as agents.max_threads=4. Repeatable.",
        ),
        click.Option(
            ["-v", "--verbose"],
            count=True,
            expose_value=False,
            callback=_take_verbosity,
            help="Log lines on standard error; -vv for more.",
        ),
    ]


class Verb(click.Command):
    """A command of rowcrew's: click's, with the shared options."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.params += shared_options()


def json_option(what: str = "Print JSON on standard output.") -> Callable[[Any], Any]:
    """--json, as every verb that prints data has it."""
    return click.option("--json", "as_json", is_flag=True, help=what)
