"""list, status, wait, pause, cancel, show, export, rm, preview: what they print, and how they end."""

import json
import os
from typing import Any

import pytest

from rowcrew.domain.ids import short

Desk = Any  # the fixture's class lives in conftest.py, which is no module to import from


def job_id_of(desk: Desk) -> str:
    return str(desk.jobs()[0]["job_id"])


def test_without_jobs_the_list_is_empty_and_says_so(desk: Desk) -> None:
    assert desk.rowcrew("list", "--json").json == {"jobs": []}
    called = desk.rowcrew("list")
    assert (called.code, called.out) == (0, "")
    assert called.err.startswith("There are no jobs yet.")


def test_without_jobs_a_status_says_so(desk: Desk) -> None:
    called = desk.rowcrew("status")
    assert (called.code, called.out) == (2, "")
    assert called.err.startswith("Error: there is no job yet\nHint: ")


def test_the_list_has_the_newest_first_and_each_as_in_status(desk: Desk) -> None:
    desk.run("--name", "first")
    desk.run("--name", "second", "--force")
    jobs = desk.jobs()
    assert [job["name"] for job in jobs] == ["second", "first"]
    assert [desk.rowcrew("status", job["job_id"], "--json").json for job in jobs] == jobs
    assert desk.rowcrew("status", "--json").json == jobs[0]
    lines = desk.rowcrew("list").out.splitlines()
    assert [line.split()[0] for line in lines] == ["JOB", *(short(job["job_id"]) for job in jobs)]


def test_a_job_is_named_by_any_unique_beginning(desk: Desk) -> None:
    desk.run()
    job_id = job_id_of(desk)
    for prefix in (job_id, job_id[:8], job_id[:3].upper()):
        assert desk.rowcrew("status", prefix, "--json").json["job_id"] == job_id
    assert desk.rowcrew("status", "not-an-id").code == 2


def test_a_status_is_text_on_standard_output_and_advice_on_standard_error(desk: Desk) -> None:
    desk.run()
    called = desk.rowcrew("status")
    name = short(job_id_of(desk))
    assert called.out.startswith(f"Job {job_id_of(desk)} (agent-job-{name})\n  status     completed\n")
    assert called.err.splitlines()[0] == f"Run the failed rows again with: rowcrew retry {name}"


def test_following_a_job_at_rest_tells_its_end(desk: Desk) -> None:
    desk.run()
    called = desk.rowcrew("status", "--follow", "--json")
    assert [line["type"] for line in called.lines] == ["job.started", "job.progress", "job.finished"]
    assert called.code == 100


def test_waiting_for_a_job_at_rest_answers_as_the_tool_does(desk: Desk) -> None:
    desk.run()
    called = desk.rowcrew("wait", job_id_of(desk), "--json")
    assert (called.code, called.json) == (100, {"status": desk.jobs()[0], "timed_out": False})


def test_pause_and_cancel_of_a_job_that_is_over_say_so(desk: Desk) -> None:
    desk.run()
    for verb in ("pause", "cancel"):
        called = desk.rowcrew(verb, job_id_of(desk))
        assert (called.code, called.out) == (1, "")
        assert called.err.startswith(f"Error: job {short(job_id_of(desk))} is completed already\nHint: ")


def test_cancel_twice_is_as_good_as_once(desk: Desk) -> None:
    desk.run(function="stop")
    for _ in range(2):
        called = desk.rowcrew("cancel", job_id_of(desk), "--json")
        assert (called.code, called.json) == (0, desk.jobs()[0])
    assert f"Go on with: rowcrew resume {short(job_id_of(desk))}\n" in called.err


def test_show_lists_the_failed_rows_or_those_asked_for(desk: Desk) -> None:
    desk.run()
    called = desk.rowcrew("show", "--json")
    assert called.json["job"] == desk.jobs()[0]
    (row,) = called.json["items"]
    assert row == {
        "item_id": "b2",
        "row_index": 1,
        "source_id": "b2",
        "status": "failed",
        "attempt_count": 1,
        "error_class": "crashed",
        "last_error": "ValueError: no \x1b[31mGrace",
        "row": {"id": "b2", "name": "Grace"},
        "result": None,
        "reported_at": None,
        "completed_at": row["completed_at"],
    }
    everyone = desk.rowcrew(
        "show", job_id_of(desk), "--status", "all", "--offset", "1", "--limit", "5", "--json"
    )
    assert [row["item_id"] for row in everyone.json["items"]] == ["b2", "c3"]
    assert "\nb2    failed      1  ValueError: no \\x1b[31mGrace\n" in desk.rowcrew("show").out


def test_show_of_a_row_has_its_attempts(desk: Desk) -> None:
    desk.run()
    shown = desk.rowcrew("show", job_id_of(desk), "a1", "--json").json
    (attempt,) = shown["attempts"]
    assert (shown["job_id"], shown["result"], shown["status"]) == (
        job_id_of(desk),
        {"greeting": "Hello Ada"},
        "completed",
    )
    assert {name: attempt[name] for name in ("number", "outcome", "counted", "error_class", "error")} == {
        "number": 1,
        "outcome": "reported",
        "counted": True,
        "error_class": None,
        "error": None,
    }
    text = desk.rowcrew("show", job_id_of(desk), "b2").out
    assert text.startswith(f"Job item b2 of job {job_id_of(desk)}\n  status    failed\n")


def test_show_of_an_unknown_row_is_refused(desk: Desk) -> None:
    desk.run()
    called = desk.rowcrew("show", job_id_of(desk), "zz")
    assert (called.code, called.out, "'zz'" in called.err) == (2, "", True)


@pytest.mark.parametrize("verb", [("show", "--json"), ("retry", "--item")])
def test_a_row_named_in_no_utf_8_is_an_unknown_row(desk: Desk, verb: tuple[str, str]) -> None:
    desk.run()
    (job,) = desk.jobs()
    name, option = verb
    called = desk.rowcrew(name, job["job_id"], option, os.fsdecode(b"\xff"))
    assert (called.code, called.out) == (2, "")
    assert called.err.splitlines()[0] == f"Error: job {job['job_id']} has no item '\\udcff'"


def test_export_writes_as_often_and_as_one_likes(desk: Desk) -> None:
    desk.run()
    first = (desk.folder / "out.csv").read_bytes()
    assert desk.rowcrew("export", job_id_of(desk)).err == f"Wrote 3 rows to {desk.folder / 'out.csv'}\n"
    assert (desk.folder / "out.csv").read_bytes() == first
    called = desk.rowcrew("export", "-o", "o.jsonl", "--format", "jsonl", "--json")
    assert called.json == {
        "job_id": job_id_of(desk),
        "output_csv_path": str(desk.folder / "o.jsonl"),
        "row_count": 3,
    }
    rows = [json.loads(line) for line in (desk.folder / "o.jsonl").read_text().splitlines()]
    assert [row["item_id"] for row in rows] == ["a1", "b2", "c3"]


@pytest.mark.parametrize("path", ["people.csv", "o.csv", "-", "no/such/folder.csv"])
def test_export_refuses_what_would_do_harm(desk: Desk, path: str) -> None:
    desk.run()
    (desk.folder / "o.csv").write_text("mine")
    called = desk.rowcrew("export", "-o", path)
    assert (called.code, called.out, called.err.startswith("Error: ")) == (2, "", True)
    assert (desk.folder / "o.csv").read_text() == "mine"


def test_rm_forgets_the_job_and_leaves_its_output(desk: Desk) -> None:
    desk.run()
    job_id = job_id_of(desk)
    assert desk.rowcrew("rm", job_id, "--json").json == {"job_id": job_id, "removed": True}
    assert (desk.jobs(), (desk.folder / "out.csv").exists()) == ([], True)


def test_preview_shows_prompts_and_makes_no_job(desk: Desk) -> None:
    called = desk.rowcrew(
        "preview", "people.csv", "-i", "Greet {name}", "--id-column", "id", "-n", "2", "--json"
    )
    prompts = called.json["prompts"]
    assert [prompt["item_id"] for prompt in prompts] == ["a1", "b2"]
    assert "Greet Ada" in prompts[0]["prompt"]
    text = desk.rowcrew("preview", "people.csv", "-i", "Greet {name}", "-m", "openai:x", "--limit", "1").out
    assert [text.count(word) for word in ("--- row-1 ---\n", "Greet Ada", "Greet Grace")] == [1, 1, 0]
    assert desk.jobs() == []


def test_preview_shows_what_the_kind_of_worker_will_read(desk: Desk) -> None:
    given = ["preview", "people.csv", "-i", "Greet {name}", "--limit", "1"]
    tool = "report_agent_job_result"
    shown = [
        tool in desk.rowcrew(*given, *more).out
        for more in ([], ["-m", "local"], ["-m", "local", "--worker", "agent"], ["--worker", "oneshot"])
    ]
    assert shown == [True, False, True, False]


@pytest.mark.parametrize("verb", ["pause", "cancel", "rm"])
def test_what_ends_a_job_wants_it_named(desk: Desk, verb: str) -> None:
    called = desk.rowcrew(verb)
    assert (called.code, called.err) == (
        2,
        f"Error: missing argument 'JOB'.\nHint: `rowcrew {verb} --help` shows what can be given\n",
    )
