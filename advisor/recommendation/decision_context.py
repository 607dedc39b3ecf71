"""What a decision takes into account besides measurements and scores."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from advisor.domain.published import DecisionTree, Guideline
from advisor.domain.question import Budget, Question
from advisor.domain.results import Results
from advisor.domain.rubric import Rubric
from advisor.domain.scores import ScoredArm
from advisor.domain.workflow import Workflow


@dataclasses.dataclass(frozen=True)
class DecisionContext:
    """What the catalogue and the machine add to the scores."""

    rubric: Rubric
    #: Scores of every arm at one batch size alone, best first, by batch size.
    by_batch_size: dict[int, tuple[ScoredArm, ...]] = dataclasses.field(default_factory=dict)
    guidelines: Sequence[Guideline] = ()
    tree: DecisionTree | None = None
    workflows: Sequence[Workflow] = ()
    #: Budgets that a further run can have.
    budgets: Sequence[Budget] = ()
    #: Memory of the GPU; None where the model runs on the CPU.
    device_bytes: int | None = None
    #: What the headline is about: `demo on AMD EPYC, 2 cores`.
    subject: str = ""

    def next_budget(self, results: Results, question: Question, needed: int) -> Budget | None:
        """Return the shortest budget that repeats the leaders `needed` times more than this run.

        If no budget does, return the one with most repetitions, unless this run made as many. A
        budget that made fewer than it may, as with servers, is not named again.
        """
        made = max(results.repeats, question.budget.repeats)
        more = [each for each in self.budgets if each.repeated != "all" and each.repeats > made]
        enough = [each for each in more if each.repeats >= made + needed]
        if enough:
            return min(enough, key=lambda budget: budget.measuring_seconds)
        return max(more, key=lambda budget: budget.repeats, default=None)
