"""What every scoring of measurements must satisfy, over random runs and priorities."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence

import builders
import msgspec
import pytest
from builders import BASELINE
from hypothesis import example, given
from hypothesis import strategies as st

from advisor.decide import scoring
from advisor.decide.grades import BAND_STARTS, facts_of, rate
from advisor.domain.catalogue import Catalogue
from advisor.domain.constraints import Priorities
from advisor.domain.measurement import BuildSeconds, Measurement
from advisor.domain.results import ScoredArm
from advisor.domain.rubric import LETTERS, Rubric
from advisor.domain.workflow import Environment, Workflow

#: From the worst value of a fact to its best one.
ORDERS: dict[str, tuple[str | bool, ...]] = {
    "export_step": (True, False),
    "artefact_scope": ("gpu-model", "vendor", "any"),
    "target_needs": ("pytorch", "libtorch", "runtime"),
    "new_shapes": ("refused", "recompiles", "served"),
    "architectures": ("listed", "most", "any"),
}
MOST_CHANGE, MOST_CHANGE_BALANCED = 0.1, 0.04


@dataclasses.dataclass(frozen=True)
class Arm:
    """The facts of one arm."""

    speedup: float
    build: float
    lines: int
    own: bool
    vendors: int
    ordered: tuple[int, ...]

    def declared(self) -> dict[str, str | int]:
        values = {
            name: order[min(place, len(order) - 1)]
            for (name, order), place in zip(ORDERS.items(), self.ordered, strict=True)
        }
        return {"lines_changed": self.lines, "vendors": self.vendors, **values}

    def figures(self) -> tuple[float, ...]:
        """Return every fact as a number; larger is better."""
        return (
            self.speedup,
            -self.build,
            -self.lines,
            -self.own,
            self.vendors,
            *(
                min(place, len(order) - 1)
                for place, order in zip(self.ordered, ORDERS.values(), strict=True)
            ),
        )


arms = st.builds(
    Arm,
    speedup=st.one_of(st.sampled_from([0.5, 1.0, 1.05, 1.2, 2.4]), st.floats(0.01, 50)),
    build=st.one_of(st.sampled_from([1.0, 30.0, 120.0, 900.0]), st.floats(0.01, 10_000)),
    lines=st.integers(0, 60),
    own=st.booleans(),
    vendors=st.integers(1, 5),
    ordered=st.tuples(*[st.integers(0, 2)] * len(ORDERS)),
)
fields = st.lists(arms, min_size=1, max_size=6)


@st.composite
def weights(draw: st.DrawFn) -> Priorities:
    performance = draw(st.integers(0, 100))
    productivity = draw(st.integers(0, 100 - performance))
    return builders.priorities(performance, productivity, 100 - performance - productivity)


def measurement_of(name: str, arm: Arm) -> Measurement:
    return builders.measurement(
        name,
        speedup=arm.speedup,
        build_seconds=BuildSeconds(cold=arm.build, warm=None, worst=arm.build),
    )


def workflow_of(name: str, arm: Arm) -> Workflow:
    return builders.workflow(
        name,
        declared=builders.declared(**arm.declared()),
        environment=Environment(kind="own" if arm.own else "shared"),
    )


def rank(field: Mapping[str, Arm], priorities: Priorities) -> dict[str, ScoredArm]:
    """Score the arms; in the order of their rank."""
    measured = [builders.measurement(BASELINE, speedup=1.0)]
    measured += [measurement_of(name, arm) for name, arm in field.items()]
    known: Catalogue = builders.catalogue(*(workflow_of(name, arm) for name, arm in field.items()))
    asked = builders.question(priorities=priorities)
    scored = scoring.score_arms(builders.results(*measured), asked, known)
    return {arm.arm: arm for arm in scored}


def named(field: Sequence[Arm]) -> dict[str, Arm]:
    return {f"arm{place}": arm for place, arm in enumerate(field)}


#: Two arms that differ in what the target needs, where another fact limits their portability.
BOUND = Arm(speedup=1.0, build=1.0, lines=0, own=False, vendors=1, ordered=(1, 0, 0, 2, 2))
BETTER = dataclasses.replace(BOUND, ordered=(1, 0, 1, 2, 2))


@given(fields, weights())
@example([BOUND, BETTER], builders.priorities())
def test_a_dominated_arm_never_ranks_above(field: list[Arm], priorities: Priorities) -> None:
    scored = rank(named(field), priorities)
    for one, ours in named(field).items():
        for two, theirs in named(field).items():
            pairs = list(zip(ours.figures(), theirs.figures(), strict=True))
            if all(a <= b for a, b in pairs) and any(a < b for a, b in pairs):
                assert scored[one].rank > scored[two].rank


@given(arms, weights(), st.sampled_from([0.99, 1.01]), st.sampled_from(["speedup", "build"]))
def test_a_change_of_one_percent_changes_a_score_little(
    arm: Arm, priorities: Priorities, factor: float, figure: str
) -> None:
    changed = dataclasses.replace(arm, **{figure: getattr(arm, figure) * factor})
    for asked, most in (
        (priorities, MOST_CHANGE),
        (builders.priorities(), MOST_CHANGE_BALANCED),
    ):
        one, two = (rank({"arm0": each}, asked)["arm0"].score for each in (arm, changed))
        assert abs(one - two) <= most


@given(arms, weights())
def test_letter_and_grade_agree_and_the_score_is_their_weighted_mean(
    arm: Arm, priorities: Priorities
) -> None:
    scored = rank({"arm0": arm}, priorities)["arm0"]
    for rating in scored.ratings.values():
        expected = next((t for t, start in BAND_STARTS.items() if rating.grade >= start), 1)
        assert rating.tier == expected
        assert LETTERS[rating.tier] in "ABC"
        assert not rating.to_next or all(gap.tier == rating.tier + 1 for gap in rating.to_next)
    shares = priorities.shares()
    mean = sum(shares[name] * rating.grade for name, rating in scored.ratings.items())
    assert math.isclose(scored.score, mean, abs_tol=1e-8)


@given(arms, weights())
def test_an_unknown_build_time_never_pays(arm: Arm, priorities: Priorities) -> None:
    known = rank({"arm0": arm}, priorities)["arm0"]
    facts = facts_of(measurement_of("arm0", arm), workflow_of("arm0", arm)).values
    rubric = builders.shipped_catalogue().rubric
    for criterion in rubric.criteria:
        for name in (rule.fact for rule in criterion.grades if not rule.optional):
            worse = rate(criterion, {**facts, name: None}, rubric)
            assert worse.grade <= known.ratings[criterion.id].grade or name == "speedup"


@given(
    arms,
    weights(),
    st.sampled_from(["served", "recompiles", "refused"]),
    st.sampled_from(["served", "recompiles", "refused"]),
)
def test_leaving_out_one_of_the_new_shapes_never_pays(
    arm: Arm, priorities: Priorities, one: str, other: str
) -> None:
    """An arm declares the truth: the worst of both shapes; then it leaves out the second one."""
    worst = max(one, other, key=["served", "recompiles", "refused"].index)
    declared = msgspec.structs.replace(
        workflow_of("arm0", arm), declared=builders.declared(new_shapes=worst)
    )
    known = builders.catalogue(declared)
    asked = builders.question(priorities=priorities)
    scores = []
    for found, complete in ((worst, True), (one, False)):
        entry = msgspec.structs.replace(
            measurement_of("arm0", arm), new_shapes=found, new_shapes_complete=complete
        )
        (scored,) = scoring.score_arms(builders.results(entry), asked, known)
        scores.append(scored.score)
    assert scores[1] <= scores[0]


def test_the_rubric_that_ships_has_the_figures_of_its_description() -> None:
    rubric = builders.shipped_catalogue().rubric
    performance = next(each for each in rubric.criteria if each.id == "performance")
    grades = {
        speedup: rate(
            performance, {**dict.fromkeys(rubric.facts, None), "speedup": speedup}, rubric
        ).grade
        for speedup in (0.25, 0.5, 1.0, 1.1, 1.5, 3.0, 6.0, 12.0)
    }
    assert grades == {
        0.25: -2.0,
        0.5: -0.5,
        1.0: 1.0,
        1.1: 1.5,
        1.5: 2.5,
        3.0: 4.0,
        6.0: 5.5,
        12.0: 7.0,
    }


def test_a_rubric_with_falling_and_rising_grades_is_refused() -> None:
    knots = ((1.0, 1.0), (2.0, 3.0), (3.0, 2.0))
    rubric = msgspec.to_builtins(builders.shipped_catalogue().rubric)
    rubric["criteria"][0]["grades"][0]["knots"] = knots
    with pytest.raises(msgspec.ValidationError, match="monotone"):
        msgspec.convert(rubric, Rubric)
