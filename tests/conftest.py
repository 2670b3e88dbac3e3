"""What every test stands on: a home of its own, no setting from outside. No fixture of one subject."""

import os
from pathlib import Path

import pytest
from hypothesis import settings

# Two shared cores make single examples slow now and then; a limit per example would only fail by chance.
settings.register_profile("rowcrew", deadline=None, print_blob=True)
settings.load_profile("rowcrew")

# Where a test finds the weights of the embedded model; no setting of rowcrew.
KEPT = {"ROWCREW_TEST_WEIGHTS"}


@pytest.fixture(autouse=True)
def rowcrew_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The home of this test alone. It does not exist until something writes there."""
    for name in [name for name in os.environ if name.startswith("ROWCREW_") and name not in KEPT]:
        monkeypatch.delenv(name)
    home = tmp_path / "rowcrew-home"
    monkeypatch.setenv("ROWCREW_HOME", str(home))
    return home
