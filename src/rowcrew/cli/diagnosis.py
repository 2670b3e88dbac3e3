"""doctor: are the database files whole, what is installed, which settings hold. It repairs nothing."""

import asyncio
import importlib.metadata
import platform
import shutil
from pathlib import Path
from typing import Any

import click

from rowcrew.agent import weights
from rowcrew.cli.exits import ERROR, OK
from rowcrew.cli.opening import load_settings, set_up_logging
from rowcrew.cli.render import fields, table
from rowcrew.cli.session import Verb, json_option, session_of
from rowcrew.cli.terminal import printable, say, show, show_json
from rowcrew.config import Settings
from rowcrew.engine import FileDiagnosis, diagnose

PACKAGES = ("rowcrew", "apsw", "pydantic-ai-slim", "openai", "aiohttp", "uvloop", "xllamacpp", "mcp")
FINE = ("ok", "not created yet")


@click.command(cls=Verb)
@json_option()
@click.pass_context
def doctor(context: click.Context, *, as_json: bool) -> int:
    """Check the database files; show paths, versions, settings."""
    session = session_of(context)
    settings = load_settings(session)
    set_up_logging(session.verbosity)
    diagnoses = asyncio.run(diagnose(settings.home))
    if as_json:
        show_json(_shape(settings, diagnoses), indent=2)
    else:
        show(_text(settings, diagnoses))
    broken = [entry for entry in diagnoses if entry.integrity not in FINE]
    for entry in broken:
        say(f"Error: {printable(str(entry.path))}: {printable(entry.integrity)}")
    if broken:
        say("Hint: move the damaged file away, or put a copy in its place. rowcrew does not write over it.")
    return ERROR if broken else OK


def _installed() -> dict[str, str | None]:
    versions: dict[str, str | None] = {}
    for package in PACKAGES:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            versions[package] = None
    return versions


def _tools(home: Path) -> dict[str, str | None]:
    found = weights.find(home)
    return {"bubblewrap": shutil.which("bwrap"), "embedded_weights": str(found) if found else None}


def _shape(settings: Settings, diagnoses: list[FileDiagnosis]) -> dict[str, Any]:
    return {
        "home": str(settings.home),
        "files": [
            {
                "path": str(entry.path),
                "kind": entry.kind,
                "exists": entry.exists,
                "integrity": entry.integrity,
                "schema_version": entry.schema_version,
                "size": entry.size,
                "phases": [
                    {"name": phase.name, "milliseconds": round(phase.milliseconds, 3)}
                    for phase in entry.phases
                ],
            }
            for entry in diagnoses
        ],
        "settings": [
            {"key": key, "value": value, "source": source} for key, value, source in settings.shown()
        ],
        "python": platform.python_version(),
        "platform": platform.platform(),
        "packages": _installed(),
        **_tools(settings.home),
    }


def _text(settings: Settings, diagnoses: list[FileDiagnosis]) -> str:
    files = [
        (
            entry.path.name,
            printable(entry.integrity),
            "" if entry.schema_version is None else str(entry.schema_version),
            f"{entry.size / 1e6:.1f} MB" if entry.exists else "",
            ", ".join(f"{phase.name} {phase.milliseconds:.0f} ms" for phase in entry.phases),
        )
        for entry in diagnoses
    ]
    versions = [(name, version or "not installed") for name, version in _installed().items()]
    tools = _tools(settings.home)
    around = [
        ("Python", platform.python_version()),
        ("platform", platform.platform()),
        (
            "bubblewrap",
            tools["bubblewrap"] or "not found: agents run no commands without it; install bubblewrap",
        ),
        ("weights", tools["embedded_weights"] or "not here: rowcrew models pull"),
    ]
    shown = [(key, f"{printable(value)}  ({source})") for key, value, source in settings.shown()]
    return "\n".join(
        [
            f"Home {printable(str(settings.home))}",
            table(("FILE", "INTEGRITY", "VERSION", "SIZE", "OPENING"), files),
            "",
            fields([*around, *versions]),
            "",
            "Settings",
            fields(shown) if shown else "  all are at their defaults",
        ]
    )
