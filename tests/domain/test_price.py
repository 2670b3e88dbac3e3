"""What tokens cost, to the billionth of a dollar, and what is said of sums with unknown parts."""

from decimal import Decimal

import pytest

from rowcrew.domain.attempt import Usage
from rowcrew.domain.price import Price, nanos_of


@pytest.mark.parametrize(
    ("price", "tokens", "nanos"),
    [
        ({"input": 1.25, "cached_input": 0.125, "output": 10.0}, (1000, 100, 100), 2_137_500),
        ({"input": 1.25, "output": 10.0}, (1000, 100, 100), 2_250_000),
        ({"input": 0.1, "output": 0.2}, (1, 0, 1), 300),
        ({"input": 0.0, "output": 0.0}, (1000, 0, 1000), 0),
        # A provider that counts more cached than sent is not believed beyond what was sent.
        ({"input": 2.0, "cached_input": 1.0, "output": 0.0}, (10, 50, 0), 10_000),
    ],
)
def test_a_request_costs_what_its_tokens_cost(
    price: dict[str, float], tokens: tuple[int, int, int], nanos: int
) -> None:
    sent, cached, written = tokens
    assert (
        Price.of(price).nanos(input_tokens=sent, cached_input_tokens=cached, output_tokens=written) == nanos
    )


def test_a_fraction_of_a_billionth_goes_to_the_nearest() -> None:
    assert [nanos_of(Decimal(text)) for text in ("0.0000000014", "0.0000000015", "0.0000000025")] == [1, 2, 2]


@pytest.mark.parametrize(
    ("usage", "total", "known"),
    [
        (Usage(), None, None),
        (Usage(requests=2), None, None),
        (Usage(requests=2, priced_requests=1, cost_nanos=5), None, 5),
        (Usage(requests=2, priced_requests=2, cost_nanos=5), 5, 5),
        (Usage(requests=1, priced_requests=1, cost_nanos=0), 0, 0),
    ],
)
def test_a_sum_with_an_unknown_part_is_unknown_and_says_what_is_known(
    usage: Usage, total: int | None, known: int | None
) -> None:
    assert (usage.total_cost_nanos, usage.known_cost_nanos) == (total, known)


def test_usage_is_added_and_taken_away_in_every_part() -> None:
    one, two = Usage(1, 2, 3, 4, 5, 1, 7), Usage(10, 20, 30, 40, 50, 9, 70)
    assert (one + two, (one + two) - two) == (Usage(11, 22, 33, 44, 55, 10, 77), one)
