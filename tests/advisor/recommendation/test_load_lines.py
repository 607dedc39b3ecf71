from __future__ import annotations

import builders
import built_answers
import pytest
from golden_files import Expect

from advisor.domain.interval import Interval
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
    serving = ServingResults(arms=(arm,), batch_best=None, process_deviation=0.02)
    question = builders.question(load=load)
    measured = builders.results(builders.measurement("engine"), serving=serving)
    answer = built_answers.recommend_for(
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
    expect("load-lines-latency", lines(40.0, builders.rate_level(10.1)))
