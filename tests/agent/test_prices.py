"""Whose price holds for an answer: the user's, the list's, or none."""

import sys
from decimal import Decimal
from typing import Any

import pytest
from pydantic_ai.messages import ModelResponse
from pydantic_ai.usage import RequestUsage

from rowcrew.agent.models import ModelChoice, ModelClient, choose
from rowcrew.agent.prices import pricing_of
from rowcrew.agent.providers import open_model
from rowcrew.domain.price import Price
from rowcrew.testing import ModelServer, Reply

OWN = Price(Decimal(2), Decimal(1), Decimal(10))
KEY = {"OPENAI_API_KEY": "sk-test"}


async def cost(choice: ModelChoice, usage: RequestUsage, **response: Any) -> int | None:
    opened = await open_model(choice, KEY)
    try:
        return pricing_of(opened.model, choice.price)(ModelResponse([], usage=usage, **response))
    finally:
        await opened.close()


def tokens(**more: Any) -> RequestUsage:
    return RequestUsage(input_tokens=1_000_000, output_tokens=100_000, **more)


async def test_a_model_of_the_list_has_its_price() -> None:
    assert await cost(ModelChoice("openai:gpt-4o-mini"), tokens()) == 210_000_000


async def test_the_users_own_price_wins_over_the_list() -> None:
    assert await cost(ModelChoice("openai:gpt-4o-mini", price=OWN), tokens()) == 3_000_000_000


async def test_cached_input_has_a_price_of_its_own() -> None:
    usage = tokens(cache_read_tokens=500_000)
    assert await cost(ModelChoice("openai:gpt-4o-mini", price=OWN), usage) == 2_500_000_000


@pytest.mark.parametrize(
    "choice",
    [
        pytest.param(ModelChoice("openai:gpt-of-tomorrow"), id="a model that the list does not have"),
        pytest.param(
            ModelChoice("openai:gpt-4o-mini", base_url="http://127.0.0.1:9/v1"), id="a server of the user's"
        ),
        pytest.param(ModelChoice("llama", base_url="http://127.0.0.1:9/v1"), id="a name of the user's"),
    ],
)
async def test_what_nobody_knows_the_price_of_costs_nobody_knows_what(choice: ModelChoice) -> None:
    assert await cost(choice, tokens()) is None


async def test_tokens_that_were_not_counted_are_not_free() -> None:
    usage = RequestUsage(unmeasured_requests=1)
    assert await cost(ModelChoice("openai:gpt-4o-mini", price=OWN), usage) is None


async def test_what_a_gateway_took_is_what_it_cost() -> None:
    usage = tokens(cost=Decimal("0.5"))
    prices = [
        await cost(choice, usage)
        for choice in (
            ModelChoice("openai:gpt-4o-mini"),
            ModelChoice("llama", base_url="http://127.0.0.1:9/v1"),
        )
    ]
    assert prices == [500_000_000, 500_000_000]


async def test_counts_that_contradict_each_other_have_no_price() -> None:
    usage = RequestUsage(input_tokens=1, cache_read_tokens=5)
    assert await cost(ModelChoice("openai:gpt-4o-mini"), usage) is None


async def test_without_the_price_list_only_own_prices_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "genai_prices.data_snapshot", None)
    costs = [
        await cost(ModelChoice("openai:gpt-4o-mini"), tokens()),
        await cost(ModelChoice("openai:gpt-4o-mini", price=OWN), tokens()),
    ]
    assert costs == [None, 3_000_000_000]


async def test_a_price_is_found_by_the_name_that_the_user_wrote() -> None:
    prices = {"mine:llama": {"input": 1.0, "output": 2.0}, "openai:gpt-5": {"input": 3.0, "output": 4.0}}
    own = {"mine": {"base_url": "http://127.0.0.1:9/v1"}}
    found = [
        choose(name, model_providers=own, prices=prices).price
        for name in ("mine:llama", "openai:gpt-5", "openai:gpt-5-mini", "llama")
    ]
    assert found == [
        Price(Decimal("1.0"), Decimal("1.0"), Decimal("2.0")),
        Price(Decimal("3.0"), Decimal("3.0"), Decimal("4.0")),
        None,
        None,
    ]


async def test_an_answer_carries_its_cost() -> None:
    reply = Reply("ok", input_tokens=1_000, cached_tokens=400, output_tokens=50)
    async with ModelServer(reply) as server:
        choice = ModelChoice("openai-chat:m", base_url=server.url, price=OWN)
        async with await ModelClient.open(choice, environment=KEY) as client:
            usage = (await client.ask([])).usage
    assert (usage.requests, usage.priced_requests, usage.cost_nanos) == (1, 1, 2_100_000)
