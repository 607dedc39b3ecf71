"""What holds for the advice and its word in every run, over seeded random runs."""

from __future__ import annotations

import dataclasses
import math
import random
from collections.abc import Iterator

import builders
import msgspec
import pytest
from builders import BASELINE

from advisor.decide import certainty, scoring
from advisor.decide.speedup_draws import draw_log_speedups, speedup_errors
from advisor.domain.constraints import Priorities
from advisor.domain.measurement import BuildSeconds, Interval, Measurement
from advisor.domain.recommendation import Certainty
from advisor.domain.results import Results, ScoredArm
from advisor.domain.rubric import Rubric
from probes.wire.checks import AccuracyClass

RUNS = 40
WORDS = ("OPEN", "LIKELY", "CLEAR")


@dataclasses.dataclass(frozen=True)
class Arm:
    """A measured arm; arms of a workflow have the same declared facts."""

    name: str
    speedup: float
    #: The 95 % interval reaches this share to both sides.
    spread: float
    facts: tuple[tuple[str, str | int], ...] = ()
    accuracy: AccuracyClass = "exact"
    build: float = 5.0

    @property
    def workflow(self) -> str:
        return self.name.partition("/")[0]


@dataclasses.dataclass(frozen=True)
class Run:
    arms: tuple[Arm, ...]
    weights: Priorities
    #: Difference between two processes.
    between: float

    def with_arm(self, arm: Arm) -> Run:
        others = (arm if each.name == arm.name else each for each in self.arms)
        return dataclasses.replace(self, arms=tuple(others))


@dataclasses.dataclass(frozen=True)
class Decided:
    scored: tuple[ScoredArm, ...]
    advised: ScoredArm
    certainty: Certainty

    def of(self, name: str) -> ScoredArm:
        return next(arm for arm in self.scored if arm.arm == name)

    @property
    def word(self) -> int:
        """The place of the word; that of a workflow without rivals is the highest."""
        word = self.certainty.decision_word
        return WORDS.index(word) if word else len(WORDS)


def measured(arm: Arm, between: float) -> Measurement:
    half = math.log1p(arm.spread)
    total = math.hypot(half, 1.96 * between if arm.spread else 0.0)
    interval = Interval(
        value=arm.speedup,
        low=arm.speedup * math.exp(-total),
        high=arm.speedup * math.exp(total),
        process_error=between if arm.spread else 0.0,
    )
    made = builders.measurement(
        arm.name,
        workflow=arm.workflow,
        option=arm.name.partition("/")[2] or "default",
        correctness=(builders.checked(accuracy_class=arm.accuracy),),
        build_seconds=BuildSeconds(cold=arm.build, warm=None, worst=arm.build),
    )
    return msgspec.structs.replace(made, speedup=interval)


def score(run: Run) -> tuple[Results, tuple[ScoredArm, ...], Rubric]:
    baseline = Arm(BASELINE, 1.0, 0.0)
    results = builders.results(*(measured(arm, run.between) for arm in (baseline, *run.arms)))
    facts = {arm.workflow: dict(arm.facts) for arm in run.arms}
    known = builders.catalogue(
        *(
            builders.workflow(name, declared=builders.declared(**declared))
            for name, declared in facts.items()
        )
    )
    asked = builders.question(priorities=run.weights)
    return results, tuple(scoring.score_arms(results, asked, known)), known.rubric


def decide(run: Run) -> Decided:
    results, scored, rubric = score(run)
    advised, found = certainty.assess(scored, scored, results, run.weights, rubric, seed=0)
    return Decided(scored, advised, found)


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
            arms += [_random_arm(draw, f"arm{number}{option}", facts) for option in options]
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
        yield draw, dataclasses.replace(run, arms=arms, weights=weights)


def _random_arm(draw: random.Random, name: str, facts: tuple[tuple[str, str | int], ...]) -> Arm:
    return Arm(
        name,
        speedup=math.exp(draw.gauss(0.25, 0.4)),
        spread=draw.choice([0.01, 0.05, 0.2, 0.6]) * draw.uniform(0.5, 1.5),
        facts=facts,
        accuracy=draw.choice(["exact", "exact", "close"]),
    )


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
        faster = dataclasses.replace(arm, speedup=arm.speedup * draw.uniform(1.0, 1.5))
        after = decide(run.with_arm(faster))
        assert after.of(arm.name).rank <= before.of(arm.name).rank
        if before.advised.arm == arm.name:
            assert after.advised.arm == arm.name
            assert after.word >= before.word


@pytest.mark.slow
def test_a_workflow_that_is_not_advised_changes_neither_the_advice_nor_lowers_the_word() -> None:
    for draw, run in [*random_runs(4), *close_runs(4)]:
        before = decide(run)
        others = sorted({arm.workflow for arm in run.arms} - {before.advised.workflow})
        if not others:
            continue
        removed = draw.choice(others)
        rest = tuple(arm for arm in run.arms if arm.workflow != removed)
        after = decide(dataclasses.replace(run, arms=rest))
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


def test_a_larger_error_of_any_arm_changes_no_advice() -> None:
    for draw, run in random_runs(5):
        arm = draw.choice(run.arms)
        vague = dataclasses.replace(arm, spread=arm.spread * draw.uniform(1.0, 20.0))
        assert decide(run.with_arm(vague)).advised.arm == decide(run).advised.arm


@pytest.mark.slow
def test_a_larger_error_of_the_answer_never_raises_its_word() -> None:
    for draw, run in [*random_runs(6), *close_runs(6)]:
        before = decide(run)
        if before.advised.arm == BASELINE:
            continue
        arm = next(each for each in run.arms if each.name == before.advised.arm)
        vague = dataclasses.replace(arm, spread=arm.spread * draw.uniform(1.0, 20.0))
        after = decide(run.with_arm(vague))
        assert after.word <= before.word


def test_an_error_that_makes_those_of_the_rivals_look_alike_does_not_raise_the_certainty() -> None:
    rivals = tuple(Arm(f"arm{number}", 1.5, 0.4) for number in range(6))
    shares = []
    for spread in (0.005, 0.2, 0.4):
        run = Run((Arm("first", 1.6, spread), *rivals), builders.priorities(), 0.002)
        found = decide(run)
        assert found.advised.arm == "first"
        shares.append(found.certainty.share)
    assert shares == sorted(shares, reverse=True)


@pytest.mark.parametrize("gain", [0.9, 0.999, 1.0, 1.01])
def test_eager_stays_where_an_arm_of_equal_grades_gains_nothing(gain: float) -> None:
    for _, run in random_runs(7, 20):
        facts = {"target_needs": "runtime"}
        same = Arm("same", gain, 0.01, tuple(facts.items()))
        found = decide(Run((same,), builders.priorities(), run.between))
        assert found.advised.arm == BASELINE


def test_eager_never_stays_beside_an_exact_arm_that_scores_nearly_as_much() -> None:
    checked = 0
    for draw, run in random_runs(8, 100):
        for arm in run.arms:
            if arm.accuracy != "exact":
                continue
            fast = dataclasses.replace(arm, speedup=draw.uniform(1.3, 1.4))
            _, scored, _ = score(run.with_arm(fast))
            scores = {each.arm: each.score for each in scored}
            if scores[fast.name] >= scores[BASELINE] - 0.05:
                checked += 1
                assert certainty.choose(scored).arm != BASELINE
    assert checked > RUNS
