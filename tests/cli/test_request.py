"""The options of run and preview, from text to a JobRequest."""

import io
import sys
from pathlib import Path
from typing import Any

import click
import pytest

from rowcrew.cli.request import (
    Delimiter,
    JobOptions,
    RowSpan,
    Seconds,
    build_request,
    job_options,
    job_settings,
)
from rowcrew.config import AgentSettings, Settings
from rowcrew.domain.intake import TableOptions
from rowcrew.domain.job import JobSettings, RetryPolicy
from rowcrew.engine import Engine
from rowcrew.errors import InvalidRequest
from rowcrew.scheduler.creation import JobRequest


def parse(*arguments: str) -> JobOptions:
    @click.command()
    @job_options
    def command(*, options: JobOptions) -> JobOptions:
        return options

    parsed = command.main(list(arguments), standalone_mode=False)
    assert isinstance(parsed, JobOptions)
    return parsed


def refusal(*arguments: str) -> str:
    with pytest.raises(InvalidRequest) as refused:
        build_request(parse(*arguments))
    return refused.value.message


def test_without_options_a_request_is_all_defaults() -> None:
    assert build_request(parse("in.csv", "-i", "Do {x}")) == JobRequest(Path("in.csv"), "Do {x}")


def test_every_option_reaches_the_request() -> None:
    request = build_request(
        parse(
            *("in.csv", "-i", "Do", "--id-column", "key", "-o", "out.csv", "--force", "--name", "mine"),
            *("--output-schema", ' {"type": "object"}', "--limit", "5", "--range", "2:9", "--sample", "3"),
            *("--seed", "7", "--delimiter", ";", "--encoding", "cp1252", "--allow-unknown-placeholders"),
            *("--no-export", "--new"),
        )
    )
    assert request == JobRequest(
        input_path=Path("in.csv"),
        instruction="Do",
        table=TableOptions("key", ";", "cp1252", 5, (2, 9), 3, 7),
        output_path=Path("out.csv"),
        force=True,
        output_schema=' {"type": "object"}',
        name="mine",
        auto_export=False,
        allow_unknown_placeholders=True,
        new=True,
    )


async def test_the_settings_of_a_job_come_from_options_and_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    known = Settings(
        home=tmp_path / "home",
        model="openai:gpt-5",
        base_url="http://x",
        agents=AgentSettings(job_max_runtime_seconds=60.0),
        sandbox_mode="workspace-write",
    )
    async with Engine.open(known) as engine:
        assert job_settings(parse("in.csv"), engine) == JobSettings(
            model="openai:gpt-5",
            base_url="http://x",
            max_runtime_seconds=60.0,
            sandbox_mode="workspace-write",
            working_folder=str(tmp_path),
        )
        asked = parse(
            *("in.csv", "--worker", "command:cat", "--command-input", "prompt", "-j", "3", "--bom", "--raw"),
            *("--max-runtime-seconds", "2.5", "--max-attempts", "1", "--no-expand", "--format", "jsonl"),
        )
        assert job_settings(asked, engine) == JobSettings(
            worker="command:cat",
            max_concurrency=3,
            max_runtime_seconds=2.5,
            retry=RetryPolicy(max_attempts=1),
            command_input="prompt",
            sandbox_mode="workspace-write",
            expand=False,
            raw=True,
            bom=True,
            output_format="jsonl",
            working_folder=str(tmp_path),
        )
        with pytest.raises(InvalidRequest, match="only for command workers"):
            job_settings(parse("in.csv", "--command-input", "json"), engine)


async def test_the_embedded_model_makes_the_worker_a_oneshot(tmp_path: Path) -> None:
    async with Engine.open(Settings(home=tmp_path / "home")) as engine:
        settings = job_settings(parse("in.csv", "-m", "local"), engine)
        assert (settings.worker, settings.model) == ("oneshot", "local")
        with pytest.raises(InvalidRequest) as refused:
            job_settings(parse("in.csv"), engine)
        said = f"{refused.value.message} {refused.value.hint}"
        assert [word for word in ("-m ", "rowcrew models list", "local") if word not in said] == []


@pytest.mark.parametrize(("given", "delimiter"), [(r"\t", "\t"), ("tab", "\t"), ("\t", "\t"), (";", ";")])
def test_a_delimiter_may_be_written_or_named(given: str, delimiter: str) -> None:
    assert build_request(parse("in.csv", "-i", "x", "--delimiter", given)).table.delimiter == delimiter


@pytest.mark.parametrize("text", [";;", "", '"', "\n", r"\n"])
def test_a_delimiter_is_one_character(text: str) -> None:
    with pytest.raises(click.BadParameter, match="must be one character"):
        Delimiter().convert(text, None, None)


@pytest.mark.parametrize(
    ("text", "span"),
    [("2:9", (2, 9)), (":9", (None, 9)), ("2:", (2, None)), (":", (None, None)), ("3:3", (3, 3))],
)
def test_a_range_is_half_open_and_either_end_may_be_missing(text: str, span: tuple[int | None, ...]) -> None:
    assert RowSpan().convert(text, None, None) == span


@pytest.mark.parametrize("text", ["", "3", "a:b", "-1:3", "1:2:3", "9:2", "1.5:2", "²:3", ":" + "9" * 5000])
def test_a_range_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(click.BadParameter):
        RowSpan().convert(text, None, None)


@pytest.mark.parametrize("text", ["0", "-1", "nan", "inf", "soon"])
def test_a_time_limit_is_above_zero(text: str) -> None:
    with pytest.raises(click.BadParameter, match="is not a number of seconds above 0"):
        Seconds().convert(text, None, None)


@pytest.mark.parametrize("option", ["-j", "--max-attempts", "--limit", "--sample"])
def test_counts_are_at_least_one(option: str) -> None:
    with pytest.raises(click.BadParameter):
        parse("in.csv", option, "0")


def test_an_instruction_comes_from_a_file_or_standard_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "do.txt"
    file.write_bytes(b"\xef\xbb\xbfDo {x}\r\n\r\n")
    assert build_request(parse("in.csv", "--instruction-file", str(file))).instruction == "Do {x}\r\n"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO("Sag {ü}\n".encode())))
    assert build_request(parse("in.csv", "--instruction-file", "-")).instruction == "Sag {ü}"


def test_an_instruction_that_cannot_be_had_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "do.txt"
    assert refusal("in.csv") == "there is no instruction"
    assert refusal("in.csv", "-i", "x", "--instruction-file", "y") == (
        "-i and --instruction-file exclude each other"
    )
    assert refusal("in.csv", "--instruction-file", str(file)) == (
        f"the instruction file {file} cannot be read: No such file or directory"
    )
    file.write_bytes(b"Do\xff")
    assert refusal("in.csv", "--instruction-file", str(file)) == (
        f"the instruction file {file} is not UTF-8 text (byte 2)"
    )


def test_a_schema_is_a_file_or_json(tmp_path: Path) -> None:
    file = tmp_path / "schema.json"
    file.write_text('{"type": "object"}\n')
    assert build_request(parse("in.csv", "-i", "x", "--output-schema", str(file))).output_schema == (
        '{"type": "object"}'
    )
    assert refusal("in.csv", "-i", "x", "--output-schema", "nothing.json") == (
        "--output-schema: there is no file nothing.json, and it is no JSON object"
    )
    assert refusal("in.csv", "-i", "x", "--output-schema", "[" * 5000) == (
        f"--output-schema: there is no file {'[' * 199}…, and it is no JSON object"
    )


def test_standard_streams_are_no_tables() -> None:
    assert refusal("-", "-i", "x").startswith("the table cannot come from standard input")
    assert refusal("in.csv", "-i", "x", "-o", "-").startswith("the table cannot go to standard output")


def test_a_seed_without_a_sample_is_refused() -> None:
    assert refusal("in.csv", "-i", "x", "--seed", "1") == "--seed is only for --sample"


def test_no_option_is_forgotten() -> None:
    @click.command()
    @job_options
    def command(**values: Any) -> None: ...

    assert len(command.params) == len(JobOptions.__dataclass_fields__)
