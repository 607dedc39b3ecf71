"""How long a build may take: it must be able to pay for itself, and the time for all builds together ends."""

from __future__ import annotations

import dataclasses

from advisor import measure
from advisor.domain.outcome import TimedOut
from advisor.domain.question import Question
from advisor.domain.state import ProcessState, RunState
from advisor.horizon import Cost, most_build_seconds
from advisor.pipeline.racing import plan_of
from advisor.probing.launch import BuildLimit

#: Times of the warm-up scatter, so those of the arms to compare with are taken for this much longer than they are.
ALLOWANCE = 1.25
#: The seconds of a program that is not built yet: no program takes less.
NO_TIME = 0.0


@dataclasses.dataclass(frozen=True)
class BuildTime:
    """The time for all builds of a run together: minutes, and when they began, in seconds of the run."""

    minutes: float | None
    begun: float

    def left(self, state: RunState) -> BuildLimit | None:
        """Return what is left of it, None where builds may take as long as they like."""
        if self.minutes is None:
            return None
        reason = f"the {self.minutes:g} minutes for all builds together were over before it was built"
        fix = "allow more with --build-minutes, or name fewer workflows with --workflows"
        return BuildLimit(self.begun + self.minutes * 60 - state.at, reason, fix)


def limit_build(state: RunState, arm: str, question: Question, time: BuildTime) -> BuildLimit | None:
    """Return the tighter of the two limits for the builds of `arm`, None where it may take as long as it likes."""
    if arm in needed_arms(state):
        return None
    limits = [limit for limit in (find_payable(state, arm, question), time.left(state)) if limit is not None]
    return min(limits, key=lambda limit: limit.seconds, default=None)


def leave_out(limit: BuildLimit) -> TimedOut:
    """Return what becomes of an arm whose turn came when nothing was left."""
    return TimedOut(phase="build", reason=limit.reason, fix=limit.fix)


def needed_arms(state: RunState) -> set[str]:
    """Return the arms without which nothing can be said: the baseline and its duplicates."""
    plan = plan_of(state)
    return {plan.baseline.id, *(arm.id for arm in plan.arms if arm.duplicate_of)}


def find_payable(state: RunState, arm: str, question: Question) -> BuildLimit | None:
    """Return the seconds beyond which the build of `arm` cannot be paid back within the requests that were asked for.

    By then an arm that is built already would have served all of them, even if the calls of `arm` took no time at all. None where no
    number of requests was given or nothing is built yet.
    """
    plan = plan_of(state)
    incumbents = [each.id for each in plan.arms if each.id != arm and measure.is_valid(state, each.id)]
    built = [next(process for process in state.processes[each] if process.ready) for each in incumbents]
    if question.requests is None or not built:
        return None
    seconds = max(
        min(most_build_seconds(cost_of(process, size), NO_TIME, question.requests) for process in built) for size in question.batch_sizes
    )
    why = "by then another arm has served all requests, even if the calls of this one took no time"
    reason = f"builds of more than {seconds:.3g} s cannot be paid back: {why}"
    return BuildLimit(seconds, reason, "ask for more with --requests, or leave it out to compare speeds alone")


def cost_of(process: ProcessState, batch_size: int) -> Cost:
    """Return what an arm that has warmed up costs: its build for all batch sizes, and each request at one of them."""
    build_seconds = sum(built.build_seconds + built.first_call_seconds for built in process.built.values())
    return Cost(build_seconds, ALLOWANCE * process.warm[batch_size].typical_seconds / batch_size)
