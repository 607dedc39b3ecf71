"""The errors of a run whose measurements give no advice."""

from __future__ import annotations

from collections.abc import Sequence

from advisor.decide import sensitivity, trust
from advisor.domain.answer import RankedArm
from advisor.domain.constrained_values import value_of
from advisor.domain.constraints import Constraint
from advisor.domain.measurement import Measurement
from advisor.domain.question import Budget
from advisor.domain.results import Results
from advisor.domain.scores import ScoredArm
from advisor.errors import MachineUnfitError, NothingViableError
from advisor.system.number_format import format_number, format_share


def nothing_viable(
    scored: Sequence[ScoredArm],
    constraints: Sequence[Constraint],
    measurements: Sequence[Measurement],
) -> NothingViableError:
    """Return the error of a run without a viable arm, with what would make one viable."""
    if not scored:
        return NothingViableError(
            "nothing was measured, so there is nothing to recommend",
            "run p3-advisor show --json for the reason of each workflow",
        )
    effects = sensitivity.constraint_effects(scored, constraints, None)
    ways = [
        f"without {effect.constraint} the answer would be {effect.without}"
        for effect in effects
        if effect.without
    ]
    asked = ", ".join(constraint.text for constraint in constraints)
    nearest = ", ".join(_nearest(constraint, scored, measurements) for constraint in constraints)
    return NothingViableError(
        f"no workflow meets --require {asked}; nearest: {nearest}",
        "; ".join(["relax or remove a constraint of --require", *ways]),
    )


def _nearest(
    constraint: Constraint, scored: Sequence[ScoredArm], measurements: Sequence[Measurement]
) -> str:
    """Return the value that is nearest to a constraint with its arm, or how many arms meet it."""
    measured = {each.arm: each for each in measurements}
    found = {arm.arm: value_of(constraint, arm.ratings, measured.get(arm.arm)) for arm in scored}
    known = {arm: value for arm, value in found.items() if value is not None}
    if not known:
        return f"{constraint.criterion} unknown"
    met = sum(map(constraint.admits, known.values()))
    if met:
        return f"{constraint.criterion} met by {met} of {len(scored)}"
    arm = min(known, key=lambda name: constraint.distance(known[name]))
    return f"{constraint.criterion} {constraint.write_measured(known[arm])} ({arm})"


def machine_unfit(results: Results, budget: Budget | None, leader: RankedArm) -> MachineUnfitError:
    """Return the error of a run that is open because the machine was not fit to measure on.

    `budget` is that of a further run, None where no budget makes more repetitions.
    """
    visits, noise = results.visits, results.noise_floor or 0.0
    if trust.is_busy(results):
        reason = f"the machine was busy or throttled during {visits.unfit} of {visits.made} visits"
        next_step = "stop other work on this machine and measure again"
    else:
        difference = format_share(min(noise, 9.99))
        reason = f"the baseline and its duplicate may differ by {difference} or more"
        longer = f"longer with --budget {budget.name}, or " if budget else ""
        next_step = f"measure {longer}on a machine whose processors nothing else uses"
    known, own = "", leader.speedup
    if own.low is not None and own.high is not None and leader.arm != results.baseline:
        between = f"{format_number(own.low, digits=2)}x and {format_number(own.high, digits=2)}x"
        known = f"; so far {leader.scored.title} leads, between {between} as fast as eager PyTorch"
    return MachineUnfitError(f"{reason}, so the measured speeds do not decide{known}", next_step)
