"""What every scoring and every decision must satisfy, over random runs and priorities."""

from __future__ import annotations

import dataclasses
import itertools
import math
import random
from collections.abc import Iterator, Sequence
from typing import Any

import builders
import built_answers
import pytest
from drawn import weights
from hypothesis import given
from hypothesis import strategies as st

from advisor.decide import certainty, scoring
from advisor.decide.grades import BAND_STARTS, ArmFacts, facts_of, rate
from advisor.decide.speedup_draws import draw_log_speedups, speedup_errors
from advisor.domain.catalogue import Catalogue
from advisor.domain.constraints import LETTERS, PILLARS, Constraint, Priorities
from advisor.domain.measurement import BuildSeconds, Interval, Measurement
from advisor.domain.recommendation import Decision, Recommendation
from advisor.domain.results import Results, ScoredArm
from advisor.domain.workflow import Environment, Workflow
from probes.accuracy import AccuracyClass

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
    """A measured arm; arms of a workflow have the same declared facts."""

    name: str
    speedup: float
    #: The 95 % interval reaches this share to both sides.
    spread: float = 0.0
    facts: tuple[tuple[str, str | int], ...] = ()
    accuracy: AccuracyClass = "exact"
    build: float = 5.0
    own: bool = False

    @property
    def workflow(self) -> str:
        return self.name.partition("/")[0]

    def figures(self) -> tuple[float, ...]:
        """Return every fact as a number; larger is better."""
        facts = dict(self.facts)
        places = (order.index(facts[name]) for name, order in ORDERS.items())
        return (
            self.speedup,
            -self.build,
            -self.own,
            -int(facts["lines_changed"]),
            int(facts["vendors"]),
            *places,
        )


@dataclasses.dataclass(frozen=True)
class Run:
    arms: tuple[Arm, ...]
    weights: Priorities
    #: Difference between two processes.
    between: float = 0.0

    def with_arm(self, arm: Arm) -> Run:
        others = (arm if each.name == arm.name else each for each in self.arms)
        return builders.replace(self, arms=tuple(others))


def measurement_of(arm: Arm, between: float) -> Measurement:
    total = math.hypot(math.log1p(arm.spread), 1.96 * between if arm.spread else 0.0)
    interval = Interval(
        value=arm.speedup,
        low=arm.speedup * math.exp(-total),
        high=arm.speedup * math.exp(total),
        process_error=between if arm.spread else 0.0,
    )
    made = builders.measurement(
        arm.name,
        correctness=(builders.checked(accuracy_class=arm.accuracy),),
        build_seconds=BuildSeconds(cold=arm.build, warm=None, worst=arm.build),
    )
    return builders.replace(made, speedup=interval)


def workflow_of(arm: Arm) -> Workflow:
    return builders.workflow(
        arm.workflow,
        declared=builders.declared(**dict(arm.facts)),
        environment=Environment(kind="own" if arm.own else "shared"),
    )


def score(run: Run) -> tuple[Results, tuple[ScoredArm, ...], Catalogue]:
    results = builders.results(*(measurement_of(arm, run.between) for arm in (EAGER, *run.arms)))
    known = builders.catalogue(*{arm.workflow: workflow_of(arm) for arm in run.arms}.values())
    asked = builders.question(priorities=run.weights)
    return results, scoring.score_arms(results, asked, known), known


def rank(arms: Sequence[Arm], priorities: Priorities) -> dict[str, ScoredArm]:
    """Score the arms; in the order of their rank."""
    return {arm.arm: arm for arm in score(Run(tuple(arms), priorities))[1]}


EAGER = Arm(builders.BASELINE, 1.0)
FACTS: dict[str, st.SearchStrategy[Any]] = {
    "lines_changed": st.integers(0, 60),
    "vendors": st.integers(1, 5),
    **{name: st.sampled_from(order) for name, order in ORDERS.items()},
}
arms = st.builds(
    Arm,
    name=st.just("arm0"),
    speedup=st.one_of(st.sampled_from([0.5, 1.0, 1.05, 1.2, 2.4]), st.floats(0.01, 50)),
    build=st.one_of(st.sampled_from([1.0, 30.0, 120.0, 900.0]), st.floats(0.01, 10_000)),
    own=st.booleans(),
    facts=st.fixed_dictionaries(FACTS).map(lambda facts: tuple(facts.items())),
)
#: As bad as any arm of `arms` but for the speed, so that in each field an arm is dominated.
WORST = Arm(
    "worst",
    speedup=1.0,
    facts=(("lines_changed", 60), ("vendors", 1), *((name, ORDERS[name][0]) for name in ORDERS)),
    build=10_000,
    own=True,
)
fields = st.lists(arms, min_size=1, max_size=6).map(
    lambda field: [builders.replace(arm, name=f"arm{n}") for n, arm in enumerate(field)]
)


@given(fields, weights())
def test_a_dominated_arm_never_ranks_above(field: list[Arm], priorities: Priorities) -> None:
    field = [*field, builders.replace(WORST, speedup=field[0].speedup / 2)]
    scored = rank(field, priorities)
    dominated = [
        (ours, theirs)
        for ours, theirs in itertools.permutations(field, 2)
        if all(a <= b for a, b in zip(ours.figures(), theirs.figures(), strict=True))
        and ours.speedup < theirs.speedup
    ]
    assert dominated
    for ours, theirs in dominated:
        assert scored[ours.name].rank > scored[theirs.name].rank


@given(arms, weights(), st.sampled_from([0.99, 1.01]), st.sampled_from(["speedup", "build"]))
def test_a_change_of_one_percent_changes_a_score_little(
    arm: Arm, priorities: Priorities, factor: float, figure: str
) -> None:
    changed = builders.replace(arm, **{figure: getattr(arm, figure) * factor})
    for asked, most in ((priorities, MOST_CHANGE), (builders.priorities(), MOST_CHANGE_BALANCED)):
        one, two = (rank([each], asked)["arm0"].score for each in (arm, changed))
        assert abs(one - two) <= most


@given(arms, weights())
def test_letter_and_grade_agree_and_the_score_is_their_weighted_mean(
    arm: Arm, priorities: Priorities
) -> None:
    scored = rank([arm], priorities)["arm0"]
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
    known = rank([arm], priorities)["arm0"]
    facts = facts_of(measurement_of(arm, 0.0), workflow_of(arm)).values
    rubric = builders.shipped_catalogue().rubric
    for criterion in rubric.criteria:
        for name in (rule.fact for rule in criterion.grades if not rule.optional):
            worse = rate(criterion, ArmFacts({**facts, name: None}, {}), rubric)
            assert worse.grade <= known.ratings[criterion.id].grade or name == "speedup"


def test_the_rubric_that_ships_has_the_figures_of_its_description() -> None:
    rubric = builders.shipped_catalogue().rubric
    performance = next(each for each in rubric.criteria if each.id == "performance")
    grades = {
        speedup: rate(
            performance,
            ArmFacts({**dict.fromkeys(rubric.facts, None), "speedup": speedup}, {}),
            rubric,
        ).grade
        for speedup in (0.25, 0.5, 1.0, 1.1, 1.5, 3.0, 6.0, 12.0)
    }
    assert [*grades.values()] == [-2.0, -0.5, 1.0, 1.5, 2.5, 4.0, 5.5, 7.0]


RUNS = 40
WORDS = ("OPEN", "LIKELY", "CLEAR")


@dataclasses.dataclass(frozen=True)
class Decided:
    scored: tuple[ScoredArm, ...]
    advised: ScoredArm
    decision: Decision

    def of(self, name: str) -> ScoredArm:
        return next(arm for arm in self.scored if arm.arm == name)

    @property
    def word(self) -> int:
        """The place of the word; that of a workflow without rivals is the highest."""
        word = self.decision.word
        return WORDS.index(word) if word else len(WORDS)


def decide(run: Run) -> Decided:
    results, scored, known = score(run)
    question = builders.question(priorities=run.weights, seed=0)
    contest = certainty.Contest(results, scored, question, known)
    return Decided(scored, contest.advised, certainty.judge_certainty(contest))


def random_runs(seed: int, count: int = RUNS) -> Iterator[tuple[random.Random, Run]]:
    draw = random.Random(seed)
    for _ in range(count):
        arms = []
        for number in range(draw.randint(1, 5)):
            facts = (
                ("lines_changed", draw.choice([1, 3, 7, 12])),
                ("vendors", draw.choice([1, 2, 4, 8])),
                ("new_shapes", draw.choice(["served", "recompiles", "refused"])),
                ("architectures", draw.choice(["any", "most"])),
                ("target_needs", draw.choice(["pytorch", "libtorch", "runtime"])),
            )
            options = ("", "/other")[: draw.randint(1, 2)]
            arms += [
                Arm(
                    f"arm{number}{option}",
                    speedup=math.exp(draw.gauss(0.25, 0.4)),
                    spread=draw.choice([0.01, 0.05, 0.2, 0.6]) * draw.uniform(0.5, 1.5),
                    facts=facts,
                    accuracy=draw.choice(["exact", "exact", "close"]),
                )
                for option in options
            ]
        one, two = sorted(draw.randint(0, 100) for _ in range(2))
        drawn = builders.priorities(one, two - one, 100 - two)
        weights = draw.choice([builders.priorities(), drawn])
        yield draw, Run(tuple(arms), weights, draw.choice([0.002, 0.02, 0.1]))


def close_runs(seed: int) -> Iterator[tuple[random.Random, Run]]:
    """Yield runs whose workflows differ little, so that their errors decide the word."""
    for draw, run in random_runs(seed, 2 * RUNS):
        arms = tuple(
            Arm(
                f"arm{number}",
                speedup=1.7 * math.exp(draw.gauss(0.0, 0.1)),
                spread=draw.choice([0.01, 0.2, 0.4]),
            )
            for number in range(draw.randint(2, 6))
        )
        performance = draw.choice([40.0, 80.0])
        rest = (100 - performance) / 2
        weights = builders.priorities(performance, rest, rest)
        yield draw, builders.replace(run, arms=arms, weights=weights)


def test_the_answer_is_never_worse_in_everything_than_another_arm() -> None:
    """But for the baseline, which may be advised beside an arm that gains next to nothing."""
    for _, run in random_runs(1):
        found = decide(run)
        ours = found.advised
        for other in found.scored:
            has_no_worse_grade = all(
                rating.grade >= ours.ratings[name].grade for name, rating in other.ratings.items()
            )
            is_faster = other.speedup > ours.speedup and other.bonus >= ours.bonus
            assert not (has_no_worse_grade and is_faster)


@pytest.mark.slow
def test_a_faster_measurement_never_lowers_rank_or_word_of_its_arm() -> None:
    for draw, run in [*random_runs(2), *close_runs(2)]:
        before = decide(run)
        arm = draw.choice(run.arms)
        faster = builders.replace(arm, speedup=arm.speedup * draw.uniform(1.0, 1.5))
        after = decide(run.with_arm(faster))
        assert after.of(arm.name).rank <= before.of(arm.name).rank
        if before.advised.arm == arm.name:
            assert after.advised.arm == arm.name
            assert after.word >= before.word


@pytest.mark.slow
def test_a_workflow_that_is_not_advised_changes_no_advice_and_lowers_no_word() -> None:
    for draw, run in [*random_runs(4), *close_runs(4)]:
        before = decide(run)
        others = sorted({arm.workflow for arm in run.arms} - {before.advised.workflow})
        if not others:
            continue
        removed = draw.choice(others)
        rest = tuple(arm for arm in run.arms if arm.workflow != removed)
        after = decide(builders.replace(run, arms=rest))
        assert after.advised.arm == before.advised.arm
        assert after.word >= before.word


def test_the_draws_of_an_arm_do_not_depend_on_the_other_arms() -> None:
    three = tuple(Arm(f"arm{number}", 1.5 + number / 10, 0.2) for number in range(3))
    results, _, _ = score(Run(three, builders.priorities(), 0.02))
    all_arms, two_arms = (
        draw_log_speedups(speedup_errors(results, names), 0)
        for names in (["arm0", "arm1", "arm2"], ["arm0", "arm2"])
    )
    assert (all_arms[:, [0, 2]] == two_arms).all()


@pytest.mark.slow
def test_a_larger_error_of_any_arm_changes_no_advice_but_that_to_lose_accuracy() -> None:
    for draw, run in random_runs(5, 3 * RUNS):
        arm = draw.choice(run.arms)
        vague = builders.replace(arm, spread=arm.spread * draw.uniform(1.0, 20.0))
        before, after = decide(run), decide(run.with_arm(vague))
        assert (after.advised.arm != before.advised.arm) <= after.of(before.advised.arm).unproven


def test_a_loss_of_accuracy_needs_a_gain_that_is_shown() -> None:
    for _, run in random_runs(9, 2 * RUNS):
        advised = decide(run).advised
        ours = next((arm for arm in run.arms if arm.name == advised.arm), None)
        if ours is None or ours.accuracy == "exact":
            continue
        for other in run.arms:
            if other.workflow == ours.workflow and other.accuracy == "exact":
                assert ours.speedup > other.speedup
                assert ours.speedup / other.speedup > 1 + min(ours.spread, other.spread) / 2


def recommendation_of(run: Run, *required: Constraint) -> Recommendation | None:
    workflows = {arm.workflow: workflow_of(arm) for arm in run.arms}.values()
    head = builders.header_of(*workflows, priorities=run.weights, constraints=required)
    return built_answers.answer_of(score(run)[0], head).recommendation


@pytest.mark.slow
def test_without_a_constraint_the_answer_is_what_deciding_without_it_gives() -> None:
    changed = 0
    for draw, run in random_runs(10, 2 * RUNS):
        both = [Constraint(name, ">=", draw.randint(2, 3)) for name in draw.sample(PILLARS, 2)]
        if (advice := recommendation_of(run, *both)) is None:
            continue
        for effect, other in zip(advice.constraints, reversed(both), strict=True):
            without = recommendation_of(run, other)
            changed += effect.without != advice.arm
            assert effect.without == (without and without.arm)
    assert changed


@pytest.mark.slow
def test_a_larger_error_of_the_answer_never_raises_its_word() -> None:
    for draw, run in [*random_runs(6), *close_runs(6)]:
        before = decide(run)
        if before.advised.arm == builders.BASELINE:
            continue
        arm = next(each for each in run.arms if each.name == before.advised.arm)
        vague = builders.replace(arm, spread=arm.spread * draw.uniform(1.0, 20.0))
        after = decide(run.with_arm(vague))
        if not after.of(arm.name).unproven:
            assert after.word <= before.word


def test_an_error_that_makes_those_of_rivals_look_alike_raises_no_certainty() -> None:
    rivals = tuple(Arm(f"arm{number}", 1.5, 0.4) for number in range(6))
    shares = []
    for spread in (0.005, 0.2, 0.4):
        found = decide(Run((Arm("first", 1.6, spread), *rivals), builders.priorities(), 0.002))
        assert found.advised.arm == "first"
        shares.append(found.decision.certainty)
    assert shares == sorted(shares, reverse=True)


@pytest.mark.parametrize("gain", [0.9, 0.999, 1.0, 1.01])
def test_eager_stays_where_an_arm_of_equal_grades_gains_nothing(gain: float) -> None:
    for _, run in random_runs(7, 20):
        same = Arm("same", gain, 0.01, tuple({"target_needs": "runtime"}.items()))
        found = decide(Run((same,), builders.priorities(), run.between))
        assert found.advised.arm == builders.BASELINE


def test_eager_never_stays_beside_an_exact_arm_that_scores_nearly_as_much() -> None:
    checked = 0
    for draw, run in random_runs(8, 100):
        for arm in run.arms:
            if arm.accuracy != "exact":
                continue
            fast = builders.replace(arm, speedup=draw.uniform(1.3, 1.4))
            _, scored, _ = score(run.with_arm(fast))
            scores = {each.arm: each.score for each in scored}
            if scores[fast.name] >= scores[builders.BASELINE] - 0.05:
                checked += 1
                assert scoring.best_scored(scored).arm != builders.BASELINE
    assert checked > RUNS
