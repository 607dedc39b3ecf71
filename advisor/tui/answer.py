"""An answer as the screens show it: of a stored run, or of a file that `--json` wrote."""

from __future__ import annotations

import dataclasses

from advisor.decide.decision import decide_again
from advisor.domain.answer import Answer, RankedArm
from advisor.domain.catalogue import Catalogue
from advisor.domain.priorities import Priorities
from advisor.domain.recommendation import Recommendation
from advisor.domain.workflow import DEFAULT_OPTION, Workflow
from advisor.store.runs import Run


@dataclasses.dataclass(frozen=True)
class RunAnswer:
    """An answer with the catalogue that explains it."""

    document: Answer
    catalogue: Catalogue
    #: The run with its events and the logs of its arms; None for an answer from a file.
    run: Run | None = None

    @classmethod
    def of_file(cls, answer: Answer, catalogue: Catalogue) -> RunAnswer:
        """Decide again on the figures of a file; raise `ExportFileError` without any."""
        return cls(decide_again(answer, catalogue), catalogue.for_question(answer.question))

    def with_priorities(self, priorities: Priorities) -> RunAnswer:
        again = decide_again(self.document, self.catalogue, priorities=priorities)
        return dataclasses.replace(self, document=again)

    @property
    def recommendation(self) -> Recommendation | None:
        return self.document.recommendation

    @property
    def priorities(self) -> Priorities:
        return self.document.question.priorities

    @property
    def is_generation(self) -> bool:
        return self.document.question.task == "generate"

    @property
    def ranked(self) -> tuple[RankedArm, ...]:
        """The arms with a score, best first."""
        return self.document.ranked

    def ranked_arm(self, arm: str) -> RankedArm:
        return next(each for each in self.ranked if each.arm == arm)

    def workflow(self, arm: RankedArm) -> Workflow | None:
        """Return the workflow of an arm with the declared facts of the arm, None if unknown."""
        workflows = self.catalogue.workflows
        found = next((each for each in workflows if each.id == arm.scored.workflow), None)
        return found.for_arm(option_of(arm)) if found is not None else None


def option_of(arm: RankedArm) -> str:
    return arm.measured.option if arm.measured else DEFAULT_OPTION
