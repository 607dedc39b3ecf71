"""Which arms a run still has to measure."""

from __future__ import annotations

import collections

from advisor.domain.plan import Arm
from advisor.domain.question import Question
from advisor.domain.run_state import RunState
from advisor.pipeline.arms import controls, failed_arms, plan_of, raced_arms
from advisor.pipeline.replay import replay, results_by_batch_size


def needed_arms(state: RunState, question: Question) -> list[Arm]:
    """Return the arms that some race still has to visit, in the order of the plan."""
    plan = plan_of(state)
    failed = failed_arms(state)
    if plan.baseline.id in failed:
        return []
    needed: set[str] = set()
    for size in question.batch_sizes:
        if size in state.opened and size not in state.closed:
            needed |= set(replay(state, size, question).due)
        elif size not in state.opened:
            needed |= {arm.id for arm in plan.arms if arm.id not in failed}
    waiting = waiting_arms(state, question)
    if waiting:
        needed |= {*waiting, *retained(state, question)}
    # Who is in a race that has begun comes first: those that wait must not take the memory. Then
    # whoever has lacked it before.
    crowded_out = oom_beside_others(state)
    return sorted(
        (arm for arm in plan.arms if arm.id in needed),
        key=lambda arm: (arm.id in waiting, arm.id not in crowded_out),
    )


def waiting_arms(state: RunState, question: Question) -> set[str]:
    """Return the arms that no race has had yet, though there has been one: memory was short for them."""
    if not all(size in state.opened for size in question.batch_sizes):
        return set()
    return (
        {arm.id for arm in plan_of(state).arms if not arm.duplicate_of}
        - raced_arms(state)
        - (failed_arms(state) - oom_beside_others(state))
    )


def retained(state: RunState, question: Question) -> set[str]:
    """Return the arms that stay for the next group: the baseline with its duplicate, and the best so far."""
    return {*controls(state), *leaders_to_keep(state, question)} - failed_arms(state)


def leaders_to_keep(state: RunState, question: Question) -> list[str]:
    """Return the best so far of each batch size, who is it most often first, without those that had to make room; at least one."""
    counted = collections.Counter(
        result.best for result in results_by_batch_size(state, question).values()
    )
    bests = [arm for arm, _ in counted.most_common() if arm != plan_of(state).baseline.id]
    return [arm for arm in bests if state.processes[arm][-1].outcome is None] or bests[:1]


def oom_beside_others(state: RunState) -> set[str]:
    """Return the arms that ran out of memory beside more than the baseline, its duplicate and one best: with fewer they may fit."""
    always = controls(state)
    return {
        arm
        for arm, processes in state.processes.items()
        if processes and len(set(processes[-1].beside) - always) > 1
    }
