"""What a model's answers cost, where that is known: by the user's price or genai-prices. It asks nobody.

The prices of genai-prices come with the package and change with it; nothing is fetched. A server that is not
the provider's own has prices of its own: of a model there the package knows nothing, whatever it is called.
"""

from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from pydantic_ai.exceptions import UserError
from pydantic_ai.messages import ModelResponse
from pydantic_ai.models import Model

from rowcrew.domain.price import Price, nanos_of

# The cost of an answer in billionths of a US dollar; None where it is unknown.
Pricing = Callable[[ModelResponse], int | None]


def pricing_of(model: Model, own: Price | None) -> Pricing:
    """How the answers of a model are priced. The user's own price wins."""
    pricing = _unknown if own is None else _by(own)
    if own is None and (listed := _find(model)) is not None:
        pricing = _listed(*listed)

    def price(response: ModelResponse) -> int | None:
        # Tokens that were not counted are not free.
        return None if response.usage.unmeasured_requests else pricing(response)

    return price


def _unknown(response: ModelResponse) -> int | None:
    # A gateway may say itself what it took.
    said = response.usage.cost
    return None if said is None else nanos_of(said)


def _by(price: Price) -> Pricing:
    def pricing(response: ModelResponse) -> int | None:
        usage = response.usage
        return price.nanos(
            input_tokens=usage.input_tokens,
            cached_input_tokens=usage.cache_read_tokens,
            output_tokens=usage.output_tokens,
        )

    return pricing


def _find(model: Model) -> tuple[Any, Any] | None:
    """The package's provider and model; None when it knows no such, or is not there."""
    try:
        from genai_prices.data_snapshot import get_snapshot  # noqa: PLC0415 - an extra
    except ImportError:
        return None
    try:
        address = model.base_url
    except (AttributeError, UserError):
        address = None
    try:
        return get_snapshot().find_provider_model(
            model.model_name, None, None if address else model.system, address or None
        )
    except LookupError:
        return None


def _listed(provider: Any, listed: Any) -> Pricing:
    def pricing(response: ModelResponse) -> int | None:
        if response.usage.cost is not None:
            return nanos_of(response.usage.cost)
        try:
            # Prices may depend on the hour, on the service tier, and on how long the input is.
            calculated = listed.calc_price(
                response.usage,
                provider,
                genai_request_timestamp=response.timestamp or datetime.now(UTC),
                price_context=response.provider_details,
            )
        except Exception:
            # Tokens of a kind that the list has no price for, or a list that is broken: the answer stands.
            return None
        total: Decimal = calculated.total_price
        return nanos_of(total)

    return pricing
