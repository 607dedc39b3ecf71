"""What a decision takes into account besides measurements and scores."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from advisor.domain.published import DecisionTree, Guideline
from advisor.domain.question import Budget
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
