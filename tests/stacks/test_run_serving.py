from __future__ import annotations

import builders
import built_measurements
import pytest
from kept import run_serving
from report_runs import run_answer, with_results

from advisor.domain.answer import Answer
from advisor.report.sections import serving_tables

LEVELS = tuple(
    built_measurements.rate_level(
        rate, ttft_seconds=(0.011, 0.022, 0.033), itl_seconds=(0.004, 0.005, 0.006), failed=failed
    )
    for rate, failed in ((5.0, 0), (8.0, 0), (10.0, 3))
)


def served_document(joules_per_token: float | None = None) -> Answer:
    arm = built_measurements.served_arm(levels=LEVELS, joules_per_token=joules_per_token)
    answer = run_answer(question=builders.question(load=built_measurements.load()))
    return with_results(answer, serving=built_measurements.serving(arm))


def test_the_energy_of_a_token_is_a_column_where_it_was_measured() -> None:
    assert serving_tables.ENERGY_HEAD not in serving_tables.server_rows(served_document())[0]
    head, row = serving_tables.server_rows(served_document(0.1234))
    assert row[head.index(serving_tables.ENERGY_HEAD)] == "0.123"


def test_a_kept_serving_run_shows_goodput_and_latency(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_serving, "read_run", {"kept.json": served_document()}.get)
    lines = "\n".join(run_serving.serving_section("kept.json")).splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if "|" in line]
    engine = [row for row in rows if row[0] == "engine"]
    assert [row[1] for row in engine] == ["10.00 (8.33 to 12.00)", "5", "8", "10"]
    assert [row[2] for row in engine] == ["40", "50 %", "80 %", "100 %"]
    assert engine[-1][4:] == ["11", "22", "33", "4", "5", "6", "3"]
    assert any("kept.json" in line for line in lines)
    assert any("8 in and 4 out" in line for line in lines)
