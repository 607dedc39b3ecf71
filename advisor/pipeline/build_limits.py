"""How long a build may take: it must be able to pay for itself, and the time for all builds together ends."""

from __future__ import annotations

from advisor import measure
from advisor.domain.outcome import TimedOut
from advisor.domain.question import Question
from advisor.domain.run_state import ProcessState, RunState
from advisor.pipeline.arms import controls, plan_of
from advisor.probing.supervisor import BuildLimit
from advisor.recommend.break_even import Cost, most_build_seconds

#: Times of the warm-up scatter, so those of the arms to compare with are taken for this much longer
#: than they are.
ALLOWANCE = 1.25
#: The seconds of a program that is not built yet: no program takes less.
NO_TIME = 0.0


def limit_build(state: RunState, arm: str, question: Question) -> BuildLimit | None:
    """Return the tighter of the two limits for the builds of `arm`, None where it may take as long as it likes."""
    if arm in controls(state):
        return None
    limits = [
        limit
        for limit in (find_payable(state, arm, question), time_left(state, question))
        if limit is not None
    ]
    return min(limits, key=lambda limit: limit.seconds, default=None)


def time_left(state: RunState, question: Question) -> BuildLimit | None:
    """Return what is left of the time for all builds together, None where they may take as long as they like."""
    if question.build_minutes is None:
        return None
    spent = sum(
        build_seconds(process) for processes in state.processes.values() for process in processes
    )
    reason = f"the {question.build_minutes:g} minutes for all builds together were over before it was built"
    fix = "allow more with --build-minutes, or name fewer workflows with --workflows"
    return BuildLimit(question.build_minutes * 60 - spent, reason, fix)


def build_seconds(process: ProcessState) -> float:
    """Return what the builds of a process have taken, that which it ended in included."""
    return (
        sum(built.build_seconds + built.first_call_seconds for built in process.built.values())
        + process.lost_build_seconds
    )


def leave_out(limit: BuildLimit) -> TimedOut:
    """Return what becomes of an arm whose turn came when nothing was left."""
    return TimedOut(phase="build", reason=limit.reason, fix=limit.fix)


def find_payable(state: RunState, arm: str, question: Question) -> BuildLimit | None:
    """Return the seconds beyond which the build of `arm` cannot be paid back within the requests that were asked for.

    By then an arm that is built already would have served all of them, even if the calls of `arm`
    took no time at all. None where no number of requests was given or nothing is built yet.
    """
    plan = plan_of(state)
    incumbents = [
        each.id for each in plan.arms if each.id != arm and measure.is_valid(state, each.id)
    ]
    built = [
        next(process for process in state.processes[each] if process.ready) for each in incumbents
    ]
    if question.requests is None or not built:
        return None
    seconds = max(
        min(
            most_build_seconds(cost_of(process, size), NO_TIME, question.requests)
            for process in built
        )
        for size in question.batch_sizes
    )
    why = "by then another arm has served all requests, even if the calls of this one took no time"
    reason = f"builds of more than {seconds:.3g} s cannot be paid back: {why}"
    return BuildLimit(
        seconds, reason, "ask for more with --requests, or leave it out to compare speeds alone"
    )


def cost_of(process: ProcessState, batch_size: int) -> Cost:
    """Return what an arm that has warmed up costs: its build for all batch sizes, and each request at one of them."""
    return Cost(
        build_seconds(process), ALLOWANCE * process.warm[batch_size].typical_seconds / batch_size
    )
