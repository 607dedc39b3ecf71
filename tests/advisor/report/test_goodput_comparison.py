from __future__ import annotations

import builders
import built_measurements
import msgspec
import pytest
from report_runs import run_answer, with_measurement, with_results

from advisor.domain.answer import Answer
from advisor.report import comparison_text
from advisor.report.comparison import compare_answers

LOAD = built_measurements.load()


def served_run(goodputs: dict[str, float], *, spread: float, itl: float = 0.05) -> Answer:
    arms = tuple(
        built_measurements.served_arm(
            arm,
            goodput=built_measurements.interval(value, spread - 1),
            tokens_per_second=4 * value,
        )
        for arm, value in goodputs.items()
    )
    question = builders.question(load=msgspec.structs.replace(LOAD, itl_seconds=itl))
    answer = with_measurement(run_answer(question=question), cells=())
    return with_results(answer, serving=built_measurements.serving(*arms))


@pytest.mark.parametrize(
    ("after", "spread", "verdict", "outcome"),
    [
        (10.0, 1.02, "same", "no-regression"),
        (8.0, 1.02, "slower", "regression"),
        (13.0, 1.02, "faster", "no-regression"),
        (9.0, 1.3, "undecided", "undecided"),
    ],
)
def test_the_goodput_decides(after: float, spread: float, verdict: str, outcome: str) -> None:
    first = served_run({"engine": 10.0, "baseline": 1.0}, spread=1.01)
    second = served_run({"engine": after, "baseline": 1.0}, spread=spread)
    found = compare_answers(first, second, 0.1)
    changes = {change.arm: change for change in found.changes}
    assert changes["engine"].verdict == verdict
    assert changes["engine"].ratio.value == pytest.approx(after / 10)
    assert found.outcome == ("undecided" if spread > 1.1 else outcome)
    assert verdict in comparison_text.render(found)
    assert verdict in comparison_text.render_markdown(found)


def test_other_limits_are_not_comparable() -> None:
    first = served_run({"engine": 10.0}, spread=1.01)
    second = served_run({"engine": 5.0}, spread=1.01, itl=0.1)
    found = compare_answers(first, second, 0.1)
    assert found.outcome == "not-comparable"
    assert found.changes == ()


def test_a_server_without_a_goodput_in_one_run_is_named() -> None:
    first = served_run({"engine": 10.0, "other": 5.0}, spread=1.01)
    found = compare_answers(first, served_run({"engine": 10.0}, spread=1.01), 0.1)
    assert found.only_before == ("other",)
    assert [change.arm for change in found.changes] == ["engine"]
