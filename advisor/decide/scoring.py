"""Grade each arm by its facts, weigh the grades, and rank the arms.

An arm without a measurement gets the most that it could score.
"""

from __future__ import annotations

import dataclasses
import math
import operator
from collections.abc import Mapping, Sequence

import msgspec

from advisor.decide import grades
from advisor.decide.performance_portability import application_of
from advisor.decide.speedup_draws import is_shown_faster
from advisor.domain.accuracy import may_be_exact
from advisor.domain.answer import UnmeasuredArm
from advisor.domain.arm_figures import ARM_FIGURES
from advisor.domain.catalogue import Catalogue, SiblingGain
from advisor.domain.constraints import CRITERIA, TIERS, Constraint, FailedConstraint
from advisor.domain.measurement import Measurement
from advisor.domain.plan import ArmName
from advisor.domain.question import Question, WeightFormat
from advisor.domain.results import Adoption, Evidence, Rating, Results, ScoredArm
from advisor.domain.rubric import DecisionRule
from advisor.domain.text import describe_spread
from advisor.domain.workflow import Workflow
from probes.shape import Shape


def score_arms(
    results: Results, question: Question, catalogue: Catalogue, evidence: Evidence = "measured"
) -> tuple[ScoredArm, ...]:
    """Return every measured arm, best first; those that fail a constraint come last."""
    workflows = catalogue.by_id
    arms = [
        (measured, workflows[measured.workflow].for_arm(measured.option))
        for measured in results.measurements
    ]
    new_shapes = grades.infer_new_shapes(arms)
    applications = results.portability.applications if results.portability else ()
    portable = {each.application: each.performance_portability for each in applications}
    scored = []
    for measured, workflow in arms:
        facts = grades.facts_of(
            measured,
            workflow,
            evidence,
            portability=portable.get(application_of(workflow)),
            inferred_new_shapes=new_shapes.get(measured.arm),
        )
        scored.append(_score_arm(measured, workflow, facts, results, catalogue, question))
    return rank(mark_unproven(scored, results, catalogue.rubric.decision.clear_share))


BITS: dict[WeightFormat, int] = {"int4": 4, "int8": 8, "fp8": 8}
NATIVE_BITS = 16


def mark_unproven(
    scored: Sequence[ScoredArm], results: Results, probability: float
) -> list[ScoredArm]:
    """Return the arms, with those marked that lose accuracy without a gain that is shown.

    Each is compared with the more exact arms of its workflow that are not marked themselves. A
    better letter than that of speed is a gain, too.
    """
    measured = results.by_arm
    exactness = {
        one.arm: (
            may_be_exact(measured[one.arm].correctness),
            BITS[one.weight_format] if one.weight_format else NATIVE_BITS,
        )
        for one in scored
    }
    proven: list[ScoredArm] = []
    for each in sorted(scored, key=lambda each: exactness[each.arm], reverse=True):
        own = exactness[each.arm]
        is_unproven = not each.failures and any(
            other.workflow == each.workflow
            and exactness[other.arm] != own
            and all(map(operator.ge, exactness[other.arm], own))
            and not _has_better_letter(each, other)
            and not is_shown_faster(
                measured[each.arm], measured[other.arm], results.baseline, probability
            )
            for other in proven
            if not (other.failures or other.unproven)
        )
        proven.append(msgspec.structs.replace(each, unproven=is_unproven))
    return proven


def _has_better_letter(one: ScoredArm, other: ScoredArm) -> bool:
    return any(
        rating.tier > other.ratings[name].tier
        for name, rating in one.ratings.items()
        if name != "performance"
    )


def score_by_shape(
    results: Results, question: Question, catalogue: Catalogue
) -> dict[Shape, tuple[ScoredArm, ...]]:
    """Return the scores at each shape alone; empty for one shape, whose answer is that of all."""
    shapes = sorted({cell.shape for _, cell in results.cells})
    return {
        shape: score_arms(_at_shape(results, shape), question, catalogue)
        for shape in (shapes if len(shapes) > 1 else ())
    }


def _score_arm(
    measurement: Measurement,
    workflow: Workflow,
    facts: grades.ArmFacts,
    results: Results,
    catalogue: Catalogue,
    question: Question,
) -> ScoredArm:
    ratings = {
        criterion.id: grades.rate(criterion, facts, catalogue.rubric)
        for criterion in catalogue.rubric.criteria
    }
    return ScoredArm(
        arm=measurement.arm,
        workflow=measurement.workflow,
        title=workflow.title_of(measurement.arm),
        ratings=ratings,
        score=weigh(ratings, question),
        bonus=_bonus(measurement, results.baseline, catalogue.rubric.decision),
        rank=0,
        failures=find_failures(ratings, question.constraints, measurement),
        speedup=measurement.speedup.value,
        adoption=Adoption(
            lines_changed=int(workflow.declared.lines_changed.value),
            export_step=bool(workflow.declared.export_step.value),
            own_environment=workflow.environment.kind != "shared",
            preallocates_cache=bool(question.gpu) and workflow.id in catalogue.engine_memory,
        ),
        weight_format=workflow.arm(measurement.option).weight_format,
        verified=workflow.verified,
    )


def _bonus(measurement: Measurement, baseline: str, rule: DecisionRule) -> float:
    """Return what the choice adds to the score of an arm, whatever the weights are.

    Speed saves what the score does not know, and the baseline needs no change. Arms whose outputs
    are less exact get nothing for their speed.
    """
    if measurement.arm == baseline:
        return rule.baseline_bonus
    if not may_be_exact(measurement.correctness):
        return 0.0
    share = math.log(measurement.speedup.value) / math.log(rule.speed_bonus_at)
    return rule.speed_bonus * min(max(share, 0.0), 1.0)


def _at_shape(results: Results, shape: Shape) -> Results:
    measurements = [
        msgspec.structs.replace(measured, speedup=cell.speedup)
        for measured in results.measurements
        for cell in measured.cells
        if cell.shape == shape
    ]
    return msgspec.structs.replace(results, measurements=tuple(measurements))


def weigh(ratings: Mapping[str, Rating], question: Question) -> float:
    by_criterion = {name: rating.grade for name, rating in ratings.items()}
    return grades.rounded(question.priorities.weigh(by_criterion))


def sort_key(scored: ScoredArm, points: float) -> tuple[float, float, str]:
    """Return the place of an arm with these points: more points, then more speed, then the name."""
    return -grades.rounded(points), -scored.speedup, scored.arm


def rank(scored: Sequence[ScoredArm]) -> tuple[ScoredArm, ...]:
    ordered = sorted(scored, key=lambda each: (bool(each.failures), *sort_key(each, each.score)))
    return tuple(
        msgspec.structs.replace(one, rank=number) for number, one in enumerate(ordered, start=1)
    )


def best_scored(arms: Sequence[ScoredArm]) -> ScoredArm:
    return min(arms, key=lambda each: sort_key(each, each.score + each.bonus))


def candidates_of(arms: Sequence[ScoredArm], baseline: str) -> list[ScoredArm]:
    """Return the arm of each workflow that would be chosen, and the baseline.

    The other arms do not count: the best draw of several arms that differ by chance is better than
    any of them. The baseline needs no change of the code, so it stands for itself.
    """
    groups: dict[tuple[str, bool], list[ScoredArm]] = {}
    for scored in arms:
        if not scored.unproven:
            groups.setdefault((scored.workflow, scored.arm == baseline), []).append(scored)
    return [best_scored(own) for own in groups.values()]


def without_constraint(
    scored: Sequence[ScoredArm], index: int, results: Results, probability: float
) -> tuple[ScoredArm, ...]:
    """Return the arms as they are scored without the constraint that has this index."""
    freed = [
        msgspec.structs.replace(
            each, failures=tuple(failed for failed in each.failures if failed.index != index)
        )
        for each in scored
    ]
    return rank(mark_unproven(freed, results, probability))


def value_of(
    constraint: Constraint, ratings: Mapping[str, Rating], measurement: Measurement
) -> float | None:
    """Return the letter's number or the figure that a constraint is about; None if unknown."""
    if constraint.quantity in CRITERIA:
        return ratings[constraint.quantity].tier
    if constraint.asks_for_class:
        return class_number(measurement)
    return ARM_FIGURES[constraint.quantity].get(measurement)


def class_number(measurement: Measurement) -> int | None:
    """Return the number of the class of what an arm loses of the model; None if it is unknown.

    What is worse than C has 0. Exact outputs lose nothing, so they have class A where no text and
    no metric was measured.
    """
    loss = measurement.trained_loss
    if loss is not None and loss.loss_class is not None:
        return TIERS.get(loss.loss_class, 0)
    return TIERS["A"] if measurement.correctness and measurement.is_exact else None


def find_failures(
    ratings: Mapping[str, Rating], constraints: Sequence[Constraint], measurement: Measurement
) -> tuple[FailedConstraint, ...]:
    """Return the constraints that an arm does not meet; an unknown figure meets none."""
    values = [value_of(constraint, ratings, measurement) for constraint in constraints]
    loss = measurement.trained_loss
    is_random = loss is not None and loss.basis == "needs-real-weights"
    return tuple(
        FailedConstraint(
            index=index,
            constraint=constraint,
            value=value,
            needs_real_weights=value is None and constraint.asks_for_class and is_random,
        )
        for index, (constraint, value) in enumerate(zip(constraints, values, strict=True))
        if value is None or not constraint.admits(value)
    )


def may_be_advised(scored: ScoredArm, measured: Measurement, *, fit: bool) -> bool:
    """Return whether an arm meets all constraints; on an unfit machine, whether it may."""
    return not scored.failures or (not fit and bool(crossed_bounds(scored, measured)))


def crossed_bounds(scored: ScoredArm, measured: Measurement) -> list[str]:
    """Return the figures whose error the arm's failed constraints lie in; empty unless all do."""
    found = []
    for failed in scored.failures:
        spread = failed.constraint.crossed_by(measured)
        if spread is None:
            return []
        found.append(f"{describe_spread(failed.constraint, spread)} ({scored.title})")
    return found


@dataclasses.dataclass(frozen=True)
class Potential:
    """The most that an arm may reach."""

    speedup: float
    #: Its score at that speed-up, alone and with the bonus for speed.
    score: float
    score_with_bonus: float
    #: The measured arm of its workflow over which the gain in the kept runs limits the speed-up,
    #: and that gain; None if there is no such arm.
    sibling: str | None
    gain: SiblingGain | None


def potential_of(
    left_out: UnmeasuredArm, question: Question, results: Results, catalogue: Catalogue
) -> Potential | None:
    """Return what the arm may score if its build costs nothing and its declared facts hold.

    Its gain over a measured arm of its workflow in the kept runs limits its speed-up. Without one
    it may exceed its largest lead in them, or the fastest arm if it has none, by the factor of the
    rubric: few models were measured in them. None for an arm that fails a constraint.
    """
    rubric, measurements = catalogue.rubric, results.measurements
    earlier = catalogue.earlier_runs.get(question.device, {}).get(left_out.arm)
    gains = earlier.gains if earlier else {}
    margin = catalogue.presets.builds.gain_margin
    limits = {
        each.arm: each.speedup.value * gains[each.arm].largest * margin
        for each in measurements
        if each.arm in gains
    }
    sibling = min(limits, key=lambda each: limits[each], default=None)
    if sibling is None:
        fastest = max((each.speedup.value for each in measurements), default=1.0)
        lead = (earlier and earlier.largest_lead) or 1.0
        speedup = fastest * lead * rubric.decision.outstanding_gain
    else:
        speedup = limits[sibling]

    name = ArmName(left_out.workflow, left_out.option or "")
    score = possible_score(name, speedup, question, catalogue)
    if score is None:
        return None
    gain = gains[sibling] if sibling else None
    return Potential(speedup, score, score + rubric.decision.speed_bonus, sibling, gain)


def possible_score(
    name: ArmName, speedup: float, question: Question, catalogue: Catalogue
) -> float | None:
    """Return the score of an arm whose build costs nothing and whose declared facts hold.

    None for an arm that then fails a constraint.
    """
    workflow, rubric = catalogue.by_id[name.workflow].for_arm(name.option or ""), catalogue.rubric
    assumed = {"performance_portability": None, "speedup": speedup, "build_seconds": 0.0}
    facts = grades.ArmFacts({**grades.declared_facts(workflow), **assumed}, evidence={})
    ratings = {each.id: grades.rate(each, facts, rubric) for each in rubric.criteria}
    letters = (each for each in question.constraints if each.quantity in ratings)
    is_met = all(each.admits(ratings[each.quantity].tier) for each in letters)
    return weigh(ratings, question) if is_met else None
