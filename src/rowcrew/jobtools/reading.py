"""From what a model sent to checked arguments, or to the sentence that tells it what to change."""

import difflib
import json
from collections.abc import Mapping, Sequence
from typing import Any

import jsonschema_rs

from rowcrew.agent.tools import ToolError
from rowcrew.jobtools.arguments import ALIASES

MAX_MISSES = 3


class ArgumentReader:
    """Checks the arguments of one tool. `unchecked`: the tool has better sentences for them."""

    def __init__(
        self, name: str, parameters: Mapping[str, Any], *, unchecked: frozenset[str] = frozenset()
    ) -> None:
        self._name = name
        self._known = list(parameters["properties"])
        self._required = set(parameters["required"])
        properties = {
            key: {} if key in unchecked else value for key, value in parameters["properties"].items()
        }
        self._validator = jsonschema_rs.validator_for({**parameters, "properties": properties})

    def read(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments by their own names. Raises ToolError.

        An optional argument that is null counts as left out: models that must fill every field send that.
        """
        unknown = [key for key in given if key not in self._known]
        if unknown:
            raise ToolError(self._about_unknown(unknown))
        values = {key: value for key, value in given.items() if value is not None or key in self._required}
        values = _writable(values)
        misses = [_sentence(error) for error in self._validator.iter_errors(values)]
        if misses:
            raise ToolError(f"wrong arguments for `{self._name}`: {'; '.join(misses[:MAX_MISSES])}")
        return self._without_aliases(values)

    def _about_unknown(self, unknown: Sequence[str]) -> str:
        near = difflib.get_close_matches(unknown[0], self._known, n=1)
        hint = f" (did you mean `{near[0]}`?)" if near else ""
        noun = "argument" if len(unknown) == 1 else "arguments"
        return f"unknown {noun} {_listed(unknown)}{hint}: `{self._name}` takes {_listed(self._known)}"

    def _without_aliases(self, values: dict[str, Any]) -> dict[str, Any]:
        for alias, name in ALIASES.items():
            if alias not in values:
                continue
            value = values.pop(alias)
            if values.setdefault(name, value) != value:
                raise ToolError(f"`{alias}` is another name for `{name}`, and they differ: give one of them")
        return values


def _writable(values: dict[str, Any]) -> dict[str, Any]:
    """The same with lone surrogates, which cannot be stored, as U+FFFD."""
    try:
        text = json.dumps(values, ensure_ascii=False)
        text.encode()
    except UnicodeEncodeError:
        kept: dict[str, Any] = json.loads(text.encode("utf-16", "surrogatepass").decode("utf-16", "replace"))
        return kept
    except (TypeError, ValueError, RecursionError) as error:
        raise ToolError(f"the arguments are not valid JSON: {error}") from None
    return values


def _sentence(error: jsonschema_rs.ValidationError) -> str:
    path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in error.instance_path)
    return f"{error.message} (at `{path[1:]}`)" if path else error.message


def _listed(names: Sequence[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)
