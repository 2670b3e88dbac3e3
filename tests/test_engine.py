"""The home that an engine is opened on: what can be one, and what is said where it cannot."""

import os
from pathlib import Path

import pytest

from rowcrew.engine import prepare_home
from rowcrew.errors import InvalidRequest


def refusal(home: Path) -> str:
    with pytest.raises(InvalidRequest) as caught:
        prepare_home(home, allow_network=False)
    return caught.value.message


def test_a_home_is_made_with_its_parents_for_its_owner_alone(tmp_path: Path) -> None:
    prepare_home(tmp_path / "a" / "b", allow_network=False)
    assert (tmp_path / "a" / "b").stat().st_mode & 0o777 == 0o700


def test_a_home_may_be_a_link_to_a_folder(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    prepare_home(tmp_path / "link", allow_network=False)


def test_a_home_that_cannot_be_one_is_refused_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "dangling").symlink_to("nowhere")
    foreign = tmp_path / os.fsdecode(b"caf\xe9")
    assert [refusal(tmp_path / name) for name in ("file", "file/below", "dangling", foreign.name)] == [
        f"the home {tmp_path}/file cannot be made: File exists",
        f"the home {tmp_path}/file/below cannot be made: Not a directory",
        f"the home {tmp_path}/dangling cannot be made: it is a link that leads nowhere",
        f"the name of the home {tmp_path}/caf\\udce9 is not UTF-8 text",
    ]
