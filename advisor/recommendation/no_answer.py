"""The errors of a run whose measurements give no advice."""

from __future__ import annotations

from collections.abc import Sequence

from advisor.domain.constraints import Constraint
from advisor.domain.results import Results
from advisor.domain.scores import ScoredArm
from advisor.errors import MachineUnfitError, NothingViableError
from advisor.recommendation import sensitivity, trust
from advisor.system.number_format import format_share


def nothing_viable(
    scored: Sequence[ScoredArm], constraints: Sequence[Constraint]
) -> NothingViableError:
    """Return the error of a run without a viable arm, with what would make one viable."""
    if not scored:
        return NothingViableError(
            "nothing was measured, so there is nothing to recommend",
            "run p3-advisor show --json for the reason of each workflow",
        )
    fails = "; ".join(f"{arm.arm}: {', '.join(arm.failed_constraints)}" for arm in scored)
    effects = sensitivity.constraint_effects(scored, constraints, None)
    ways = [
        f"without {effect.constraint} the answer would be {effect.without}"
        for effect in effects
        if effect.without
    ]
    return NothingViableError(
        f"every workflow fails a constraint ({fails})",
        "; ".join(["relax or remove a constraint of --require", *ways]),
    )


def machine_unfit(results: Results) -> MachineUnfitError:
    """Return the error of a run that is open because the machine was not fit to measure on."""
    visits, noise = results.visits, results.noise_floor or 0.0
    if trust.is_busy(results):
        reason = f"the machine was busy or throttled during {visits.unfit} of {visits.made} visits"
        next_step = "stop other work on this machine and measure again"
    else:
        difference = format_share(min(noise, 9.99))
        reason = f"the baseline and its duplicate may differ by {difference} or more"
        next_step = (
            "measure longer with --budget thorough, or on a machine whose processors nothing else "
            "uses"
        )
    return MachineUnfitError(
        f"No answer: {reason}, so the measured speeds do not decide", next_step
    )
