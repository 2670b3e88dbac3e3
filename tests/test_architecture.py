"""The shape of the house: layers, sizes, names, what no tracked file may hold. It tests no behaviour."""

import ast
import importlib
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import rowcrew

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src"
MODULES = sorted(SOURCE.rglob("*.py"))

MAX_FILE_LINES = 400
MAX_FUNCTION_LINES = 60

# What must not be loaded by the commands that only look: each of these costs more than they may take.
HEAVY = ("aiohttp", "openai", "pydantic", "pydantic_ai", "uvloop")


def _name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def _parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def _imports(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module


def _run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, capture_output=True, text=True, timeout=120, check=False
    )


def test_imports_go_down_the_page() -> None:
    done = _run("-c", "from importlinter.cli import lint_imports_command as run; run(['--no-logo'])")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Contracts: 3 kept, 0 broken." in done.stdout


def test_apsw_is_imported_by_the_store_alone() -> None:
    assert [
        _name(path)
        for path in MODULES
        if not path.is_relative_to(SOURCE / "rowcrew" / "store")
        and any(name.split(".")[0] in {"apsw", "sqlite3", "_sqlite3"} for name in _imports(_parse(path)))
    ] == []


def test_the_interpreters_own_sqlite_is_imported_by_nobody() -> None:
    assert [
        _name(path) for path in MODULES if {"sqlite3", "_sqlite3", "aiosqlite"} & set(_imports(_parse(path)))
    ] == []


def test_no_file_is_longer_than_one_can_read_in_a_sitting() -> None:
    lengths = {_name(path): len(path.read_text(encoding="utf-8").splitlines()) for path in MODULES}
    assert {name: length for name, length in lengths.items() if length > MAX_FILE_LINES} == {}


def test_no_function_is_longer_than_a_screen() -> None:
    assert {
        f"{_name(path)}:{node.lineno} {node.name}": length
        for path in MODULES
        for node in ast.walk(_parse(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (length := (node.end_lineno or node.lineno) - node.lineno + 1) > MAX_FUNCTION_LINES
    } == {}


def test_every_module_says_in_its_first_line_what_it_is() -> None:
    without = []
    for path in MODULES:
        first = (ast.get_docstring(_parse(path)) or "").partition("\n")[0]
        if not first.endswith((".", ":")) and first.count(" ") < 3:
            without.append(_name(path))
    assert without == []


def test_the_public_names_are_sorted_and_importable() -> None:
    names = list(getattr(rowcrew, "__all__", ()))
    assert names == sorted(names)
    assert [name for name in names if not hasattr(rowcrew, name)] == []


def test_every_module_can_be_imported() -> None:
    for path in MODULES:
        if path.name == "__main__.py":
            continue
        relative = path.relative_to(SOURCE).with_suffix("")
        importlib.import_module(".".join(relative.parts).removesuffix(".__init__"))


def test_names_that_say_nothing_are_not_used() -> None:
    words = re.compile(r"(Manager|Handler|Processor|Helper|Utils?)$")
    assert [
        f"{_name(path)}: {node.name}"
        for path in MODULES
        for node in ast.walk(_parse(path))
        if isinstance(node, ast.ClassDef) and words.search(node.name)
    ] == []
    assert [
        _name(path) for path in MODULES if path.stem in {"utils", "util", "common", "base", "helpers"}
    ] == []


@pytest.mark.skipif(not (SOURCE / "rowcrew" / "cli" / "main.py").is_file(), reason="no command line yet")
@pytest.mark.parametrize("module", ["rowcrew", "rowcrew.engine", "rowcrew.cli.main", "rowcrew.cli.jobs"])
def test_commands_that_only_look_load_no_heavy_library(module: str) -> None:
    code = f"import sys, {module}; print(*sorted(set({HEAVY!r}) & set(sys.modules)))"
    done = _run("-c", code)
    assert (done.returncode, done.stdout.strip()) == (0, ""), done.stdout + done.stderr


def test_who_only_looks_at_jobs_loads_nothing_that_makes_or_runs_them() -> None:
    code = "import sys, rowcrew.cli.jobs; print(*(m for m in sys.modules if m.startswith('rowcrew.')))"
    loaded = set(_run("-c", code).stdout.split())
    running = {"service", "creation", "starting", "runner", "attempts", "exporter"}
    assert "rowcrew.scheduler.catalog" in loaded
    assert loaded & {f"rowcrew.scheduler.{name}" for name in running} == set()


def test_a_tracked_file_names_no_machine_and_no_registry() -> None:
    # The patterns are put together here so that this file does not match itself.
    secret_shapes = "|".join(
        [
            "/" + r"work/(main|shared)",
            "/" + r"(home|Users)/[a-z]+/",
            "/" + "root/",
            "/" + r"tmp/[a-z]+/",
            r"https?://[^\s\"'<>)]*(pypi|registry|artifactory|nexus)[^\s\"'<>)]*",
            "files" + r"\.pythonhosted",
        ]
    )
    pattern = re.compile(secret_shapes)
    tracked = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False)
    if tracked.returncode != 0:
        pytest.skip("not a git clone")
    found = []
    for name in tracked.stdout.decode().split("\0"):
        path = ROOT / name
        if not name or not path.is_file() or path.suffix in {".db", ".sqlite", ".png"}:
            continue
        text = path.read_text(encoding="utf-8", errors="replace")
        found += [f"{name}: {match.group()}" for match in pattern.finditer(text)]
    assert found == []
