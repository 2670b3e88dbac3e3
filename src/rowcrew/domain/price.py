"""What tokens cost: billionths of a US dollar, whole numbers. It knows no model and no price list."""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, Decimal

NANOS = 1_000_000_000
TOKENS = 1_000_000


@dataclass(frozen=True, slots=True)
class Price:
    """What a million tokens cost in US dollars. Input that the provider had in its cache may cost less."""

    input: Decimal
    cached_input: Decimal
    output: Decimal

    @classmethod
    def of(cls, entry: Mapping[str, float]) -> "Price":
        """An entry of the user's price table. 0.1 is a tenth there, not the binary number beside it."""
        cached = entry.get("cached_input", entry["input"])
        return cls(*(Decimal(str(number)) for number in (entry["input"], cached, entry["output"])))

    def nanos(self, *, input_tokens: int, cached_input_tokens: int, output_tokens: int) -> int:
        """The cost of a request in billionths of a dollar. Cached tokens are part of the input tokens."""
        cached = min(cached_input_tokens, input_tokens)
        cost = self.input * (input_tokens - cached) + self.cached_input * cached + self.output * output_tokens
        return nanos_of(cost / TOKENS)


def nanos_of(dollars: Decimal) -> int:
    """Dollars in billionths, to the nearest."""
    return int((dollars * NANOS).to_integral_value(ROUND_HALF_EVEN))
