from __future__ import annotations

import builders
import built_answers
import built_measurements
import pytest
from golden_files import Expect

from advisor.decide.further_lines import write_load_lines
from advisor.decide.serving import compare_with_asked_rate
from advisor.domain.measurement import Interval
from advisor.domain.serving import RateLevel

GOODPUT = Interval(value=10.0, low=8.0, high=12.0)


def lines(rate: float | None, *levels: RateLevel) -> tuple[str, ...]:
    arm = built_measurements.served_arm(
        goodput=GOODPUT,
        levels=levels,
        asked=compare_with_asked_rate(GOODPUT, levels, rate, 2.5),
    )
    serving = built_measurements.serving(arm)
    question = builders.question(load=built_measurements.load(rate=rate))
    measured = builders.results(builders.measurement("engine"), serving=serving)
    answer = built_answers.answer_for(
        measured, [builders.scored_arm("engine")], builders.header(question=question)
    )
    return write_load_lines(built_answers.advised(answer))


def test_without_an_asked_rate_the_goodput_alone_is_stated(expect: Expect) -> None:
    found = lines(None)
    assert len(found) == 1
    expect("load-lines", found)


@pytest.mark.parametrize("rate", [5.0, 40.0, 9.0])
def test_an_asked_rate_names_the_servers_and_their_price(rate: float, expect: Expect) -> None:
    expect(f"load-lines-{rate:g}", lines(rate))


def test_the_latency_of_each_server_is_that_at_its_share_of_the_rate(expect: Expect) -> None:
    expect("load-lines-latency", lines(40.0, built_measurements.rate_level(10.1)))
