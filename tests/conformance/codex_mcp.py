"""The real Codex as a client of `rowcrew mcp`: its model is scripted, all else is real.

`scripts/try-codex-mcp` fetches Codex and runs this, `python codex_mcp.py CODEX`: its model tells it to call
`spawn_agents_on_csv`, and the table has to appear.
"""

import asyncio
import csv
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from rowcrew.testing import CallTool, ModelServer, Received, Reply

NAMESPACE, TOOL = "mcp__rowcrew", "spawn_agents_on_csv"
SECONDS = 120
SETTINGS = """
model = "scripted"
model_provider = "scripted"

[model_providers.scripted]
name = "scripted"
base_url = "{url}"
wire_api = "responses"
env_key = "SCRIPTED_KEY"
"""
WORKER_NAME = "python:shouting:shout"
WORKER = """
def shout(row):
    return {"said": row["word"].upper()}
"""


def answer(received: Received) -> Reply:
    """The scripted model: call the tool in the way in which Codex offers it, then say what it answered."""
    if received.tool_outputs:
        return Reply(f"It answered: {list(received.tool_outputs.values())[-1]}")
    given = {
        "csv_path": "in.csv",
        "instruction": "Shout {word}.",
        "id_column": "id",
        "output_csv_path": "out.csv",
    }
    if f"{NAMESPACE}.{TOOL}" in received.tool_names:
        return Reply(calls=[CallTool(TOOL, given, namespace=NAMESPACE)])
    if f"{NAMESPACE}__{TOOL}" in received.tool_names:
        return Reply(calls=[CallTool(f"{NAMESPACE}__{TOOL}", given)])
    return Reply(f"There is no {TOOL} among {received.tool_names}.")


async def main(codex: str) -> int:
    with tempfile.TemporaryDirectory(prefix="rowcrew-codex-") as name:
        folder, home = Path(name) / "work", Path(name) / "codex"
        folder.mkdir()
        home.mkdir()
        (folder / "in.csv").write_text("id,word\nr1,one\nr2,two\nr3,three\n")
        (folder / "shouting.py").write_text(WORKER)
        environment = {
            **os.environ,
            "CODEX_HOME": str(home),
            "SCRIPTED_KEY": "k",
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        }
        async with ModelServer(answer) as server:
            (home / "config.toml").write_text(SETTINGS.format(url=server.url))
            # As the guide says it.
            register = f"mcp add rowcrew --env ROWCREW_HOME={name}/home -- rowcrew mcp --worker {WORKER_NAME}"
            await call([codex, *register.split()], folder, environment)
            settings = (home / "config.toml").read_text()
            (home / "config.toml").write_text(
                settings.replace("[mcp_servers.rowcrew]", "[mcp_servers.rowcrew]\nrequired = true", 1)
            )
            run = "exec --json --skip-git-repo-check --dangerously-bypass-approvals-and-sandbox Go."
            said = await call([codex, *run.split()], folder, environment)
            offered = [name for name in server.requests[0].tool_names if name.startswith(NAMESPACE)]
        print(await call([codex, "--version"], folder, environment), end="")
        print("offered at the first request:", offered)
        print(json.loads(said.splitlines()[-2])["item"].get("text"))
        with (folder / "out.csv").open(newline="") as file:
            rows = [(row["id"], row["status"], row["result_json"]) for row in csv.DictReader(file)]
    print(*rows, sep="\n")
    wanted = [(f"r{n}", "completed", json.dumps({"said": word}, separators=(",", ":")))
              for n, word in enumerate(("ONE", "TWO", "THREE"), 1)]  # fmt: skip
    print("the table is there" if rows == wanted else "the table is NOT as it should be")
    return 0 if rows == wanted else 1


async def call(words: list[str], folder: Path, environment: dict[str, str]) -> str:
    """What a command wrote on standard output."""
    process = await asyncio.create_subprocess_exec(
        *words, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE
    )
    async with asyncio.timeout(SECONDS):
        out, _ = await process.communicate()
    if process.returncode:
        raise SystemExit(f"{' '.join(words)} ended with {process.returncode}")
    return out.decode()


if __name__ == "__main__":
    sys.exit(asyncio.run(main(sys.argv[1])))
