"""Tables, instructions and schemas that broke other tools, through the real command from end to end."""

import csv
import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.processes.program import Outcome, Program, Running

DATA = Path(__file__).parents[1] / "data"
csv.field_size_limit(1 << 24)
ECHO = """\
def echo(row, context):
    return {"row": dict(row), "instruction": context.instruction, "item": context.item_id}
"""
# The shape that is offered to every case: what the row was, in one column.
SCHEMA = '{"properties": {"row": {}, "item": {}}}'


@pytest.fixture
def desk(program: Program) -> Program:
    (program.folder / "echo.py").write_text(ECHO)
    return program


def run(desk: Program, case: str, name: str, *words: str, instruction: str = "Look.") -> Outcome:
    """The case's file, copied, through an echo; the table goes to out.csv."""
    shutil.copy(DATA / case / name, desk.folder / name)
    return desk.call(
        "run", name, "-i", instruction, "--worker", "python:echo:echo", "-o", "out.csv", "--force",
        "--output-schema", SCHEMA, "--progress", "none", *words,
    )  # fmt: skip


def read(path: Path) -> tuple[list[str], list[dict[str, str]]]:
    with path.open(encoding="utf-8", newline="") as file:
        header, *records = list(csv.reader(file))
    assert len(set(header)) == len(header)
    return header, [dict(zip(header, record, strict=True)) for record in records]


def accepted(desk: Program, case: str, name: str, *words: str, **more: str) -> list[dict[str, str]]:
    outcome = run(desk, case, name, *words, **more)
    assert outcome.code == 0, outcome.err
    return read(desk.folder / "out.csv")[1]


def refused(desk: Program, case: str, name: str, *words: str, **more: str) -> str:
    """The whole sentence and its hint; nothing was made."""
    outcome = run(desk, case, name, *words, **more)
    assert (outcome.code, outcome.out) == (2, ""), outcome.err
    assert not (desk.folder / "out.csv").exists()
    assert desk.rows("SELECT * FROM agent_jobs") == []
    return outcome.err


def test_braces_in_an_instruction(desk: Program) -> None:
    case = "01-json-braces-in-instruction"
    for name, ends in (("flat", '{"city": "x", "score": 1} and nothing else.'), ("nested", "every brace.")):
        text = (DATA / case / f"instruction-{name}.txt").read_text(encoding="utf-8")
        rows = accepted(desk, case, "in.csv", "--new", instruction=text)
        said = json.loads(rows[0]["result_json"])["instruction"].rstrip("\n")
        assert said.startswith("Classify Oslo. Answer like {")
        assert said.endswith(ends)


def test_odd_braces_come_through_or_are_refused_before_the_first_row(desk: Program) -> None:
    case = "01-json-braces-in-instruction"
    text = (DATA / case / "instruction-odd.txt").read_text(encoding="utf-8")
    rows = accepted(desk, case, "in.csv", instruction=text)
    said = [json.loads(row["result_json"]).get("instruction") for row in rows]
    assert said == [text.replace("{city}", city) for city in ("Oslo", "Lima")]


def test_a_byte_order_mark_is_no_part_of_the_header(desk: Program) -> None:
    for name, ids in (("bom.csv", ["a1", "a2"]), ("bom-quoted-header.csv", ["a1"])):
        rows = accepted(desk, "02-bom-header", name, "--id-column", "id", "--new")
        assert [row["item_id"] for row in rows] == ids
        assert list(rows[0])[:2] == ["id", "text"]


def test_a_huge_cell_goes_through_whole(desk: Program) -> None:
    big = "x" * 200_000
    (desk.folder / "big.csv").write_text(f"id,big\n1,{big}\n2,small\n")
    outcome = desk.call("run", "big.csv", "-i", "{big}", "--worker", "python:echo:echo", "-o", "out.csv")
    assert outcome.code == 0
    rows = read(desk.folder / "out.csv")[1]
    assert [row["big"] for row in rows] == [big, "small"]
    assert json.loads(rows[0]["result_json"])["instruction"] == big


def test_ragged_rows_refuse_the_file_naming_line_and_counts(desk: Program) -> None:
    case = "11-ragged-rows"
    for name, words in (
        ("short.csv", ("line 3", "2", "3")),
        ("long.csv", ("line 3", "4", "2")),
        ("after-multiline.csv", ("line 4",)),
    ):
        said = refused(desk, case, name)
        assert [word for word in words if word not in said] == []
    assert len(accepted(desk, case, "blank-ragged.csv")) == 2


def test_two_equal_headers_are_refused_and_two_cases_are_two_columns(desk: Program) -> None:
    said = refused(desk, "12-duplicate-headers", "in.csv")
    assert '"score"' in said
    rows = accepted(desk, "12-duplicate-headers", "case-only.csv")
    assert len({name.casefold() for name in list(rows[0])[:3]}) < 3


def test_what_a_worker_says_is_read_back_to_the_character(desk: Program) -> None:
    lines = (DATA / "13-bare-cr-in-output" / "results.jsonl").read_text(encoding="utf-8").splitlines()
    results = {line["item_id"]: line["result"] for line in map(json.loads, lines)}
    (desk.folder / "given.py").write_text(f"def given(row):\n    return {results!r}[row['id']]\n")
    (desk.folder / "in.csv").write_text("id\nr1\nr2\nr3\n")
    outcome = desk.call(
        "run", "in.csv", "-i", "Look.", "--id-column", "id", "--worker", "python:given:given",
        "-o", "out.csv", "--output-schema", '{"properties": {"note": {}}}',
    )  # fmt: skip
    assert outcome.code == 0, outcome.err
    rows = read(desk.folder / "out.csv")[1]
    assert {row["id"]: {"note": row["result.note"]} for row in rows} == results
    assert {row["id"]: json.loads(row["result_json"]) for row in rows} == results


def test_no_delimiter_is_guessed_and_the_refusal_says_which_it_may_be(desk: Program) -> None:
    case = "20-delimiters"
    for words in (("--id-column", "id"), ()):
        said = refused(desk, case, "semicolon.csv", *words, instruction="Look at {note}.")
        assert "the header looks `;`-separated: try `--delimiter ';'`" in said
    rows = accepted(desk, case, "semicolon.csv", "--delimiter", ";", instruction="Look at {note}.")
    assert [list(row.values())[:3] for row in rows] == [["1", "4,50", "a;b"], ["2", "3,00", "plain"]]
    assert [row["url"] for row in accepted(desk, case, "one-column.csv")] == [
        "https://a.example/x;y",
        "https://b.example/q",
    ]
    rows = accepted(desk, case, "commas-with-semicolons.csv")
    assert [(row["id"], row["steps"]) for row in rows] == [("1", "a;b;c;d"), ("2", "e;f;g;h")]
    # A line with which some programs name the separator.
    rows = accepted(desk, case, "sep-line.csv", "--delimiter", ";", "--id-column", "id")
    assert [(row["id"], row["note"]) for row in rows] == [("1", "x")]
    rows = accepted(desk, case, "tab.tsv")
    assert [len(row) for row in rows] == [len(rows[0])] * len(rows)


def test_quotes_and_tabs_that_mislead_who_guesses_are_refused_at_their_line(desk: Program) -> None:
    for words in ((), ("--delimiter", ";")):
        assert "line 2" in refused(desk, "20-delimiters", "sniffer-trap.csv", *words)


def test_a_quote_that_never_closes_is_refused_where_it_opened(desk: Program) -> None:
    assert "line 2" in refused(desk, "21-unclosed-quote", "in.csv")
    refused(desk, "21-unclosed-quote", "stray-quote.csv")


def test_an_output_is_the_next_jobs_input_three_times_over(desk: Program) -> None:
    shutil.copy(DATA / "22-output-column-collision" / "in.csv", desk.folder / "0.csv")
    before, rows = read(desk.folder / "0.csv")
    for number in range(3):
        outcome = desk.call(
            "run", f"{number}.csv", "-i", "Look.", "--worker", "python:echo:echo",
            "-o", f"{number + 1}.csv", "--output-schema", SCHEMA, "--progress", "none",
        )  # fmt: skip
        assert outcome.code == 0, outcome.err
        header, written = read(desk.folder / f"{number + 1}.csv")
        assert header[: len(before)] == before
        assert [{name: row[name] for name in before} for row in written] == rows
        before, rows = header, written


def test_an_unknown_placeholder_is_refused_with_the_nearest_column(desk: Program) -> None:
    case = "31-unknown-placeholder"
    text = (DATA / case / "instruction.txt").read_text(encoding="utf-8")
    said = refused(desk, case, "in.csv", instruction=text)
    assert [word for word in ("{compnay}", "id, company", "nearest: company") if word not in said] == []


def test_repeated_ids_are_told_apart_and_shown_as_they_were(desk: Program) -> None:
    rows = accepted(desk, "36-duplicate-ids", "in.csv", "--id-column", "id")
    items = [row["item_id"] for row in rows]
    assert items == ["a", "a-3", "a-2", "row-4", "row-5", "A", "a-4"]
    assert [row["source_id"] for row in rows] == ["a", "a", "a-2", "", "", "A", "a "]
    assert [row["result.item"] for row in rows] == items


def test_line_breaks_in_cells_stay_as_they_are(desk: Program) -> None:
    rows = accepted(desk, "39-embedded-newlines", "in.csv")
    expected = {
        "1": "line one\nline two",
        "2": "crlf\r\ninside",
        "3": 'quote " and , comma',
        "4": "nel \u0085 ls \u2028 ps \u2029 vt \u000b ff \f fs \u001c",
        "5": "",
    }
    assert {row["id"]: row["text"] for row in rows} == expected
    assert {row["id"]: json.loads(row["result_json"])["row"]["text"] for row in rows} == expected
    assert [row["text"] for row in accepted(desk, "39-embedded-newlines", "no-final-newline.csv")] == ["last"]


def test_blank_rows_are_no_rows_and_shift_nothing(desk: Program) -> None:
    rows = accepted(desk, "41-blank-rows", "in.csv")
    assert [(row["item_id"], row["row_index"], row["attempt_count"]) for row in rows] == [
        ("row-1", "0", "1"),
        ("row-2", "1", "1"),
    ]


@pytest.mark.parametrize("name", ["zero-bytes.csv", "newlines-only.csv", "bom-only.csv"])
def test_a_file_without_a_header_is_refused(desk: Program, name: str) -> None:
    assert "header" in refused(desk, "42-empty-inputs", name)


@pytest.mark.parametrize("name", ["header-only.csv", "header-no-newline.csv"])
def test_a_table_without_rows_is_done_at_once(desk: Program, name: str) -> None:
    outcome = run(desk, "42-empty-inputs", name)
    assert outcome.code == 0
    assert "no rows" in outcome.err
    header, rows = read(desk.folder / "out.csv")
    assert (len(header) > 10, rows) == (True, [])


def test_schemas_that_cannot_hold_are_refused_before_the_first_row(desk: Program) -> None:
    case = DATA / "70-output-schema"
    desk.table(1)

    def call(name: str) -> Outcome:
        schema = ["--output-schema", str(case / name), "-o", "out.csv", "--max-attempts", "1"]
        return desk.call("run", "in.csv", "-i", "Look.", "--worker", "python:echo:echo", *schema)

    for name in ("bad-type.json", "not-json.json", "bad-regex.json", "remote-ref.json", "file-ref.json"):
        outcome = call(name)
        assert (outcome.code, outcome.out) == (2, "")
        assert "the output schema" in outcome.err.splitlines()[0]
    assert desk.rows("SELECT * FROM agent_jobs") == []
    assert call("recursive.json").code in (0, 100)


# --- the scripted worker ---

SENTENCES = {
    "w03": "worker exceeded max runtime of 2s",
    "w08": "worker finished without calling report_agent_job_result",
    "w14": "worker exceeded max runtime of 2s",
    "w16": "worker exceeded max runtime of 2s",
}
# The limits of those that meet theirs. The others must not, however slow the machine is; nor may a second
# attempt that is to do well.
LIMITS = {"w03": 2, "w13": 8, "w14": 2, "w16": 2}
COMPLETED = {"w01", "w02", "w04", "w06", "w07", "w09", "w11", "w12", "w13", "w15", "w18", "w19", "w20"}


def scripted(program: Program, rows: list[dict[str, Any]], *words: str, name: str = "out.csv") -> Running:
    source = f"in-{name}"
    with (program.folder / source).open("w", newline="") as file:
        writer = csv.DictWriter(file, ["id", "do"])
        writer.writeheader()
        writer.writerows(rows)
    schema = {"type": "object", "properties": {"v": {"type": "string"}}, "required": ["v"]}
    return program.start(
        "run", source, "-i", "Do {do}.", "--id-column", "id", "-o", name, "-j", "4",
        "--output-schema", json.dumps(schema), "--progress", "none",
        "--worker", f"command:'{sys.executable}' -m rowcrew.testing.scripted_worker", *words,
    )  # fmt: skip


def scripted_rows() -> list[dict[str, str]]:
    return read(DATA / "00-scripted-worker-rows" / "in.csv")[1]


def test_workers_that_crash_hang_lie_and_flood(program: Program) -> None:
    # Everything but the row that ends the job's account, which has a test of its own.
    rows = [row for row in scripted_rows() if row["id"] != "w17"]
    jobs = {}
    for limit in (2, 8, 60):
        given = [row for row in rows if LIMITS.get(row["id"], 60) == limit]
        words = ("--max-runtime-seconds", str(limit))
        jobs[f"out-of-{limit}.csv"] = scripted(program, given, *words, name=f"out-of-{limit}.csv")
    assert [running.end().code for running in jobs.values()] == [100, 0, 100]
    written = {row["id"]: row for name in jobs for row in read(program.folder / name)[1]}
    done = {name for name, row in written.items() if row["status"] == "completed"}
    # Whoever is told that it named another row's id may mend that or not; no other row is touched by it.
    assert done - {"w10"} == COMPLETED
    assert {name: json.loads(written[name]["result_json"])["v"] for name in ("w01", "w13", "w19")} == {
        name: name for name in ("w01", "w13", "w19")
    }
    assert {name: written[name]["last_error"] for name in SENTENCES} == SENTENCES
    attempts = {name: int(row["attempt_count"]) for name, row in written.items()}
    expected = {"w01": 1, "w03": 3, "w04": 2, "w05": 3, "w06": 1, "w11": 1, "w12": 1, "w13": 2, "w19": 1}
    assert {name: attempts[name] for name in expected} == expected
    assert program.live_workers() == []


def test_an_account_that_is_refused_pauses_the_job_and_burns_no_row(program: Program) -> None:
    rows = [row for row in scripted_rows() if row["id"] in ("w01", "w17")]
    rows += [{"id": f"z{number}", "do": "ok"} for number in range(12)]
    outcome = scripted(program, rows, "-j", "1").end()
    assert outcome.code == 75, outcome.err
    assert program.rows("SELECT status, paused_reason FROM agent_jobs") == [("paused", "account")]
    items = {name: (status, tried) for name, status, tried in program.rows(
        "SELECT item_id, status, attempt_count FROM agent_job_items")}  # fmt: skip
    assert items == {row["id"]: ("pending", 0) for row in rows} | {"w01": ("completed", 1)}
    assert "rowcrew resume" in outcome.err
    assert program.live_workers() == []
