"""The official Python SDK of Codex, fetched once.

It is installed without the binary that it depends on. Where it is not installed, pip fetches it, without its
dependencies, into a cache folder; where that cannot be done, the tests that need it are skipped and say why.
"""

import importlib
import importlib.util
import os
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from types import ModuleType

import pytest

VERSION = "0.163.0"
NEEDS = ["packaging"]
INSTALL_SECONDS = 120


@pytest.fixture(scope="session")
def sdk() -> ModuleType:
    if importlib.util.find_spec("openai_codex") is None:
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        folder = cache / "rowcrew-tests" / f"openai-codex-{VERSION}"
        if not folder.is_dir():
            fetch(folder)
        sys.path.append(str(folder))
        importlib.invalidate_caches()
    return importlib.import_module("openai_codex")


def fetch(folder: Path) -> None:
    """Fill the folder whole or not at all: several test processes may come at once."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as beside:
        flags = ["--quiet", "--no-deps", "--target", f"{beside}/sdk"]
        command = [sys.executable, "-m", "pip", "install", *flags, f"openai-codex=={VERSION}", *NEEDS]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=INSTALL_SECONDS, check=False
            )
        except subprocess.TimeoutExpired:
            pytest.skip(f"pip did not fetch openai-codex within {INSTALL_SECONDS} s")
        if done.returncode != 0:
            pytest.skip(f"openai-codex cannot be fetched: {done.stderr.strip()[-200:]}")
        with suppress(OSError):  # another process was first
            Path(beside, "sdk").rename(folder)
