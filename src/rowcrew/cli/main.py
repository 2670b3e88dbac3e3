"""The command `rowcrew`: which verbs there are, and how a call ends. It loads no verb that is not used."""

import difflib
import os
import sys
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module

import click

from rowcrew.cli import exits
from rowcrew.cli.session import Session, shared_options
from rowcrew.cli.terminal import open_closed_streams, say
from rowcrew.errors import RowcrewError


@dataclass(frozen=True, slots=True)
class Lazy:
    """Where a verb is, and its line in the help, which must not load it (a test holds the two equal)."""

    place: str
    help: str


VERBS: dict[str, Lazy] = {
    "run": Lazy("rowcrew.cli.run:run", "Run one instruction over every row of a table."),
    "resume": Lazy("rowcrew.cli.run:resume", "Go on with a job that stopped."),
    "retry": Lazy("rowcrew.cli.run:retry", "Run the failed rows of a job again."),
    "preview": Lazy("rowcrew.cli.preview:preview", "Show the prompts of the first rows, and run nothing."),
    "list": Lazy("rowcrew.cli.jobs:list_jobs", "List the jobs, the newest first."),
    "status": Lazy("rowcrew.cli.jobs:status", "Show where a job stands (the latest, if none is named)."),
    "wait": Lazy("rowcrew.cli.watch:wait", "Wait until a job has ended or is paused."),
    "pause": Lazy("rowcrew.cli.jobs:pause", "Stop a running job so that it can be resumed."),
    "cancel": Lazy("rowcrew.cli.jobs:cancel", "End a job; the rows that are done stay done."),
    "show": Lazy("rowcrew.cli.show:show", "Show a job with its failed rows, or one row with its attempts."),
    "export": Lazy("rowcrew.cli.jobs:export", "Write the table of a job as it stands."),
    "rm": Lazy("rowcrew.cli.jobs:remove", "Delete a job with its rows and results."),
    "exec": Lazy("rowcrew.cli.exec:execute", "Give one agent one task, and wait for its answer."),
    "report": Lazy("rowcrew.cli.report:report", "Report a result from inside a command worker."),
    "demo": Lazy("rowcrew.cli.demo:demo", "Run the embedded model over an example table."),
    "doctor": Lazy(
        "rowcrew.cli.diagnosis:doctor", "Check the database files; show paths, versions, settings."
    ),
    "models": Lazy("rowcrew.cli.models:models", "Fetch and list the embedded models."),
    "thread": Lazy(
        "rowcrew.cli.threads:thread", "Look at conversations with agents, name them, put them away."
    ),
    "queue": Lazy("rowcrew.cli.queue:queue", "Write down turns for a thread, to be run one after the other."),
    "app-server": Lazy(
        "rowcrew.cli.appserver:app_server", "Serve programs over the wire format of Codex's app-server."
    ),
    "mcp": Lazy("rowcrew.cli.servers:mcp", "Serve the job tools to other agents over MCP."),
}


class Program(click.Group):
    """The root command. Knows its verbs from the table alone until one is used."""

    def list_commands(self, _context: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, _context: click.Context, name: str) -> click.Command | None:
        if name not in VERBS:
            return None
        module, _, attribute = VERBS[name].place.partition(":")
        command: click.Command = getattr(import_module(module), attribute)
        return command

    def resolve_command(
        self, context: click.Context, arguments: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = arguments[0]
        if name not in VERBS and not name.startswith("-"):
            near = difflib.get_close_matches(name, VERBS, n=1)
            advice = f" Did you mean `rowcrew {near[0]}`?" if near else ""
            raise click.UsageError(f"there is no command {name!r}.{advice}", context)
        return super().resolve_command(context, arguments)

    def format_commands(self, _context: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, lazy.help) for name, lazy in VERBS.items()])


def _print_version(context: click.Context, _option: click.Parameter, asked: bool) -> None:
    if asked and not context.resilient_parsing:
        # Loaded here: it takes a fifth of the time that --help may take.
        version: str = import_module("importlib.metadata").version("rowcrew")
        click.echo(f"rowcrew {version}")
        context.exit()


program = Program(
    name="rowcrew",
    help="Run one agent over every row of a table, as a durable job.",
    epilog="Start with: rowcrew demo, or: rowcrew run table.csv -i 'Say what {column} is about' -m MODEL",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    no_args_is_help=False,
    params=[
        *shared_options(),
        click.Option(
            ["--version"],
            is_flag=True,
            is_eager=True,
            expose_value=False,
            callback=_print_version,
            help="Show the version.",
        ),
    ],
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line. The exit code; never an exception, never a traceback that was not asked for."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    session = Session()
    open_closed_streams()
    try:
        code = program.main(given or ["--help"], prog_name="rowcrew", standalone_mode=False, obj=session)
        return code if isinstance(code, int) else exits.OK
    except RowcrewError as error:
        return _end(error.message, exits.ending_of(error), session)
    except click.ClickException as error:
        return _end_usage(error)
    except (click.Abort, KeyboardInterrupt):
        say("Interrupted. `rowcrew status` shows where the jobs stand.")
        return exits.SIGNALLED + 2
    except OSError as error:
        # Such as a help text that cannot be written: the system's fault, in the system's words.
        return _end(str(error), exits.Ending(exits.ERROR, exits.DOCTOR), session)
    except Exception as error:
        # The last line before the user, who must not see a traceback.
        return _end_unexpected(error, session)


def _end(message: str, ending: exits.Ending, session: Session) -> int:
    if session.verbosity or os.environ.get("ROWCREW_DEBUG"):
        say(traceback.format_exc())
    say(f"Error: {message}")
    say(f"Hint: {ending.hint}")
    return ending.code


def _end_usage(error: click.ClickException) -> int:
    context = error.ctx if isinstance(error, click.UsageError) else None
    command = context.command_path if context else "rowcrew"
    message = error.format_message()
    say(f"Error: {message[:1].lower()}{message[1:]}")
    say(f"Hint: `{command} --help` shows what can be given{_dash_hint(error)}")
    return exits.USAGE


def _dash_hint(error: click.ClickException) -> str:
    """For a text that was taken for an option."""
    context = error.ctx if isinstance(error, click.NoSuchOption) else None
    takes_text = context and any(isinstance(one, click.Argument) for one in context.command.params)
    return "; what is no option and begins with a dash goes after --" if takes_text else ""


def _end_unexpected(error: Exception, session: Session) -> int:
    said = f"{type(error).__name__}: {error}".rstrip(": ")
    hint = "your jobs are safe; run it again with -v for the details, and report them"
    return _end(f"something in rowcrew itself broke ({said})", exits.Ending(exits.ERROR, hint), session)
