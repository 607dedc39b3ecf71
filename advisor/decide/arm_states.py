"""Classify the arms of a run: failed, raced, controls of every race, order by speed."""

from __future__ import annotations

from collections.abc import Mapping

from advisor.decide.rounds import is_valid, mean_log_speedups
from advisor.domain.plan import Plan
from advisor.domain.results import RaceResult
from advisor.domain.run_state import RunState, varying_sibling
from probes.wire.shape import Shape


def failed_arms(state: RunState) -> set[str]:
    """Return the arms that have ended, or share an artefact that varies, without valid times."""
    return {
        arm
        for arm in state.processes
        if (any(process.outcome for process in state.processes[arm]) and not is_valid(state, arm))
        or varying_sibling(state, arm) is not None
    }


def raced_arms(state: RunState) -> set[str]:
    """Return the arms that entered a race at any batch size."""
    return {arm for groups in state.groups.values() for group in groups for arm in group.arms}


def controls(state: RunState) -> set[str]:
    """Return the baseline and its duplicate, which every race group contains.

    Speedups refer to the baseline; the duplicate gives the noise floor.
    """
    plan = plan_of(state)
    return {plan.baseline.id, *(arm.id for arm in plan.arms if arm.duplicate_of)}


def arms_by_speed(races: Mapping[Shape, RaceResult], state: RunState, shape: Shape) -> list[str]:
    """Return the arms with valid measurements at a batch size, fastest first.

    The best arm and the arms tied or unresolved with it come before the eliminated arms.
    """
    race = races.get(shape)
    if race is None:
        return []
    speedups = mean_log_speedups(state, shape)
    ahead = [race.best, *(arm for arm in (*race.tied, *race.unresolved) if arm != race.best)]
    return [
        *ahead,
        *sorted((arm for arm in speedups if arm not in ahead), key=lambda arm: -speedups[arm]),
    ]


def arms_built_before(state: RunState) -> set[str]:
    """Return the arms whose caches hold a finished build."""
    return {
        arm
        for arm, processes in state.processes.items()
        if any(process.ready for process in processes)
    }


def next_process_number(state: RunState, arm: str) -> int:
    """Return the number of the next process of the arm; the first one has 0."""
    return len(state.processes.get(arm, ()))


def plan_of(state: RunState) -> Plan:
    """Return the plan, which is the first event of every stored run."""
    if state.plan is None:
        message = "the run has no plan"
        raise ValueError(message)
    return state.plan
