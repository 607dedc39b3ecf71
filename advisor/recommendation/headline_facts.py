"""The values that the lines of the headline are written from. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from advisor.domain.check_events import Checked
from advisor.domain.interval import Interval
from advisor.domain.priorities import Priorities
from advisor.domain.question import Budget, WeightFormat
from advisor.domain.recommendation import BatchAdvice, Flip, HorizonBest
from advisor.domain.scores import ScoredArm
from advisor.domain.workflow import Workflow
from advisor.recommendation.certainty import Certainty


@dataclasses.dataclass(frozen=True)
class HeadlineFacts:
    """The decision with what its lines name."""

    advised: ScoredArm
    speedup: Interval
    #: Whether the interval of the speed-up has what differs between processes.
    has_process_differences: bool
    baseline: str
    certainty: Certainty
    indifference: float
    arms: Mapping[str, ScoredArm]
    titles: Mapping[str, str]
    flips: Sequence[Flip]
    priorities: Priorities
    by_batch_size: Sequence[BatchAdvice]
    subject: str
    #: The outputs of the advised arm by batch size, and the best arms whose outputs are exact.
    checks: Sequence[Checked] = ()
    best_exact: Sequence[str] = ()
    #: The largest error of the outputs by arm; 0 if all are exact, infinite if it is not known.
    errors: Mapping[str, float] = dataclasses.field(default_factory=dict)
    #: The format of the advised arm's quantised weights, and the best arms without such weights.
    weights: WeightFormat | None = None
    best_native: Sequence[str] = ()
    has_random_weights: bool = False
    #: Largest difference between two equal workers; None if it is not known.
    noise_floor: float | None = None
    #: The arm that serves the stated number of requests first, by batch size; empty without one.
    first_to_finish: Sequence[HorizonBest] = ()
    #: About a server under load; empty for other tasks.
    load_lines: tuple[str, ...] = ()
    #: Completed repetitions in fresh processes, and the budget of a further run that makes those
    #: which would settle the decision, or most of them.
    repeats: int = 0
    next_budget: Budget | None = None
    #: The number of builds that were left out for time, and the options that limit builds.
    builds_left_out: int = 0
    build_limits: Sequence[str] = ()
    #: What the shapes of the inputs are called where they have no batch dimension; else empty.
    own_shapes: str = ""


def arm_titles(arms: Sequence[ScoredArm], workflows: Sequence[Workflow]) -> dict[str, str]:
    """Return what to call each arm; its id if its workflow is not known."""
    known = {workflow.id: workflow for workflow in workflows}
    return {
        arm.arm: known[arm.workflow].title_of(arm.arm) if arm.workflow in known else arm.arm
        for arm in arms
    }


def join_names(names: Sequence[str], conjunction: str = "and") -> str:
    """Return the names as a list, with semicolons where a name has a comma."""
    *others, last = names
    if not others:
        return last
    if len(others) > 1 and any("," in name for name in names):
        return f"{'; '.join(others)}; {conjunction} {last}"
    return f"{', '.join(others)} {conjunction} {last}"
