"""Which servers can still lead. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from advisor.domain.question import LoadQuestion
from advisor.domain.run_state import ProcessState, RunState
from advisor.domain.serving import ServingRules
from advisor.measure.load_blocks import load_block, valid_blocks
from advisor.measure.serving import goodput_of_arm, has_failed_process
from probes.wire.events import ClosedLoop

#: A rate is certainly above the goodput if a smaller share of its requests met the limits.
SURELY_MISSED_SHARE = 0.5


def may_lead(state: RunState, arm: str, load: LoadQuestion, rules: ServingRules, seed: int) -> bool:
    """Return whether the arm's goodput can be the greatest one.

    It cannot where its interval is below another one, or where another goodput is far above all
    that the arm can reach.
    """
    plan = state.plan
    if rules.far_below == 0 or plan is None:
        return True
    others = [each.id for each in plan.arms if each.id != arm]
    goodputs = [
        goodput_of_arm(state, each, load, seed)
        for each in others
        if not has_failed_process(state, each)
    ]
    best = max((found.low for found in goodputs if found is not None), default=0.0)
    own = goodput_of_arm(state, arm, load, seed)
    reach = greatest_goodput(state.processes.get(arm, ()), load, rules.probe_gain)
    is_beaten = own is not None and own.high < best
    return not is_beaten and (reach is None or best <= rules.far_below * reach)


def greatest_goodput(
    processes: Sequence[ProcessState], load: LoadQuestion, gain: float
) -> float | None:
    """Return the least rate that the arm is known not to exceed; None if none is known."""
    capacities = [
        max(loop.rate for loop in process.closed_loops)
        for process in processes
        if is_saturated(process.closed_loops, gain)
    ]
    missed = [
        block.rate
        for block in (load_block(each, load) for each in valid_blocks(processes))
        if block.met < SURELY_MISSED_SHARE * block.total
    ]
    return min([*capacities, *missed], default=None)


def is_saturated(loops: Sequence[ClosedLoop], gain: float) -> bool:
    """Return whether more requests at once made the last loop hardly faster than those before."""
    *before, last = [loop.rate for loop in loops] or [0.0]
    return bool(before) and last < gain * max(before)
