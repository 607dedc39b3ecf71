from __future__ import annotations

import builders
import built_measurements
from report_runs import run_answer, with_results

from advisor.domain.answer import Answer
from advisor.report import generation

LEVELS = tuple(
    built_measurements.rate_level(
        rate, ttft_seconds=(0.011, 0.022, 0.033), itl_seconds=(0.004, 0.005, 0.006), failed=failed
    )
    for rate, failed in ((5.0, 0), (8.0, 0), (10.0, 3))
)


def served_answer(joules_per_token: float | None = None) -> Answer:
    arm = built_measurements.served_arm(levels=LEVELS, joules_per_token=joules_per_token)
    answer = run_answer(question=builders.question(load=built_measurements.load()))
    return with_results(answer, serving=built_measurements.serving(arm))


def test_the_energy_of_a_token_is_a_column_where_it_was_measured() -> None:
    assert generation.ENERGY_HEAD not in generation.server_rows(served_answer())[0]
    head, row = generation.server_rows(served_answer(0.1234))
    assert row[head.index(generation.ENERGY_HEAD)] == "0.123"


def test_each_server_has_its_goodput_and_its_latency_by_rate() -> None:
    servers, latency = generation.tables(served_answer())
    (_, server), (_, *levels) = servers.rows, latency.rows
    assert server[:3] == ["engine", "10.00 (8.33 to 12.00)", "40"]
    assert [row[1:3] for row in levels] == [["5", "50 %"], ["8", "80 %"], ["10", "100 %"]]
    assert levels[-1][4:] == ["11", "22", "33", "4", "5", "6", "3"]
