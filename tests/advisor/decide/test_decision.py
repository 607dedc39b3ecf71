"""Properties of the whole way from stored visits to a recommendation."""

from __future__ import annotations

import copy
from collections.abc import Mapping

import builders
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from advisor.decide.decision import evaluate
from advisor.domain.answer import Answer, encode
from advisor.domain.constraints import Constraint
from advisor.domain.run_events import EndCause
from advisor.domain.run_state import Header, RunState
from probes.wire.outcome import Failure, Outcome

ROUNDS = 6
SPEED_BONUS = builders.shipped_catalogue().rubric.decision.speed_bonus
ARMS = ("compiled", "exported", "elsewhere")
WORKFLOWS = (
    builders.workflow("compiled", declared=builders.declared(new_shapes="recompiles")),
    builders.workflow(
        "exported",
        declared=builders.declared(
            export_step=True, artefact_scope="gpu-model", new_shapes="refused"
        ),
    ),
    builders.workflow(
        "elsewhere", declared=builders.declared(lines_changed=40, vendors=1, architectures="listed")
    ),
)
#: Seconds of a call by arm, and the relative deviation of each round.
speeds = st.tuples(*[st.floats(0.01, 1.0)] * (len(ARMS) + 1))
all_deviations = st.lists(
    st.floats(0.97, 1.03), min_size=ROUNDS * (len(ARMS) + 2), max_size=ROUNDS * (len(ARMS) + 2)
)
weights = st.tuples(st.integers(0, 100), st.integers(0, 100)).map(
    lambda drawn: (min(drawn), max(drawn) - min(drawn), 100 - max(drawn))
)


def seconds_of(drawn: tuple[float, ...], deviations: list[float]) -> dict[str, list[float]]:
    """Return the seconds of each round by arm, with a relative deviation for each round.

    The duplicate has the typical seconds of the baseline and its own deviations.
    """
    typical = dict(zip((builders.BASELINE, *ARMS), drawn, strict=True))
    typical[builders.DUPLICATE] = typical[builders.BASELINE]
    return {
        arm: [
            typical[arm] * deviation
            for deviation in deviations[index * ROUNDS : (index + 1) * ROUNDS]
        ]
        for index, arm in enumerate(sorted(typical))
    }


def state_of(seconds: Mapping[str, list[float]]) -> RunState:
    """Return the state of a finished run with one race, in which every arm made these visits."""
    processes = {
        arm: builders.process(*builders.visits(each), outcome=Outcome())
        for arm, each in seconds.items()
    }
    return builders.run_state(
        processes,
        opened={1: tuple(seconds)},
        closed={1: "out-of-time"},
        finished=True,
    )


def header_of(weight: tuple[int, int, int] = (40, 35, 25), *required: Constraint) -> Header:
    question = builders.question(priorities=builders.priorities(*weight), constraints=required)
    return builders.header(question=question, catalogue=builders.catalogue(*WORKFLOWS))


def recommendation_of(answer: Answer) -> object:
    """Return the recommendation without figures whose last digit depends on rounding."""
    advice = answer.recommendation
    assert advice is not None
    flips = [(flip.criterion, flip.to, round(flip.weight, 6)) for flip in advice.flips]
    tiers = {
        arm.arm: {name: rating.tier for name, rating in arm.ratings.items()}
        for arm in answer.scores
    }
    return (
        advice.arm,
        advice.verdict,
        advice.trust,
        advice.runner_up,
        advice.ties,
        flips,
        advice.simplex,
        advice.pareto,
        tiers,
    )


@settings(max_examples=40)
@given(speeds, all_deviations, weights)
def test_the_same_run_gives_the_same_answer_byte_for_byte(
    drawn: tuple[float, ...], deviations: list[float], weight: tuple[int, int, int]
) -> None:
    state = state_of(seconds_of(drawn, deviations))
    first, again = (
        encode(evaluate(header_of(weight), each)) for each in (state, copy.deepcopy(state))
    )
    assert first == again


@settings(max_examples=40)
@given(speeds, all_deviations, weights, st.sampled_from([2.0**-10, 2.0**10]))
def test_the_unit_of_the_times_does_not_matter(
    drawn: tuple[float, ...], deviations: list[float], weight: tuple[int, int, int], unit: float
) -> None:
    """Rescale by a power of two, which loses no digit."""
    seconds = seconds_of(drawn, deviations)
    rescaled = {arm: [each * unit for each in series] for arm, series in seconds.items()}
    header = header_of(weight)
    assert recommendation_of(evaluate(header, state_of(seconds))) == recommendation_of(
        evaluate(header, state_of(rescaled))
    )


@example((1.0, 1.0, 0.625, 0.34375), [1.0] * 30, (54, 0, 46), "performance", 2)
@settings(max_examples=40)
@given(
    speeds,
    all_deviations,
    weights,
    st.sampled_from(["performance", "productivity", "portability", "input_flexibility"]),
    st.integers(2, 3),
)
def test_a_constraint_only_removes(
    drawn: tuple[float, ...],
    deviations: list[float],
    weight: tuple[int, int, int],
    criterion: str,
    tier: int,
) -> None:
    state = state_of(seconds_of(drawn, deviations))
    free = evaluate(header_of(weight), state)
    bound = evaluate(header_of(weight, Constraint(criterion=criterion, at_least=tier)), state)
    kept = [arm.arm for arm in bound.scores if not arm.failed_constraints]
    assert kept == [arm.arm for arm in free.scores if arm.ratings[criterion].tier >= tier]
    assert {arm.arm: arm.score for arm in bound.scores} == {
        arm.arm: arm.score for arm in free.scores
    }
    assert (bound.recommendation is not None) == bool(kept)
    if bound.recommendation:
        scores = {arm.arm: arm.score for arm in bound.scores}
        # A faster arm is advised before one that scores a little more.
        least = scores[kept[0]] - SPEED_BONUS
        assert bound.recommendation.arm in kept
        assert scores[bound.recommendation.arm] >= least
        advice = bound.recommendation
        others = {advice.runner_up, *advice.ties, *(flip.to for flip in advice.flips)}
        assert others - {None} <= set(kept)


@pytest.mark.parametrize(
    ("ending", "crashed", "problem"),
    [
        ("out-of-time", (), "budget-spent"),
        ("out-of-time", (builders.BASELINE,), "budget-spent"),
        ("decided", (builders.BASELINE,), "nothing-viable"),
        ("decided", (), "nothing-viable"),
    ],
)
def test_a_run_without_a_measured_arm_has_a_problem(
    ending: EndCause, crashed: tuple[str, ...], problem: str
) -> None:
    crash = Outcome(
        Failure("crashed", phase="measure", signal="SIGSEGV", reason="it ended", fix="update it")
    )
    arms = (builders.BASELINE, builders.DUPLICATE, *ARMS)
    processes = {arm: builders.process(outcome=crash if arm in crashed else None) for arm in arms}
    state = builders.run_state(processes, opened={1: arms}, closed={1: ending})
    answer = evaluate(header_of(), state)
    assert (answer.scores, answer.recommendation) == ((), None)
    assert answer.problem is not None
    assert (answer.problem.name, answer.problem.next_step == "update it") == (
        problem,
        problem == "nothing-viable" and bool(crashed),
    )
