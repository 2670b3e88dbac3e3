"""Tools and their calls: what an agent may do besides talking. It knows no tool by name and no model library.

Two ways for a tool to fail, and they are not the same: a ToolError is a sentence that the model reads and
acts on; anything else that a tool raises is a bug, and ends the turn (`BrokenTool`).
"""

import dataclasses
import difflib
import json
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import jsonschema_rs

from rowcrew.domain.events import TurnItemKind
from rowcrew.domain.json_text import clean, clean_text, is_deeper_than, plain_numbers, read

MAX_MISSES = 3
MAX_SIDE_BY_SIDE = 8
# Deeper than any argument means something, and less deep than what Python's own recursion would end.
MAX_DEPTH = 200


class ToolError(Exception):
    """A sentence for the model: what went wrong with its call and what to do instead.

    `ends_turn`: there is nothing the model could do about it, so that it is not asked again.
    """

    def __init__(self, message: str, *, ends_turn: bool = False) -> None:
        super().__init__(message)
        self.ends_turn = ends_turn


class BrokenTool(Exception):
    """A tool raised what it must not. It carries the tool's name; the cause is chained."""

    def __init__(self, name: str, cause: Exception) -> None:
        super().__init__(f"the tool `{name}` broke: {type(cause).__name__}: {cause}")


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call by a model. `arguments` is what it sent: an object, or text that should be one as JSON."""

    id: str
    name: str
    arguments: Mapping[str, Any] | str
    thread_id: str = ""

    def text(self) -> str:
        """The arguments as text, whatever they are."""
        return self.arguments if isinstance(self.arguments, str) else _as_text(self.arguments)

    def shown_arguments(self) -> Any:
        """The arguments for a reader: as an object where they are one, else the text that came."""
        try:
            return _parse(self)
        except ToolError:
            return clean_text(self.text())


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What a call came to. `output` is for the model, `details` are further keys of the turn item's content.

    `ends_turn`: the work is done, so that the model is not asked again.
    """

    output: str
    ok: bool = True
    ends_turn: bool = False
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Arguments:
    """Checked arguments, and the thread that sent them."""

    values: Mapping[str, Any]
    thread_id: str
    call_id: str

    def __getitem__(self, name: str) -> Any:
        return self.values[name]

    def get(self, name: str, default: Any = None) -> Any:
        return self.values.get(name, default)


@dataclass(frozen=True, slots=True)
class Tool:
    """One tool. `parameters` is the JSON Schema of its arguments: an object with `properties`.

    `read_only` tools of one answer run side by side. `unchecked` names arguments whose value the tool checks
    itself, because it has a better sentence for them. `refuse` answers a call whose arguments cannot be used,
    for a tool that has to know of it; None leaves it at the sentence that says what is wrong.
    """

    name: str
    description: str
    parameters: Mapping[str, Any]
    run: Callable[[Arguments], Awaitable[ToolResult]]
    read_only: bool = False
    item_kind: TurnItemKind = TurnItemKind.TOOL_CALL
    unchecked: frozenset[str] = frozenset()
    refuse: Callable[[ToolCall, str], ToolResult] | None = None


class ToolRegistry:
    """The tools of one agent. Whatever a model sends is either run or answered with what was wrong."""

    def __init__(self, tools: Iterable[Tool] = ()) -> None:
        self._tools: dict[str, Tool] = {}
        self._validators: dict[str, jsonschema_rs.Validator] = {}
        for tool in tools:
            if tool.name in self._tools:
                raise ValueError(f"two tools have the name {tool.name!r}")
            self._tools[tool.name] = tool
            self._validators[tool.name] = jsonschema_rs.validator_for(_checked_schema(tool))

    def __iter__(self) -> Iterator[Tool]:
        return iter(self._tools.values())

    def plus(self, *tools: Tool) -> "ToolRegistry":
        """These tools and more. Cheap: what was prepared for these is used again."""
        more = ToolRegistry(tools)
        twice = sorted(self._tools.keys() & more._tools.keys())
        if twice:
            raise ValueError(f"two tools have the name {twice[0]!r}")
        more._tools = {**self._tools, **more._tools}
        more._validators = {**self._validators, **more._validators}
        return more

    def carried_out_by(
        self,
        name: str,
        run: Callable[[Arguments], Awaitable[ToolResult]],
        *,
        refuse: Callable[[ToolCall, str], ToolResult] | None = None,
    ) -> "ToolRegistry":
        """These tools, one of them with other hands. Cheaper than `plus`: no schema is looked at again."""
        other = ToolRegistry()
        other._tools = {**self._tools, name: dataclasses.replace(self._tools[name], run=run, refuse=refuse)}
        other._validators = self._validators
        return other

    def find(self, name: str) -> Tool | None:
        return self._tools.get(name)

    def groups(self, calls: Sequence[ToolCall]) -> Iterator[list[int]]:
        """Positions of the calls in order, cut so that each group may run side by side: it only reads.

        A model may ask for any number of calls; side by side are only so many, since each may be a process.
        """
        group: list[int] = []
        for position, call in enumerate(calls):
            tool = self._tools.get(call.name)
            # An unknown tool does nothing but answer that it is unknown.
            if tool is None or tool.read_only:
                group.append(position)
                if len(group) == MAX_SIDE_BY_SIDE:
                    yield group
                    group = []
                continue
            if group:
                yield group
            yield [position]
            group = []
        if group:
            yield group

    async def run(self, call: ToolCall) -> ToolResult:
        """Carry one call out. Raises BrokenTool where the tool raised anything but a ToolError."""
        tool = self._tools.get(call.name)
        try:
            if tool is None:
                raise ToolError(
                    f"there is no tool `{call.name}`; the tools are {_listed(sorted(self._tools))}"
                )
            arguments = self._check(tool, call)
        except ToolError as error:
            sentence = clean_text(str(error))
            refuse = None if tool is None else tool.refuse
            return ToolResult(sentence, ok=False) if refuse is None else refuse(call, sentence)
        try:
            result = await tool.run(arguments)
        except ToolError as error:
            return ToolResult(clean_text(str(error)), ok=False, ends_turn=error.ends_turn)
        except Exception as error:
            raise BrokenTool(call.name, error) from error
        return dataclasses.replace(result, output=clean_text(result.output))

    def _check(self, tool: Tool, call: ToolCall) -> Arguments:
        values = _parse(call)
        known = list(tool.parameters.get("properties", {}))
        unknown = [name for name in values if name not in known]
        if unknown:
            near = difflib.get_close_matches(unknown[0], known, n=1)
            hint = f" (did you mean `{near[0]}`?)" if near else ""
            takes = f"takes {_listed(known)}" if known else "takes no arguments"
            noun = "argument" if len(unknown) == 1 else "arguments"
            raise ToolError(f"unknown {noun} {_listed(unknown)}{hint}: `{tool.name}` {takes}")
        misses = [
            _sentence(error) for error in self._validators[tool.name].iter_errors(plain_numbers(values))
        ]
        if misses:
            raise ToolError(f"wrong arguments for `{tool.name}`: {'; '.join(misses[:MAX_MISSES])}")
        return Arguments(values, call.thread_id, call.id)


def _parse(call: ToolCall) -> dict[str, Any]:
    """The arguments as values: numbers as they were written, text as it can be stored."""
    text = call.text()
    if not text.strip():
        return {}
    try:
        if is_deeper_than(MAX_DEPTH, text):
            raise ToolError(f"the arguments are nested more than {MAX_DEPTH} levels deep")
        values = read(text)
    except (ValueError, RecursionError) as error:
        raise ToolError(f"the arguments are not valid JSON: {error}") from None
    if not isinstance(values, dict):
        raise ToolError("the arguments must be one JSON object")
    # Only an escape can be a lone surrogate in text that came over the wire.
    return clean(values) if "\\u" in text or not text.isascii() else values


def _as_text(arguments: Mapping[str, Any]) -> str:
    """An object that a client library has read already, as text that says the same; never raises."""
    try:
        return json.dumps(arguments, ensure_ascii=False)
    except (ValueError, TypeError, RecursionError):
        return "(arguments that are no JSON)"


def _checked_schema(tool: Tool) -> dict[str, Any]:
    schema = dict(tool.parameters)
    if tool.unchecked:
        properties = dict(schema.get("properties", {}))
        schema["properties"] = {
            name: ({} if name in tool.unchecked else properties[name]) for name in properties
        }
    return schema


def _sentence(error: jsonschema_rs.ValidationError) -> str:
    path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in error.instance_path)
    return f"{error.message} (at `{path[1:]}`)" if path else error.message


def _listed(names: Sequence[str]) -> str:
    return ", ".join(f"`{name}`" for name in names) or "none"
