from __future__ import annotations

import builders
import built_answers
import pytest
from builders import BASELINE, replace

from advisor.decide.answers import answer_from_state
from advisor.domain.answer import Answer
from advisor.domain.event_folding import fold
from advisor.domain.measurement import Interval, Variant
from advisor.domain.run_events import VariantMeasured
from advisor.domain.snippet import TriedVariant
from advisor.report.advised_arm import describe_variant
from advisor.report.snippet_results import render_tried

GAIN = Interval(value=3.9, low=3.8, high=4.0)
#: Settings against graph breaks, of which none is left.
SETTINGS = Variant(name="graph-breaks", title="settings", lines="x", graph_breaks={})


def with_breaks(count: int = 2) -> Answer:
    facts = {"graph_breaks": {f"net.py:{line}: x": 1 for line in range(count)}}
    return built_answers.with_measurement(built_answers.answer(), "compiled", facts=facts)


def test_a_gain_is_a_line_of_the_answer_and_changes_no_rank() -> None:
    tried = Variant(name="bfloat16", title="bfloat16", lines="x", speedup=GAIN, error=4e-3)
    failed = Variant(name="tf32", title="TF32", lines="x", failure="no such operator")
    header, before = built_answers.finished_header(), built_answers.decided_state()
    again = replace(tried, speedup=Interval(value=9.0, low=2.0, high=9.0))
    events = [VariantMeasured(arm=BASELINE, variant=each) for each in (again, failed, tried)]
    after = fold(builders.events(*events), before)
    plain, answer = answer_from_state(header, before), answer_from_state(header, after)
    assert answer.results.by_arm[BASELINE].variants == (failed, tried)
    assert answer.scores == plain.scores
    (line,) = built_answers.headline(answer, "variant")
    assert {*built_answers.headline(answer)} - {*built_answers.headline(plain)} == {line}
    assert all(words in line for words in ("bfloat16", "3.90x", "4e-03", "float32"))
    assert "no such operator" in describe_variant(failed, BASELINE, answer)
    once = replace(tried, speedup=Interval(value=9.0, low=None, high=None))
    assert "unknown speed" in describe_variant(once, BASELINE, answer)
    assert "between 2x and 9x" in describe_variant(again, BASELINE, answer)
    assert "the same code" in describe_variant(tried, "compiled", answer)


@pytest.mark.parametrize(
    ("gain", "graph_breaks", "is_gain", "has_lines"),
    [
        (1.5, {}, True, True),
        (1.01, {}, False, False),
        (0.7, {}, False, False),
        # Another precision is reported in any case.
        (0.7, None, True, False),
    ],
)
def test_lines_are_printed_if_they_gain(
    gain: float, graph_breaks: dict[str, int] | None, *, is_gain: bool, has_lines: bool
) -> None:
    speedup = Interval(value=gain, low=gain, high=gain)
    variant = replace(SETTINGS, speedup=speedup, graph_breaks=graph_breaks)
    assert variant.is_gain == is_gain
    assert not replace(variant, failure="wrong outputs").is_gain
    text = render_tried(TriedVariant(arm="compiled", variant=variant, diff="+x"), with_breaks())
    assert ("+x" in text) == has_lines
    assert f"{gain:.2f}x" in text


def test_a_useless_range_of_a_busy_machine_is_not_said() -> None:
    variant = replace(SETTINGS, speedup=Interval(value=0.5, low=0.12, high=1.2), doubt="busy")
    assert "0.12x" in describe_variant(variant, "compiled", with_breaks())
    unknown = replace(variant, speedup=Interval(value=1.0, low=0.05, high=35.0))
    for each in (unknown, replace(unknown, graph_breaks=None)):
        assert "x" not in describe_variant(each, "compiled", with_breaks()).split()
