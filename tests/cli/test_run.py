"""run, resume and retry: what they print, and how they end."""

import re
from typing import Any

import pytest

from rowcrew.domain.ids import short

Desk = Any  # the fixture's class lives in conftest.py, which is no module to import from


def only_job(desk: Desk) -> dict[str, Any]:
    (job,) = desk.jobs()
    return dict(job)


def test_a_run_with_all_rows_done_ends_with_0_and_prints_nothing_on_standard_output(desk: Desk) -> None:
    desk.mend()
    called = desk.run()
    name = short(only_job(desk)["job_id"])
    assert (called.code, called.out) == (0, "")
    said = [line for line in called.err.splitlines() if "rows done" not in line]
    assert said == [
        f"Job {name}: 3 rows. If it stops: rowcrew resume {name}",
        f"Job {name} completed: 3 of 3 rows completed, 0 failed.",
        f"Output: {desk.folder / 'out.csv'}",
    ]


def test_failed_rows_end_with_100_and_say_what_to_type(desk: Desk) -> None:
    called = desk.run("--progress", "none")
    name = short(only_job(desk)["job_id"])
    assert (called.code, called.out) == (100, "")
    assert called.err.splitlines() == [
        f"Job {name}: 3 rows. If it stops: rowcrew resume {name}",
        f"Job {name} completed: 2 of 3 rows completed, 1 failed.",
        f"Output: {desk.folder / 'out.csv'}",
        "  b2: ValueError: no \\x1b[31mGrace",
        f"Run the failed rows again with: rowcrew retry {name}",
        f"Look at them with: rowcrew show {name}",
    ]


@pytest.mark.parametrize("verb", ["run", "preview"])
def test_a_missing_table_is_named_before_a_missing_model(desk: Desk, verb: str) -> None:
    called = desk.rowcrew(verb, "poeple.csv", "-i", "Greet {name}")
    assert (called.code, called.out, called.err) == (
        2,
        "",
        f"Error: there is no file poeple.csv\nHint: looked in {desk.folder}\n",
    )


def test_json_lines_begin_with_the_job_and_end_with_its_result(desk: Desk) -> None:
    called = desk.run("--json")
    lines = called.lines
    job_id = lines[0]["job_id"]
    assert called.code == 100
    assert [line["type"] for line in lines if line["type"] != "job.progress"] == [
        "job.started",
        "job.finished",
    ]
    assert lines[0] | {"type": "", "created_at": "", "started_at": ""} == {
        "type": "",
        "job_id": job_id,
        "name": f"agent-job-{short(job_id)}",
        "status": "running",
        "total_items": 3,
        "pending_items": 3,
        "running_items": 0,
        "completed_items": 0,
        "failed_items": 0,
        "output_csv_path": str(desk.folder / "out.csv"),
        "runner_active": True,
        "created_at": "",
        "started_at": "",
        "completed_at": None,
        "paused_reason": None,
        "last_error": None,
        "eta_seconds": None,
        "usage": {
            "requests": 0,
            "input_tokens": 0,
            "cached_input_tokens": 0,
            "output_tokens": 0,
            "reasoning_tokens": 0,
            "cost": None,
            "known_cost": None,
            "unpriced_requests": 0,
        },
    }
    progress = [line for line in lines if line["type"] == "job.progress"]
    assert progress != []
    assert all(
        line["total_items"]
        == line["pending_items"] + line["running_items"] + line["completed_items"] + line["failed_items"]
        for line in progress
    )
    assert lines[-1] == {
        "type": "job.finished",
        "job_id": job_id,
        "status": "completed",
        "output_csv_path": str(desk.folder / "out.csv"),
        "total_items": 3,
        "completed_items": 2,
        "failed_items": 1,
        "job_error": None,
        "failed_item_errors": [
            {"item_id": "b2", "source_id": "b2", "last_error": "ValueError: no \x1b[31mGrace"}
        ],
    }


def test_what_a_function_prints_is_not_among_the_json_lines(desk: Desk) -> None:
    desk.mend()
    called = desk.run("--json", function="chatter")
    assert (called.code, called.lines[-1]["completed_items"]) == (0, 3)
    assert called.err.count("I am a row\n") == 3


def test_json_without_progress_is_two_lines(desk: Desk) -> None:
    lines = desk.run("--json", "--progress", "none").lines
    assert [line["type"] for line in lines] == ["job.started", "job.finished"]


def test_the_times_are_rfc_3339_utc(desk: Desk) -> None:
    desk.run()
    job = only_job(desk)
    times = [job[name] for name in ("created_at", "started_at", "completed_at")]
    assert [re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", time) is None for time in times] == [
        False
    ] * 3


def test_a_worker_that_stops_the_job_leaves_it_cancelled_and_resumable(desk: Desk) -> None:
    called = desk.run(function="stop")
    name = short(only_job(desk)["job_id"])
    assert called.code == 75
    assert f"Job {name} cancelled: 1 of 3 rows completed, 0 failed, 2 left." in called.err
    assert called.err.splitlines()[-1] == f"Go on with: rowcrew resume {name}"
    resumed = desk.rowcrew("resume", name)
    assert (resumed.code, only_job(desk)["status"]) == (0, "completed")


def test_the_same_job_again_is_refused_while_it_is_unfinished(desk: Desk) -> None:
    desk.run(function="stop")
    name = short(only_job(desk)["job_id"])
    again = desk.run("--force", function="stop")
    assert (again.code, again.out) == (75, "")
    assert [word for word in (f"rowcrew resume {name}", "--new") if word not in again.err] == []
    assert desk.run("--new", "-o", "other.csv", function="stop").code == 75
    assert len(desk.jobs()) == 2


def test_resume_retries_failed_rows_when_asked(desk: Desk) -> None:
    desk.run()
    desk.mend()
    resumed = desk.rowcrew("resume", "--retry-failed")
    name = short(only_job(desk)["job_id"])
    assert resumed.code == 0
    assert resumed.err.startswith(f"Job {name}: 1 row that had failed will run again.\n")
    assert only_job(desk)["completed_items"] == 3


def test_resume_of_a_job_with_nothing_left_tells_its_end_again(desk: Desk) -> None:
    desk.run()
    job_id = only_job(desk)["job_id"]
    resumed = desk.rowcrew("resume", job_id[:4], "--json")
    assert (resumed.code, resumed.lines[0]["type"], len(resumed.lines)) == (100, "job.finished", 1)
    assert resumed.err.startswith(f"Job {short(job_id)} has no row left to run.\n")


def test_resume_without_any_unfinished_job_is_refused(desk: Desk) -> None:
    resumed = desk.rowcrew("resume")
    assert (resumed.code, resumed.out) == (2, "")
    assert resumed.err.startswith("Error: there is no unfinished job")


def test_resume_says_when_the_input_has_changed(desk: Desk) -> None:
    desk.run(function="stop")
    (desk.folder / "people.csv").write_text("id,name\nz9,Zoe\n")
    resumed = desk.rowcrew("resume")
    assert (resumed.code, only_job(desk)["completed_items"]) == (0, 3)
    assert f"Note: {desk.folder / 'people.csv'} is gone or has changed since the job was made." in resumed.err


def test_retry_runs_the_failed_rows_or_only_some(desk: Desk) -> None:
    desk.run()
    desk.mend()
    job_id = only_job(desk)["job_id"]
    none = desk.rowcrew("retry", job_id, "--item", "a1")
    assert (none.code, none.err.splitlines()[0]) == (
        100,
        f"Job {short(job_id)} has no such failed row to run again.",
    )
    some = desk.rowcrew("retry", job_id, "--item", "b2")
    assert (some.code, some.err.splitlines()[0]) == (0, f"Job {short(job_id)}: 1 row will run again.")


def test_retry_without_a_failed_row_tells_how_the_job_stands(desk: Desk) -> None:
    desk.run(function="stop")
    name = short(only_job(desk)["job_id"])
    called = desk.rowcrew("retry", name)
    assert called.code == 75
    assert called.err.splitlines() == [
        f"Job {name} has no such failed row to run again.",
        f"Job {name} cancelled: 1 of 3 rows completed, 0 failed, 2 left. Cancelled by worker request.",
        f"Output: {desk.folder / 'out.csv'}",
        f"Go on with: rowcrew resume {name}",
    ]


def test_retry_of_an_unknown_row_is_refused(desk: Desk) -> None:
    desk.run()
    called = desk.rowcrew("retry", only_job(desk)["job_id"], "--item", "zz")
    assert (called.code, "'zz'" in called.err) == (2, True)


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["run", "missing.csv", "-i", "x", "--worker", "command:cat"], "missing.csv"),
        (["run", "people.csv", "-i", "{nme}", "--worker", "command:cat"], "nme"),
        (["run", "people.csv", "-i", "x", "--worker", "command:cat", "-o", "people.csv"], "people.csv"),
        (["run", "people.csv", "-i", "x", "--worker", "sonar"], "sonar"),
        (["run", "people.csv", "-i", "x"], "-m "),
        (["run", "people.csv", "--worker", "command:cat"], "instruction"),
        (["run", "people.csv", "-i", "x", "--worker", "command:cat", "--output-schema", "{]"], "schema"),
    ],
)
def test_a_refused_request_ends_with_2_and_stores_nothing(
    desk: Desk, arguments: list[str], word: str
) -> None:
    called = desk.rowcrew(*arguments)
    assert (called.code, called.out, word in called.err) == (2, "", True), called.err
    assert "\nHint: " in called.err
    assert desk.jobs() == []


def test_a_table_without_rows_completes_at_once_with_a_note(desk: Desk) -> None:
    (desk.folder / "people.csv").write_text("id,name\n")
    called = desk.run()
    assert (called.code, only_job(desk)["status"]) == (0, "completed")
    assert called.err.startswith("Note: ")
