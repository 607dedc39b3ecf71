"""What an arm without a measurement may score at most."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from advisor.decide.facts import declared_facts
from advisor.decide.grades import rate
from advisor.decide.scoring import weigh
from advisor.domain.answer import UnmeasuredArm
from advisor.domain.catalogue import SiblingGain
from advisor.domain.constrained_values import find_failures
from advisor.domain.measurement import Measurement
from advisor.domain.results import Results
from advisor.domain.run import Header


@dataclasses.dataclass(frozen=True)
class Potential:
    """The speed-up that an arm may have at most, and the score and bonus that it would give."""

    speedup: float
    score: float
    #: The measured arm of its workflow over which the gain in the kept runs limits the speed-up;
    #: None where the workflow has no measured arm.
    sibling: str | None
    gain: SiblingGain | None


def potential_of(arm: UnmeasuredArm, results: Results, header: Header) -> Potential | None:
    """Return what the arm may score if its build costs nothing and its declared facts hold.

    Where no arm of its workflow is measured, it may be as fast as in any kept run, and faster than
    the fastest arm by the factor of the rubric.
    None for an arm whose speed-up nothing limits, and for one that fails a constraint.
    """
    earlier = header.catalogue.earlier_runs.get(header.question.device, {}).get(arm.arm)
    siblings = [entry for entry in results.measurements if entry.workflow == arm.workflow]
    if not siblings:
        fastest = max((entry.speedup.value for entry in results.measurements), default=1.0)
        most = header.catalogue.rubric.decision.outstanding_gain * fastest
        return _potential(arm, max(most, (earlier and earlier.largest_speedup) or 0.0), header)
    gains = earlier.gains if earlier else {}
    found = [_beside(arm, sibling, gains, header) for sibling in siblings]
    return min(
        (each for each in found if each is not None), key=lambda each: each.speedup, default=None
    )


def _beside(
    arm: UnmeasuredArm, sibling: Measurement, gains: Mapping[str, SiblingGain], header: Header
) -> Potential | None:
    """Return what the arm may score by its largest gain over a sibling; None if it is not known."""
    gain = gains.get(sibling.arm)
    if gain is None:
        return None
    margin = header.catalogue.presets.builds.gain_margin
    speedup = sibling.speedup.value * gain.largest * margin
    return _potential(arm, speedup, header, sibling.arm, gain)


def _potential(
    arm: UnmeasuredArm,
    speedup: float,
    header: Header,
    sibling: str | None = None,
    gain: SiblingGain | None = None,
) -> Potential | None:
    rubric, question = header.catalogue.rubric, header.question
    workflow = next(each for each in header.catalogue.workflows if each.id == arm.workflow)
    facts = {
        **declared_facts(workflow.for_arm(arm.option or "")),
        "performance_portability": None,
        "speedup": speedup,
        "build_seconds": 0.0,
    }
    ratings = {each.id: rate(each, facts, rubric) for each in rubric.criteria}
    letters = tuple(each for each in question.constraints if each.criterion in ratings)
    if find_failures(ratings, letters):
        return None
    score = weigh(ratings, question) + rubric.decision.speed_bonus
    return Potential(speedup, score, sibling, gain)
