"""app-server: serve clients until they have gone or a signal comes; write the schemas. No rule of its own."""

import asyncio
import os
import signal
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from rowcrew.cli.exits import OK, SIGNALLED
from rowcrew.cli.opening import with_engine
from rowcrew.cli.session import Verb, shared_options
from rowcrew.cli.terminal import say
from rowcrew.engine import Engine
from rowcrew.errors import InvalidRequest

STDIO = "stdio://"
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@click.group("app-server", invoke_without_command=True)
@click.option("--listen", default=STDIO, show_default=True, help="stdio:// or ws://127.0.0.1:PORT (0: any).")
@click.pass_context
def app_server(context: click.Context, *, listen: str) -> int:
    """Serve programs over the wire format of Codex's app-server."""
    if context.invoked_subcommand is not None:
        return OK
    if listen not in (STDIO, "stdio"):
        host, port = import_module("rowcrew.appserver.websocket").parse_address(listen)
        return with_engine(context, lambda engine: _serve(engine, websocket=(host, port)), fast=True)
    # Before anything else is loaded: from here on a print, a warning or a child cannot break a frame.
    claimed = import_module("rowcrew.appserver.stdio").claim()
    return with_engine(context, lambda engine: _serve(engine, stdio=claimed), fast=True)


app_server.params += shared_options()


@app_server.command("generate-json-schema", cls=Verb)
@click.option("--out", required=True, type=click.Path(path_type=Path, file_okay=False), help="The folder.")
@click.option("--experimental", is_flag=True, hidden=True, help="Accepted: all methods are there anyway.")
def generate_json_schema(*, out: Path, experimental: bool) -> int:
    """Write the JSON Schemas of all messages."""
    del experimental
    count = import_module("rowcrew.appserver.schemas").write(out)
    say(f"{count} files are in {out}.")
    return OK


class _Ending:
    """Signals while the server runs: the first ends it in good order, the second interrupt at once."""

    def __init__(self) -> None:
        self.wanted = asyncio.Event()
        self.exit_code = OK
        self._interrupts = 0

    def __enter__(self) -> "_Ending":
        loop = asyncio.get_running_loop()
        for number in SIGNALS:
            # What was told to be ignored (nohup, a shell's background) stays ignored.
            if signal.getsignal(number) is not signal.SIG_IGN:
                loop.add_signal_handler(number, self._take, number)
        return self

    def __exit__(self, *_: object) -> None:
        loop = asyncio.get_running_loop()
        for number in SIGNALS:
            loop.remove_signal_handler(number)

    def _take(self, number: signal.Signals) -> None:
        self._interrupts += number == signal.SIGINT
        if self._interrupts > 1:
            os._exit(SIGNALLED + number)
        if not self.wanted.is_set():
            self.exit_code = SIGNALLED + (signal.SIGTERM if number == signal.SIGHUP else number)
            self.wanted.set()


async def _serve(
    engine: Engine, *, stdio: tuple[int, int] | None = None, websocket: tuple[str, int] | None = None
) -> int:
    with _Ending() as ending:
        async with import_module("rowcrew.appserver.server").AppServer.open(engine) as server:
            if stdio is not None:
                await _serve_stdio(server, stdio, ending)
            elif websocket is not None:
                await _serve_websocket(server, websocket, ending)
            else:
                raise InvalidRequest("there is nothing to listen on", hint="give --listen")
        return ending.exit_code


async def _serve_stdio(server: Any, stdio: tuple[int, int], ending: _Ending) -> None:
    transport = import_module("rowcrew.appserver.stdio").StdioTransport(*stdio)
    serving = asyncio.create_task(server.serve(transport, alone=True))
    ends = {asyncio.create_task(ending.wanted.wait()), asyncio.create_task(server.until_ending())}
    await asyncio.wait({serving, *ends}, return_when=asyncio.FIRST_COMPLETED)
    for end in ends:
        end.cancel()
    await server.close()
    await serving


async def _serve_websocket(server: Any, address: tuple[str, int], ending: _Ending) -> None:
    host, port = address
    async with import_module("rowcrew.appserver.websocket").listening(host, port, server.serve) as taken:
        say(f"Listening on ws://{host}:{taken}")
        with suppress(asyncio.CancelledError):
            await ending.wanted.wait()
        await server.close()
