"""From the options of `run` and `preview` to a JobRequest: reading and checking text. It opens no table."""

import functools
import sys
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal

import click

from rowcrew.cli.quantities import Delimiter, RowSpan, Seconds, Span
from rowcrew.cli.terminal import one_line
from rowcrew.domain.intake import TableOptions
from rowcrew.domain.job import JobSettings
from rowcrew.engine import Engine
from rowcrew.errors import InvalidRequest
from rowcrew.scheduler.creation import JobRequest

_AT_LEAST_1 = click.IntRange(min=1)
_PATH = click.Path(path_type=Path)

_OPTIONS = (
    click.argument("input_path", metavar="INPUT", type=_PATH),
    click.option("-i", "--instruction", help="What to do with each row; {column} is the row's cell."),
    click.option(
        "--instruction-file", metavar="FILE", help="The instruction from a file; - is standard input."
    ),
    click.option("--id-column", metavar="COLUMN", help="The column that names the rows."),
    click.option(
        "-o", "--output", "output_path", type=_PATH, help="Where the table goes (default: beside INPUT)."
    ),
    click.option("--force", is_flag=True, help="Replace an output file that is there."),
    click.option("--output-schema", metavar="FILE|JSON", help="JSON Schema that each result must fit."),
    click.option("--name", help="A name for the job."),
    click.option("-m", "--model", help="Such as openai:gpt-5, anthropic:…, local (needs no key)."),
    click.option("--base-url", metavar="URL", help="An OpenAI-compatible server."),
    click.option("--worker", help="agent, oneshot, command:WORDS or python:MODULE:FUNCTION."),
    click.option("--command-input", type=click.Choice(["json", "prompt"]), help="What a command reads."),
    click.option("-j", "--max-concurrency", type=_AT_LEAST_1, help="Rows at a time (default 64)."),
    click.option("--max-runtime-seconds", type=Seconds(), help="Time for one attempt (default 1800)."),
    click.option("--max-attempts", type=_AT_LEAST_1, help="Attempts for one row (default 3)."),
    click.option("--limit", type=_AT_LEAST_1, help="Only the first rows."),
    click.option("--range", "span", type=RowSpan(), help="Only rows A to B, counted from 0, without B."),
    click.option("--sample", type=_AT_LEAST_1, help="Only so many rows, drawn by chance."),
    click.option("--seed", type=int, help="Makes --sample draw the same rows again."),
    click.option(
        "--delimiter", type=Delimiter(), help="Between cells (default: a comma; .tsv, .tab: a tab)."
    ),
    click.option("--encoding", help="Of INPUT (default: its byte-order mark, else UTF-8)."),
    click.option("--allow-unknown-placeholders", is_flag=True, help="Keep {names} that are no column."),
    click.option("--no-export", is_flag=True, help="Write no table at the end."),
    click.option("--format", "output_format", type=click.Choice(["csv", "jsonl"]), help="Of the output."),
    click.option("--raw", is_flag=True, help="Do not disarm cells that a spreadsheet would compute."),
    click.option("--bom", is_flag=True, help="Begin the output with a byte-order mark, for Excel."),
    click.option("--no-expand", is_flag=True, help="No result.<property> columns."),
    click.option("--new", is_flag=True, help="Start another although the same job is unfinished."),
)


@dataclass(frozen=True, slots=True)
class JobOptions:
    """The options of one call, as click has read them."""

    input_path: Path
    instruction: str | None
    instruction_file: str | None
    id_column: str | None
    output_path: Path | None
    force: bool
    output_schema: str | None
    name: str | None
    model: str | None
    base_url: str | None
    worker: str | None
    command_input: Literal["json", "prompt"] | None
    max_concurrency: int | None
    max_runtime_seconds: float | None
    max_attempts: int | None
    limit: int | None
    span: Span | None
    sample: int | None
    seed: int | None
    delimiter: str | None
    encoding: str | None
    allow_unknown_placeholders: bool
    no_export: bool
    output_format: Literal["csv", "jsonl"] | None
    raw: bool
    bom: bool
    no_expand: bool
    new: bool


def job_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options of a job; it is called with one `options: JobOptions` in their place."""
    names = [field.name for field in fields(JobOptions)]

    @functools.wraps(command)
    def with_options(*arguments: Any, **values: Any) -> Any:
        options = JobOptions(**{name: values.pop(name) for name in names})
        return command(*arguments, options=options, **values)

    for option in reversed(_OPTIONS):
        with_options = option(with_options)
    return with_options


def build_request(options: JobOptions) -> JobRequest:
    """The request that the options stand for, but for its settings. Raises InvalidRequest."""
    return JobRequest(
        input_path=_input_path(options.input_path),
        instruction=_instruction(options),
        table=_table_options(options),
        output_path=_output_path(options.output_path),
        force=options.force,
        output_schema=None if options.output_schema is None else _schema_text(options.output_schema),
        name=options.name,
        auto_export=not options.no_export,
        allow_unknown_placeholders=options.allow_unknown_placeholders,
        new=options.new,
    )


def job_settings(options: JobOptions, engine: Engine) -> JobSettings:
    """The job's settings from options and settings. Raises InvalidRequest."""
    if options.command_input is not None and not (options.worker or "").startswith("command:"):
        raise InvalidRequest(
            "--command-input is only for command workers",
            hint="add --worker 'command:WORDS', or leave it out",
        )
    return engine.job_settings(
        worker=options.worker,
        model=options.model,
        base_url=options.base_url,
        max_runtime_seconds=options.max_runtime_seconds,
        max_attempts=options.max_attempts,
        max_concurrency=options.max_concurrency,
        command_input=options.command_input or "json",
        expand=not options.no_expand,
        raw=options.raw,
        bom=options.bom,
        output_format=options.output_format or "csv",
    )


def _input_path(path: Path) -> Path:
    if str(path) == "-":
        raise InvalidRequest(
            "the table cannot come from standard input: it is read twice, and resume looks for it again",
            hint="save it to a file and name that: rowcrew run FILE …",
        )
    return path


def _output_path(path: Path | None) -> Path | None:
    if path is not None and str(path) == "-":
        raise InvalidRequest(
            "the table cannot go to standard output: it is written whole and put in place at the end",
            hint="name a file: -o FILE",
        )
    return path


def _instruction(options: JobOptions) -> str:
    if options.instruction is not None and options.instruction_file is not None:
        raise InvalidRequest("-i and --instruction-file exclude each other", hint="give one of them")
    if options.instruction is not None:
        return options.instruction
    if options.instruction_file is None:
        raise InvalidRequest(
            "there is no instruction",
            hint="say what to do with each row: -i 'Say what {column} is about', or --instruction-file FILE",
        )
    if options.instruction_file == "-":
        return _from_stdin("the instruction")
    return _read_text(Path(options.instruction_file), "the instruction file")


def _schema_text(given: str) -> str:
    if given.lstrip().startswith("{"):
        return given
    path = Path(given)
    try:
        found = path.is_file()
    except OSError:  # a name too long to be one
        found = False
    if not found:
        raise InvalidRequest(
            f"--output-schema: there is no file {one_line(given)}, and it is no JSON object",
            hint="""give a file, or JSON such as '{"properties": {"topic": {"type": "string"}}}'""",
        )
    return _read_text(path, "the schema file")


def text_or_stdin(text: str) -> str:
    """A text as it was given; `-` stands for standard input. Raises InvalidRequest."""
    return _from_stdin("the text") if text == "-" else text


def _from_stdin(what: str) -> str:
    return _as_text(sys.stdin.buffer.read(), f"{what} on standard input")


def _read_text(path: Path, what: str) -> str:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InvalidRequest(f"{what} {path} cannot be read: {error.strerror}") from error
    return _as_text(data, f"{what} {path}")


def _as_text(data: bytes, what: str) -> str:
    try:
        # An editor's last line end belongs to the file, not to the instruction.
        return data.decode("utf-8-sig").removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError as error:
        raise InvalidRequest(f"{what} is not UTF-8 text (byte {error.start})") from None


def _table_options(options: JobOptions) -> TableOptions:
    if options.seed is not None and options.sample is None:
        raise InvalidRequest("--seed is only for --sample", hint="add --sample N, or leave --seed out")
    return TableOptions(
        id_column=options.id_column,
        delimiter=options.delimiter,
        encoding=options.encoding,
        limit=options.limit,
        range=options.span,
        sample=options.sample,
        seed=options.seed,
    )
