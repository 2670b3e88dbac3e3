"""Tools: what a model's call is checked for, what it is told, and which calls may run side by side."""

import json
from typing import Any

import pytest

from rowcrew.agent.tools import Arguments, BrokenTool, Tool, ToolCall, ToolError, ToolRegistry, ToolResult
from rowcrew.domain.json_text import compact

PATH = {
    "type": "object",
    "properties": {"path": {"type": "string"}, "limit": {"type": "integer", "minimum": 1}},
    "required": ["path"],
}


async def echo(arguments: Arguments) -> ToolResult:
    return ToolResult(f"{dict(arguments.values)} from {arguments.thread_id}")


def tool(name: str = "read", *, run: Any = echo, **more: Any) -> Tool:
    return Tool(name, "Reads.", PATH, run, **more)


async def answer(arguments: Any, *, name: str = "read", **more: Any) -> ToolResult:
    return await ToolRegistry([tool(**more)]).run(ToolCall("1", name, arguments, "t"))


async def test_a_good_call_runs_with_its_arguments_as_object_or_as_text() -> None:
    expected = ToolResult("{'path': 'a', 'limit': 2} from t")
    assert await answer({"path": "a", "limit": 2}) == expected
    assert await answer('{"path": "a", "limit": 2}') == expected


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (
            {"path": "a", "pth": 1},
            "unknown argument `pth` (did you mean `path`?): `read` takes `path`, `limit`",
        ),
        ({"path": "a", "x": 1, "y": 2}, "unknown arguments `x`, `y`: `read` takes `path`, `limit`"),
        ({}, 'wrong arguments for `read`: "path" is a required property'),
        (
            {"path": "a", "limit": 0},
            "wrong arguments for `read`: 0 is less than the minimum of 1 (at `limit`)",
        ),
        ("", 'wrong arguments for `read`: "path" is a required property'),
        ("[1]", "the arguments must be one JSON object"),
        ('{"path": NaN}', "the arguments are not valid JSON: NaN is not JSON"),
    ],
)
async def test_a_bad_call_is_answered_with_what_is_wrong(arguments: Any, sentence: str) -> None:
    assert await answer(arguments) == ToolResult(sentence, ok=False)


async def test_broken_json_and_json_too_deep_are_answered() -> None:
    broken = await answer('{"path": "a')
    assert (broken.ok, broken.output.startswith("the arguments are not valid JSON: ")) == (False, True)
    deep = {"path": "a"}
    for _ in range(200):
        deep = {"path": deep}  # type: ignore[dict-item]
    for given in (deep, json.dumps(deep), "[" * 100_000):
        sentence = "the arguments are nested more than 200 levels deep"
        assert await answer(given) == ToolResult(sentence, ok=False)


async def test_arguments_are_values_as_they_were_written() -> None:
    seen: list[Any] = []

    async def look(arguments: Arguments) -> ToolResult:
        seen.append(dict(arguments.values))
        return ToolResult("")

    schema = {"type": "object", "properties": {"n": {"type": "number", "maximum": 2}, "m": {}}}
    registry = ToolRegistry([Tool("count", "Counts.", schema, look)])
    text = '{"n":1.10,"m":[12345678901234567890,"\\ud800"]}'
    assert (await registry.run(ToolCall("1", "count", text))).ok
    assert compact(seen[0]) == '{"n":1.10,"m":[12345678901234567890,"\ufffd"]}'
    assert not (await registry.run(ToolCall("1", "count", '{"n":2.10}'))).ok


@pytest.mark.parametrize(
    "arguments", ['{"m":NaN}', {"m": float("nan")}, '{"m":1e400}', '{"m":%s}' % ("9" * 4301)]
)
async def test_a_number_that_is_none_is_answered(arguments: Any) -> None:
    result = await ToolRegistry([tool(unchecked=frozenset({"path"}))]).run(ToolCall("1", "read", arguments))
    assert (result.ok, result.output.startswith("the arguments are not valid JSON: ")) == (False, True)


async def test_a_tool_can_answer_for_itself_what_cannot_be_read() -> None:
    def refuse(call: ToolCall, sentence: str) -> ToolResult:
        return ToolResult(f"{call.text()}: {sentence}", ok=False, ends_turn=True)

    registry = ToolRegistry([tool()]).carried_out_by("read", echo, refuse=refuse)
    answers = [await registry.run(ToolCall("1", name, "[]")) for name in ("read", "raed")]
    assert answers == [
        ToolResult("[]: the arguments must be one JSON object", ok=False, ends_turn=True),
        ToolResult("there is no tool `raed`; the tools are `read`", ok=False),
    ]


async def test_an_unknown_tool_is_answered_with_the_known_ones() -> None:
    result = await answer({}, name="raed")
    assert result == ToolResult("there is no tool `raed`; the tools are `read`", ok=False)


async def test_a_value_that_the_tool_checks_itself_is_let_through() -> None:
    assert (await answer({"path": 7}, unchecked=frozenset({"path"}))).ok


async def test_a_tool_error_is_an_answer_and_any_other_error_is_a_broken_tool() -> None:
    async def refuse(_: Arguments) -> ToolResult:
        raise ToolError("no such file; try list_dir", ends_turn=True)

    async def break_down(_: Arguments) -> ToolResult:
        raise KeyError("x")

    expected = ToolResult("no such file; try list_dir", ok=False, ends_turn=True)
    assert await answer({"path": "a"}, run=refuse) == expected
    with pytest.raises(BrokenTool, match=r"^the tool `read` broke: KeyError: 'x'$"):
        await answer({"path": "a"}, run=break_down)


async def test_an_output_that_cannot_be_written_as_text_is_mended() -> None:
    async def odd(_: Arguments) -> ToolResult:
        return ToolResult("a\udcffé")

    assert (await answer({"path": "a"}, run=odd)).output == "a\ufffdé"


def test_neighbours_that_only_read_run_side_by_side_and_others_alone_and_in_order() -> None:
    registry = ToolRegistry([tool("read", read_only=True), tool("write")])
    names = ["read", "nonsense", "write", "write", "read", "write", "read", "read"]
    calls = [ToolCall(str(n), name, {}) for n, name in enumerate(names)]
    assert list(registry.groups(calls)) == [[0, 1], [2], [3], [4], [5], [6, 7]]
    assert list(registry.groups([])) == []
    many = [ToolCall(str(n), "read", {}) for n in range(20)]
    assert [len(group) for group in registry.groups(many)] == [8, 8, 4]


def test_two_tools_of_one_name_are_refused() -> None:
    with pytest.raises(ValueError, match="two tools have the name 'read'"):
        ToolRegistry([tool(), tool()])
    with pytest.raises(ValueError, match="two tools have the name 'read'"):
        ToolRegistry([tool()]).plus(tool())


async def test_a_registry_with_more_tools_leaves_the_first_as_it_was() -> None:
    first = ToolRegistry([tool()])
    more = first.plus(tool("other"))
    assert [one.name for one in more] == ["read", "other"]
    assert [one.name for one in first] == ["read"]
    assert (await more.run(ToolCall("1", "other", {}))).output.startswith("wrong arguments for `other`")
