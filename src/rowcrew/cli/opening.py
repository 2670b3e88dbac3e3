"""From a call to an open engine: the settings, the logging, the event loop. It knows no verb."""

import asyncio
import logging
import sys
from collections.abc import Awaitable, Callable
from importlib import import_module

import click

from rowcrew.cli.session import Session, session_of
from rowcrew.cli.terminal import say
from rowcrew.config import Settings
from rowcrew.engine import Engine

Work = Callable[[Engine], Awaitable[int | None]]


def load_settings(session: Session) -> Settings:
    """The settings of this call; what they have to say is said. Raises InvalidRequest."""
    settings = Settings.load(session.overrides)
    for notice in settings.notices:
        say(f"Note: {notice}.")
    return settings


def with_engine(
    context: click.Context, work: Work, *, settings: Settings | None = None, fast: bool = False
) -> int:
    """Open the engine, do the work, close the engine. The exit code.

    `fast` takes uvloop where it can be imported: worth its loading where rows are run, not where one looks.
    """
    session = session_of(context)
    known = settings or load_settings(session)
    set_up_logging(session.verbosity)

    async def main() -> int | None:
        async with Engine.open(known) as engine:
            return await work(engine)

    with asyncio.Runner(loop_factory=_fast_loop() if fast else None) as runner:
        return runner.run(main()) or 0


def set_up_logging(verbosity: int) -> None:
    """Log lines go to standard error when they were asked for."""
    if verbosity:
        logging.basicConfig(
            stream=sys.stderr,
            level=logging.INFO if verbosity == 1 else logging.DEBUG,
            format="%(asctime)s %(levelname)s %(name)s: %(message)s",
        )
    else:
        # Python's handler of last resort would print warnings that nobody asked for.
        logging.getLogger().addHandler(logging.NullHandler())


def _fast_loop() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        factory: Callable[[], asyncio.AbstractEventLoop] = import_module("uvloop").new_event_loop
    except ImportError:
        return None
    return factory
