"""The same rows by Codex 0.142.5, which had `spawn_agents_on_csv`, and by rowcrew: against one instant model.

`scripts/bench-codex` fetches that Codex (280 MB) and runs this: `python rows.py CODEX [CODEX_ROWS ROWS]`.
The rate is taken where both are alike: from a worker's first request to the last one's, as the model sees it.
"""

import asyncio
import csv
import os
import re
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import uvloop

from rowcrew.testing import CallTool, ModelServer, Received, Reply

CONCURRENCY = 16
# Codex has been seen to hang at the end of a job; then its rows are counted all the same.
CODEX_SECONDS = 600
ITEM = re.compile(r"Job ID: (\S+)\s+Item ID: (\S+)")
SETTINGS = """
model = "scripted"
model_provider = "scripted"
suppress_unstable_features_warning = true

[model_providers.scripted]
name = "scripted"
base_url = "{url}"
wire_api = "responses"
env_key = "SCRIPTED_KEY"

[features]
enable_fanout = true

[agents]
max_threads = 64
"""


@dataclass
class Model:
    """Plays the root, which asks for the job, and the workers, which report at once."""

    table: Path
    output: Path
    asked_at: dict[str, float] = field(default_factory=dict)

    def answer(self, received: Received) -> Reply:
        item = ITEM.search(received.text)
        if item is not None and "report_agent_job_result" in received.tool_names:
            self.asked_at.setdefault(item[2], time.monotonic())
            given = {"job_id": item[1], "item_id": item[2], "result": {"v": item[2]}}
            if received.tool_outputs:
                return Reply("done")
            return Reply(calls=[CallTool("report_agent_job_result", given)])
        if received.tool_outputs:
            return Reply("The table is there.")
        job = {
            "csv_path": str(self.table),
            "instruction": "Say {word}.",
            "id_column": "id",
            "output_csv_path": str(self.output),
            "max_concurrency": CONCURRENCY,
        }
        return Reply(calls=[CallTool("spawn_agents_on_csv", job)])

    @property
    def rows_per_second(self) -> float:
        times = sorted(self.asked_at.values())
        return (len(times) - 1) / (times[-1] - times[0])


async def measure(folder: Path, rows: int, command: list[str], environment: dict[str, str]) -> float:
    """Rows a second of one command, whose `{url}` is the model's."""
    table, output = folder / "in.csv", folder / "out.csv"
    with table.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "word"])
        writer.writerows([f"r{number}", f"word{number}"] for number in range(rows))
    model = Model(table, output)
    async with ModelServer(model.answer, record=False) as server:
        home = Path(environment.get("CODEX_HOME", folder))
        (home / "config.toml").write_text(SETTINGS.format(url=server.url) if home != folder else "")
        words = [word.replace("{url}", server.url) for word in command]
        began = time.monotonic()
        process = await asyncio.create_subprocess_exec(
            *words, cwd=folder, env={**os.environ, **environment}, stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL,
        )  # fmt: skip
        try:
            async with asyncio.timeout(CODEX_SECONDS):
                code = await process.wait()
            ended = f"ended with {code} after {time.monotonic() - began:.1f} s"
        except TimeoutError:
            process.kill()
            await process.wait()
            ended = f"had not ended after {CODEX_SECONDS} s"
    with output.open(newline="") as file:
        done = [row["status"] for row in csv.DictReader(file)].count("completed")
    print(f"  {Path(words[0]).name}: {ended}, {done} of {rows} rows completed")
    return model.rows_per_second


async def main(codex: str, codex_rows: int, rows: int) -> None:
    secrets = {"SCRIPTED_KEY": "k", "OPENAI_API_KEY": "k"}
    with tempfile.TemporaryDirectory(prefix="rowcrew-bench-") as name:
        for part in ("codex", "codex/home", "rowcrew"):
            (Path(name) / part).mkdir()
        theirs = await measure(
            Path(name) / "codex",
            codex_rows,
            [codex, "exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", "Run it."],
            {**secrets, "CODEX_HOME": str(Path(name) / "codex" / "home")},
        )
        ours = await measure(
            Path(name) / "rowcrew",
            rows,
            [
                *(str(Path(sys.executable).parent / "rowcrew"), "run", "in.csv", "-i", "Say {word}."),
                *("--id-column", "id", "-o", "out.csv", "--worker", "agent", "-j", str(CONCURRENCY)),
                *("-m", "openai-responses:scripted", "--base-url", "{url}", "--progress", "none"),
            ],
            {**secrets, "ROWCREW_HOME": str(Path(name) / "rowcrew" / "home")},
        )
    print(f"  Codex    {codex_rows:6} rows, {CONCURRENCY} at a time {theirs:10.2f} rows/s")
    print(f"  rowcrew  {rows:6} rows, {CONCURRENCY} at a time {ours:10.2f} rows/s")
    print(
        f"{'  ' if ours >= 100 * theirs else '! '}rowcrew over Codex {ours / theirs:23.1f} x  (at least 100)"
    )


if __name__ == "__main__":
    codex_rows, rows = (int(word) for word in (sys.argv[2:4] or ("96", "3000")))
    uvloop.run(main(sys.argv[1], codex_rows, rows))
