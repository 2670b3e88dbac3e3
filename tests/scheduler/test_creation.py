"""What is checked of a request before a job of it is stored."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from rowcrew.domain.job import JobSettings
from rowcrew.errors import InvalidRequest
from rowcrew.scheduler.creation import JobRequest, find_input, prepare

FOREIGN = os.fsdecode(b"caf\xe9")


@pytest.fixture
def request_of_a_table(tmp_path: Path) -> JobRequest:
    path = tmp_path / "in.csv"
    path.write_text("id,name\n1,Ada\n")
    return JobRequest(path, "Greet {name}")


def test_what_is_no_utf_8_is_refused_by_name_and_not_by_the_store(request_of_a_table: JobRequest) -> None:
    asked = request_of_a_table
    foreign_table = asked.input_path.with_name(f"{FOREIGN}.csv")
    foreign_table.write_text("id,name\n1,Ada\n")
    refusals = []
    for request in (
        replace(asked, instruction=FOREIGN),
        replace(asked, instruction=f"{{{FOREIGN}}}"),
        replace(asked, name=FOREIGN),
        replace(asked, input_path=foreign_table),
        replace(asked, output_path=Path(FOREIGN)),
        replace(asked, settings=JobSettings(worker=f"command:{FOREIGN}")),
        replace(asked, settings=JobSettings(model=FOREIGN)),
        replace(asked, settings=JobSettings(base_url=FOREIGN)),
        replace(asked, settings=JobSettings(working_folder=FOREIGN)),
    ):
        with pytest.raises(InvalidRequest) as caught:
            prepare(request)
        refusals.append(caught.value.message)
    assert refusals == [
        "the instruction is not UTF-8 text: caf\\udce9",
        "the instruction is not UTF-8 text: {caf\\udce9}",
        "the name of the job is not UTF-8 text: caf\\udce9",
        f"the path of the table is not UTF-8 text: {foreign_table.parent}/caf\\udce9.csv",
        "the path of the output is not UTF-8 text: caf\\udce9",
        "the worker is not UTF-8 text: command:caf\\udce9",
        "the model is not UTF-8 text: caf\\udce9",
        "the base URL is not UTF-8 text: caf\\udce9",
        "the folder that the job starts from is not UTF-8 text: caf\\udce9",
    ]


@pytest.mark.parametrize("seconds", [0.0, -1.0, 1e9, float("inf"), float("nan")])
def test_a_time_limit_that_is_none_is_refused_with_both_its_bounds(
    request_of_a_table: JobRequest, seconds: float
) -> None:
    with pytest.raises(InvalidRequest, match="must be greater than 0 and less than 1,000,000,000"):
        prepare(replace(request_of_a_table, settings=JobSettings(max_runtime_seconds=seconds)))


def test_a_path_that_leads_to_no_table_is_refused_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "file").touch()
    os.mkfifo(tmp_path / "pipe")
    long = "x" * 300
    refusals = []
    for name in ("nowhere", "file/below", "a\0b", "loop", long, ".", "pipe"):
        with pytest.raises(InvalidRequest) as caught:
            find_input(tmp_path / name)
        refusals.append(caught.value.message.replace(f"{tmp_path}/", ""))
    assert refusals == [
        "there is no file nowhere",
        "there is no file file/below",
        "there is no file a\0b",
        "cannot read loop: Too many levels of symbolic links",
        f"cannot read {long}: File name too long",
        f"{tmp_path} is a folder",
        "pipe is not a regular file, and a table is read twice",
    ]
