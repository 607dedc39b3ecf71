"""Which builds cannot pay for themselves any more: known while they go on, and without guessing how fast their program would be."""

from __future__ import annotations

from advisor import measure
from advisor.domain.question import Question
from advisor.domain.state import ProcessState, RunState
from advisor.horizon import Cost, most_build_seconds
from advisor.pipeline.racing import plan_of

#: Times of the warm-up scatter, so those of the arms to compare with are taken for this much longer than they are.
ALLOWANCE = 1.25
#: The seconds of a program that is not built yet: no program takes less.
NO_TIME = 0.0


def limit_build(state: RunState, arm: str, question: Question) -> float | None:
    """Return the seconds beyond which the build of `arm` cannot be paid back within the requests that were asked for.

    By then an arm that is built already would have served all of them, even if the calls of `arm` took no time at all. None where no
    number of requests was given, nothing is built yet, or the arm is needed whatever it costs.
    """
    plan = plan_of(state)
    needed = {plan.baseline.id, *(each.id for each in plan.arms if each.duplicate_of)}
    incumbents = [each.id for each in plan.arms if each.id != arm and measure.is_valid(state, each.id)]
    built = [next(process for process in state.processes[each] if process.ready) for each in incumbents]
    if question.requests is None or arm in needed or not built:
        return None
    return max(
        min(most_build_seconds(cost_of(process, size), NO_TIME, question.requests) for process in built) for size in question.batch_sizes
    )


def cost_of(process: ProcessState, batch_size: int) -> Cost:
    """Return what an arm that has warmed up costs: its build for all batch sizes, and each request at one of them."""
    build_seconds = sum(built.build_seconds + built.first_call_seconds for built in process.built.values())
    return Cost(build_seconds, ALLOWANCE * process.warm[batch_size].typical_seconds / batch_size)
