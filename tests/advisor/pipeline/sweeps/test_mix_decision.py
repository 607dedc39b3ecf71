"""The decision for the mix of a sweep."""

from __future__ import annotations

import math
from collections.abc import Mapping

import built_answers
import built_sweeps
import pytest
from built_sweeps import answer_at, at

from advisor.domain.answer import Answer
from advisor.domain.sweep import Lengths, SweepRecord
from advisor.errors import SweepUnfinishedError
from advisor.pipeline.sweeps.decision import decide_mix


def decide(record: SweepRecord, answers: Mapping[Lengths, Answer]) -> Answer:
    return decide_mix(record, answers, built_answers.finished_header().catalogue)


def test_the_mix_of_one_length_is_the_answer_there() -> None:
    record = built_sweeps.sweep_record({at(8): 0, at(32): 1, at(128): 0})
    answer = answer_at(at(32), faster=2)
    mix = decide(record, {at(8): answer_at(at(8)), at(32): answer})
    assert mix.recommendation == answer.recommendation
    assert mix.scores == answer.scores
    assert mix.results == answer.results


def test_the_speed_of_the_mix_is_between_those_of_its_lengths() -> None:
    record = built_sweeps.sweep_record({at(8): 0.5, at(32): 0.5})
    mix = decide(record, {at(8): answer_at(at(8)), at(32): answer_at(at(32), faster=4)})
    assert mix.recommendation is not None
    assert mix.recommendation.arm == "compiled"
    compiled = next(arm for arm in mix.scores if arm.arm == "compiled")
    assert compiled.speedup == pytest.approx(4 * math.sqrt(4))
    assert "2 lengths" in mix.headline[0].text


def test_the_widest_plan_gives_the_reasons_of_what_is_not_measured() -> None:
    record = built_sweeps.sweep_record({at(8): 0.5, at(32): 0.5})
    limited, full = answer_at(at(8), only=["compiled"]), answer_at(at(32))
    for answers in ({at(8): limited, at(32): full}, {at(8): full, at(32): limited}):
        assert "broken" in {each.arm for each in decide(record, answers).unmeasured}


def test_a_length_without_a_run_leaves_the_mix_without_an_answer() -> None:
    record = built_sweeps.sweep_record({at(8): 0.5, at(32): 0.5})
    with pytest.raises(SweepUnfinishedError) as raised:
        decide(record, {at(8): answer_at(at(8))})
    assert record.sweep_id in raised.value.next_step
    assert "32/16" in raised.value.what
