"""JSON Schemas of all messages, drawn from the types. It carries no message."""

import json
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from rowcrew.appserver.catalogue import METHODS, NOTIFICATIONS
from rowcrew.errors import RowcrewError

DIALECT = "https://json-schema.org/draft/2020-12/schema"
WHOLE = "rowcrew_app_server_protocol.schemas.json"


def documents() -> dict[str, dict[str, Any]]:
    """By file name: one schema for each type of message, and one that lists methods and notifications."""
    files = {f"v2/{kind.__name__}.json": _schema(kind, mode) for kind, mode in _kinds()}
    return {**dict(sorted(files.items())), WHOLE: _whole()}


def write(folder: Path) -> int:
    """Write all into a folder, which is made. How many files there are."""
    written = documents()
    try:
        for name, document in written.items():
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    except OSError as error:
        raise RowcrewError(
            f"the schemas cannot be written to {folder}: {error.strerror or error}",
            hint="give another folder with --out",
        ) from error
    return len(written)


def _kinds() -> list[tuple[type[BaseModel], Any]]:
    kinds: list[tuple[type[BaseModel], Any]] = []
    for takes, answers in METHODS.values():
        kinds += [(takes, "validation"), (answers, "serialization")]
    kinds += [(kind, "serialization") for kind in NOTIFICATIONS.values()]
    return list(dict.fromkeys(kinds))


def _schema(kind: type[BaseModel], mode: Any) -> dict[str, Any]:
    return {"$schema": DIALECT, **kind.model_json_schema(by_alias=True, mode=mode)}


def _whole() -> dict[str, Any]:
    references, definitions = models_json_schema(_kinds(), by_alias=True)
    return {
        "$schema": DIALECT,
        "title": "rowcrew app-server protocol",
        "methods": {
            name: {
                "params": references[(takes, "validation")],
                "result": references[(answers, "serialization")],
            }
            for name, (takes, answers) in METHODS.items()
        },
        "notifications": {name: references[(kind, "serialization")] for name, kind in NOTIFICATIONS.items()},
        **definitions,
    }
