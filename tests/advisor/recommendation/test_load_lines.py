from __future__ import annotations

import builders
import pytest

from advisor.domain.measurement import Interval
from advisor.domain.question import LoadQuestion, RequestLengths
from advisor.domain.serving import RateLevel, ServedArm, ServingResults
from advisor.measure.asked_rate import compare_with_asked_rate
from advisor.recommendation.load_lines import write_load_lines

GOODPUT = Interval(value=10.0, low=8.0, high=12.0)


def lines(rate: float | None, *levels: RateLevel) -> tuple[str, ...]:
    load = LoadQuestion(
        name="mine",
        lengths=(RequestLengths(input_tokens=8, output_tokens=4),),
        ttft_seconds=0.5,
        itl_seconds=0.05,
        rate=rate,
    )
    arm = ServedArm(
        arm="engine",
        goodput=GOODPUT,
        tokens_per_second=40.0,
        levels=levels,
        blocks=8,
        discarded=0,
        requests=500,
        failed=0,
        command="serve",
        asked=compare_with_asked_rate(GOODPUT, levels, rate, 2.5),
    )
    results = ServingResults(arms=(arm,), batch_best=None, process_deviation=0.02)
    return write_load_lines("engine", results, load, {})


def test_without_an_asked_rate_the_goodput_alone_is_stated() -> None:
    (line,) = lines(None)
    assert "10 (8 to 12) requests/s" in line or "10 requests/s (8 to 12)" in line


@pytest.mark.parametrize(
    ("rate", "servers"), [(5.0, "One server is enough"), (40.0, "4 (4 to 5)"), (9.0, "1 (1 to 2)")]
)
def test_an_asked_rate_names_the_servers_and_their_price(rate: float, servers: str) -> None:
    _, line = lines(rate)
    assert servers in line
    assert f"{rate:g} requests/s" in line
    assert "per hour" in line


def test_the_latency_of_each_server_is_that_at_its_share_of_the_rate() -> None:
    _, line = lines(40.0, builders.rate_level(10.1))
    assert "98%" in line
    assert "200 ms" in line
    assert "20 ms between tokens" in line
