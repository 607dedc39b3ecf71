from __future__ import annotations

import builders
import msgspec
import pytest
from kept import run_serving
from report_runs import run_answer

from advisor.domain.answer import Answer
from advisor.domain.interval import Interval
from advisor.domain.question import LoadQuestion, RequestLengths
from advisor.domain.serving import RateLevel, ServedArm, ServingResults
from advisor.report.sections import serving_tables

LOAD = LoadQuestion(
    name="mine",
    lengths=(RequestLengths(input_tokens=19, output_tokens=58),),
    ttft_seconds=0.5,
    itl_seconds=0.05,
)


def level(share: float, failed: int) -> RateLevel:
    return RateLevel(
        rate=20 * share,
        share=share,
        requests=100,
        failed=failed,
        met=0.97,
        tokens_per_second=1160 * share,
        ttft_seconds=(0.011, 0.022, 0.033),
        itl_seconds=(0.004, 0.005, 0.006),
    )


def served_document() -> Answer:
    arm = ServedArm(
        arm="engine",
        goodput=Interval(value=20.0, low=17.5, high=23.0),
        tokens_per_second=1160.0,
        levels=(level(0.5, 0), level(0.8, 0), level(1.0, 3)),
        blocks=8,
        discarded=0,
        requests=500,
        failed=3,
        command="serve",
    )
    serving = ServingResults(arms=(arm,), batch_best=None, process_deviation=0.02)
    return serve(run_answer(question=builders.question(load=LOAD)), serving)


def serve(answer: Answer, serving: ServingResults) -> Answer:
    results = msgspec.structs.replace(answer.results, serving=serving)
    return msgspec.structs.replace(answer, results=results)


def test_the_energy_of_a_token_is_a_column_where_it_was_measured() -> None:
    document = served_document()
    assert serving_tables.ENERGY_HEAD not in serving_tables.server_rows(document)[0]
    assert document.results.serving is not None
    (arm,) = document.results.serving.arms
    measured = msgspec.structs.replace(arm, joules_per_token=0.1234)
    serving = msgspec.structs.replace(document.results.serving, arms=(measured,))
    head, row = serving_tables.server_rows(serve(document, serving))
    assert row[head.index(serving_tables.ENERGY_HEAD)] == "0.123"


def test_a_kept_serving_run_shows_goodput_and_latency(monkeypatch: pytest.MonkeyPatch) -> None:
    document = served_document()
    monkeypatch.setattr(run_serving, "read_run", {"kept.json": document}.get)
    lines = "\n".join(run_serving.serving_section("kept.json")).splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if "|" in line]
    engine = [row for row in rows if row[0] == "engine"]
    assert [row[1] for row in engine] == ["20.00 (17.50 to 23.00)", "10", "16", "20"]
    assert [row[2] for row in engine] == ["1,160", "50 %", "80 %", "100 %"]
    assert engine[-1][4:] == ["11", "22", "33", "4", "5", "6", "3"]
    assert any("kept.json" in line for line in lines)
    assert any("19 in and 58 out" in line for line in lines)
