"""Settings: where they come from and what they may be, checked once. It opens no database and knows no job.

Later ones win: defaults, the home's config.toml, rowcrew.toml in the folder or a parent, ROWCREW_* variables,
``--config KEY=VALUE``. A command's own flags win over all of them, and are the command's matter.
"""

import difflib
import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from rowcrew.errors import InvalidRequest
from rowcrew.setting_kinds import KINDS, SettingPath, is_table, kind_of

PROJECT_FILE = "rowcrew.toml"
HOME_FILE = "config.toml"
PREFIX = "ROWCREW_"

# Variables of ours that are no settings: what a command worker is told, and what tests and people debug with.
NOT_SETTINGS = frozenset(
    f"{PREFIX}{name}"
    for name in (
        "HOME",
        "ALLOW_NETWORK_HOME",
        "JOB_ID",
        "ITEM_ID",
        "ATTEMPT",
        "THREAD_ID",
        "DEBUG",
        "TEST_WEIGHTS",
    )
)


def _no_names() -> Mapping[str, Any]:
    return MappingProxyType({})


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """Limits on agents. `max_threads` is how many may live at once in one process; None is no limit.

    `max_turn_requests` is how often a model is asked in one turn, before that is taken for going in circles.
    """

    max_threads: int | None = None
    max_depth: int = 1
    job_max_runtime_seconds: float | None = None
    max_turn_requests: int = 500


def _default_home() -> Path:
    return _home({})


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings. `sources` says where each that is no default came from; `notices` are for the user.

    `model_providers` holds OpenAI-compatible services by names of the user's: base_url, env_key (the variable
    with the key), wire_api ("responses" or "chat"), name. `prices` holds US dollars for a million
    tokens by names of models: input, output, and cached_input where it differs.
    """

    home: Path = field(default_factory=_default_home)
    model: str | None = None
    base_url: str | None = None
    model_providers: Mapping[str, Mapping[str, str]] = field(default_factory=_no_names)
    prices: Mapping[str, Mapping[str, float]] = field(default_factory=_no_names)
    agents: AgentSettings = AgentSettings()
    sandbox_mode: str = "read-only"
    features: Mapping[str, bool] = field(default_factory=_no_names)
    allow_network_home: bool = False
    notices: tuple[str, ...] = ()
    sources: Mapping[str, str] = field(default_factory=_no_names)

    @classmethod
    def load(
        cls,
        overrides: Mapping[str, str] = MappingProxyType({}),
        *,
        environment: Mapping[str, str] | None = None,
        folder: Path | None = None,
    ) -> "Settings":
        """The settings that hold in `folder`. Raises InvalidRequest naming the key and where it stands."""
        environment = os.environ if environment is None else environment
        folder = folder or _current_folder()
        home = _home(environment)
        notices: list[str] = []
        found: dict[SettingPath, _Found] = {}
        found.update(_read_file(home / HOME_FILE))
        project = _project_file(folder)
        if project is not None:
            found.update(_read_file(project))
        found.update(_read_environment(environment))
        found.update(_read_overrides(overrides, notices))
        allowed = environment.get(f"{PREFIX}ALLOW_NETWORK_HOME", "") not in ("", "0", "false")
        return _build(home, found, tuple(notices), allow_network_home=allowed)

    def shown(self) -> list[tuple[str, str, str]]:
        """Every setting that is set as (key, value, source), for people to read: nothing secret is in it."""
        rows: list[tuple[str, str, str]] = []
        for key, source in sorted(self.sources.items()):
            value: Any = self
            for part in _split(key):
                value = value[part] if isinstance(value, Mapping) else getattr(value, part)
            rows.append((key, _masked(value), source))
        return rows


@dataclass(frozen=True, slots=True)
class _Found:
    value: Any
    source: str


# --- reading one place ---

# Beside its own error, a ValueError, tomllib lets out what Python says to 5,000 digits or brackets.
_NO_VALUE = (ValueError, RecursionError)


def _flatten(table: Mapping[str, Any], above: SettingPath = ()) -> Iterator[tuple[SettingPath, Any]]:
    """The leaves of nested tables. A table where a value is wanted is a leaf: it is refused as a value."""
    for key, value in table.items():
        path = (*above, key)
        if isinstance(value, dict) and is_table(path):
            yield from _flatten(value, path)
        else:
            yield path, value


def _checked(path: SettingPath, value: Any, source: str) -> _Found:
    kind = kind_of(path)
    if kind is None and is_table(path):
        raise InvalidRequest(f"{_join(path)} in {source} must be a table of settings, not {_type(value)}")
    if kind is None:
        raise InvalidRequest(f"unknown setting {_join(path)} in {source}", hint=_nearest(path))
    try:
        return _Found(kind.accept(value), source)
    except ValueError:
        but = "" if kind.is_text and isinstance(value, str) else f", not {_type(value)}"
        raise InvalidRequest(f"{_join(path)} in {source} must be {kind.wanted}{but}") from None


def _read_file(path: Path) -> dict[SettingPath, _Found]:
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except UnicodeDecodeError as error:
        raise InvalidRequest(f"{path} is not UTF-8 text (byte {error.start})") from None
    except OSError as error:
        raise InvalidRequest(f"the settings file {path} cannot be read: {error.strerror}") from None
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        place = re.search(r"\(at line (\d+), column (\d+)\)", str(error))
        line = int(place.group(1)) if place else text.count("\n") + 1
        said = str(error).partition(" (at ")[0]
        raise InvalidRequest(f"{path}, line {line}: {said}", hint="mend the file; it is TOML") from None
    except _NO_VALUE:
        raise InvalidRequest(f"{path} has a number too long or lists too deep to be settings") from None
    return {leaf: _checked(leaf, value, str(path)) for leaf, value in _flatten(table)}


def _current_folder() -> Path:
    try:
        return Path.cwd()
    except OSError:
        raise InvalidRequest("the current folder is gone", hint="change to one that is there: cd") from None


def _project_file(folder: Path) -> Path | None:
    folder = folder.absolute()
    candidates = (place / PROJECT_FILE for place in (folder, *folder.parents))
    return next((path for path in candidates if path.exists() and not _is_place(path)), None)


def _is_place(path: Path) -> bool:
    """An empty folder of that name only holds the place while an agent's command runs (builtin/guard.py)."""
    try:
        return path.is_dir() and not any(path.iterdir())
    except OSError:
        return False


def _read_environment(environment: Mapping[str, str]) -> dict[SettingPath, _Found]:
    found: dict[SettingPath, _Found] = {}
    for name, text in sorted(environment.items()):
        if not name.startswith(PREFIX) or name in NOT_SETTINGS or not text:
            continue
        path = _variables().get(name)
        if path is None and name.startswith(f"{PREFIX}FEATURES_"):
            path = ("features", name.removeprefix(f"{PREFIX}FEATURES_").lower())
        if path is None:
            near = difflib.get_close_matches(name, [*_variables(), *NOT_SETTINGS], n=1)
            known = ", ".join(_variables())
            hint = f"did you mean {near[0]}?" if near else f"there are: {known}"
            raise InvalidRequest(f"unknown setting {name} in the environment", hint=hint)
        for leaf, value in _flatten_at(path, _value(path, text)):
            found[leaf] = _checked(leaf, value, f"the environment ({name})")
    return found


def _variables() -> dict[str, SettingPath]:
    """The variable of each setting that has a fixed name, and of each whole table (an inline TOML table)."""
    fixed = [path for path in KINDS if "*" not in path]
    tables = dict.fromkeys(path[:1] for path in KINDS if len(path) > 1)
    return {PREFIX + "_".join(path).upper(): path for path in (*fixed, *tables)}


def _read_overrides(overrides: Mapping[str, str], notices: list[str]) -> dict[SettingPath, _Found]:
    found: dict[SettingPath, _Found] = {}
    for key, text in overrides.items():
        path = _split(key)
        for leaf, value in _flatten_at(path, _value(path, text)):
            if kind_of(leaf) is None and not is_table(leaf):
                notices.append(f"--config {_join(leaf)} is no setting of rowcrew and is ignored")
            else:
                found[leaf] = _checked(leaf, value, "--config")
    return found


def _flatten_at(path: SettingPath, value: Any) -> Iterator[tuple[SettingPath, Any]]:
    if isinstance(value, dict) and is_table(path):
        yield from _flatten(value, path)
    else:
        yield path, value


def _value(path: SettingPath, text: str) -> Any:
    """A TOML value, or the text as it stands where it is none, or where text is wanted anyway."""
    try:
        value = tomllib.loads(f"value = {text}")["value"] if "\n" not in text else text
    except _NO_VALUE:
        return text
    kind = kind_of(path)
    return text if kind is not None and kind.is_text and not isinstance(value, str) else value


def _home(environment: Mapping[str, str]) -> Path:
    named = environment.get(f"{PREFIX}HOME")
    try:
        return Path(named).expanduser().absolute() if named else Path.home() / ".rowcrew"
    except RuntimeError:
        raise InvalidRequest(
            "there is no home folder to keep jobs in", hint="set ROWCREW_HOME to a folder"
        ) from None


# --- putting it together ---


def _build(
    home: Path, found: Mapping[SettingPath, _Found], notices: tuple[str, ...], *, allow_network_home: bool
) -> Settings:
    def section(*above: str) -> dict[str, Any]:
        depth = len(above)
        return {
            path[depth]: entry.value
            for path, entry in found.items()
            if path[:depth] == above and len(path) == depth + 1
        }

    def tables(name: str) -> Mapping[str, Mapping[str, Any]]:
        named = dict.fromkeys(path[1] for path in found if path[0] == name)
        return MappingProxyType({one: MappingProxyType(section(name, one)) for one in named})

    prices = tables("prices")
    for model, price in prices.items():
        _check_price(model, price)
    return Settings(
        home=home,
        **section(),
        model_providers=tables("model_providers"),
        prices=prices,
        agents=AgentSettings(**section("agents")),
        features=MappingProxyType(section("features")),
        allow_network_home=allow_network_home,
        notices=notices,
        sources=MappingProxyType({_join(path): entry.source for path, entry in found.items()}),
    )


def _check_price(model: str, price: Mapping[str, float]) -> None:
    for name in ("input", "output"):
        if name not in price:
            raise InvalidRequest(
                f"the price of {model} has no {name}",
                hint=f"set {_join(('prices', model, name))} to {KINDS['prices', '*', name].wanted}",
            )


# --- words ---


def _split(key: str) -> SettingPath:
    parts = re.findall(r'"([^"]*)"|([^."]+)', key)
    return tuple((quoted or plain).strip() for quoted, plain in parts) or (key,)


def _join(path: SettingPath) -> str:
    return ".".join(part if re.fullmatch(r"[\w-]+", part) else f'"{part}"' for part in path)


def _nearest(path: SettingPath) -> str:
    if re.search(r"key|token|secret|password", path[-1], re.IGNORECASE):
        return "secrets are read from the environment only, such as OPENAI_API_KEY"
    known = [".".join(pattern).replace("*", "NAME") for pattern in KINDS]
    near = difflib.get_close_matches(".".join(path), known, n=1)
    return f"did you mean {near[0]}?" if near else f"there are: {', '.join(known)}"


def _type(value: Any) -> str:
    """What a refused value is. Text is not shown: it may be a secret in the wrong place."""
    if isinstance(value, bool | int | float):
        return str(value).lower()
    for kind, word in ((str, "text"), (list, "a list"), (dict, "a table")):
        if isinstance(value, kind):
            return word
    return "a date or time"


def _masked(value: Any) -> str:
    text = str(value).lower() if isinstance(value, bool) else str(value)
    text = re.sub(r"(?<=://)[^/@\s]*@", "***@", text)
    return re.sub(r"((?:key|token|secret|password|sig)[^=&]*=)[^&\s]+", r"\1***", text, flags=re.IGNORECASE)
