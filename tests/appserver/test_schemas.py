"""The schemas that are drawn from the types."""

import json
import re
from pathlib import Path

import jsonschema_rs

from rowcrew.appserver.catalogue import METHODS, NOTIFICATIONS
from rowcrew.appserver.schemas import WHOLE, documents
from rowcrew.cli.main import main
from tests.appserver.conftest import Desk


def test_the_command_writes_a_valid_schema_for_each_message(tmp_path: Path) -> None:
    assert main(["app-server", "generate-json-schema", "--experimental", "--out", str(tmp_path / "s")]) == 0
    written = {
        path.relative_to(tmp_path / "s").as_posix(): json.loads(path.read_text())
        for path in (tmp_path / "s").rglob("*.json")
    }
    assert written == documents()
    for document in written.values():
        jsonschema_rs.meta.validate({key: document[key] for key in document if key != "methods"})
    kinds = {kind.__name__ for pair in METHODS.values() for kind in pair}
    kinds |= {kind.__name__ for kind in NOTIFICATIONS.values()}
    assert set(written) == {WHOLE, *(f"v2/{name}.json" for name in kinds)}


def test_clients_find_the_late_fields_of_codex_where_they_look_for_them() -> None:
    found = documents()
    assert "excludeTurns" in found["v2/ThreadResumeParams.json"]["properties"]
    assert "excludeTurns" in found["v2/ThreadForkParams.json"]["properties"]


def test_the_guide_names_every_method_and_notification() -> None:
    page = Path(__file__).parents[2] / "docs" / "guide" / "app-server.md"
    named = set(re.findall(r"`([a-z]+(?:/[a-zA-Z]+)*)[ `]", page.read_text(encoding="utf-8")))
    assert {*METHODS, *NOTIFICATIONS} - named == set()


async def test_every_message_of_the_catalogue_has_a_method_and_the_other_way_round(desk: Desk) -> None:
    assert set(desk.server.methods._methods) == set(METHODS)
