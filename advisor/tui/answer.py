"""A decided run as the screens show it: a stored run, or a run document that `--json` printed."""

from __future__ import annotations

import dataclasses

from advisor.domain.catalogue import Catalogue
from advisor.domain.priorities import Priorities
from advisor.domain.recommendation import Recommendation
from advisor.domain.workflow import Workflow
from advisor.pipeline.decision import Decision, rescore
from advisor.report.documents import reopened
from advisor.report.documents.document import RunDocument
from advisor.report.documents.measured_document import compose
from advisor.report.documents.workflow_entry import WorkflowEntry
from advisor.store.runs import Run


@dataclasses.dataclass(frozen=True)
class RunAnswer:
    """The document of a run with the catalogue that explains it."""

    document: RunDocument
    catalogue: Catalogue
    #: The decision that the document was composed from, with the single times; None for a document
    #: from a file.
    decision: Decision | None = None
    #: The run of the decision, with the logs of its arms.
    run: Run | None = None

    @classmethod
    def of_decision(cls, decision: Decision, run: Run | None = None) -> RunAnswer:
        return cls(compose(decision), decision.header.catalogue, decision, run)

    @classmethod
    def of_document(cls, document: RunDocument, catalogue: Catalogue) -> RunAnswer:
        """Decide again on the figures of a document; raise `ExportFileError` without any."""
        return cls(
            reopened.decide_again(document, catalogue),
            catalogue.for_question(document.question),
        )

    def with_priorities(self, priorities: Priorities) -> RunAnswer:
        """Return the answer for other priorities, from the same figures."""
        if self.decision is not None:
            constraints = self.decision.header.question.constraints
            rescored = rescore(self.decision, priorities, constraints)
            return RunAnswer.of_decision(rescored, self.run)
        return dataclasses.replace(
            self,
            document=reopened.decide_again(self.document, self.catalogue, priorities=priorities),
        )

    @property
    def recommendation(self) -> Recommendation | None:
        return self.document.recommendation

    @property
    def priorities(self) -> Priorities:
        return self.document.question.priorities

    @property
    def is_generation(self) -> bool:
        """Whether calls generate text."""
        return self.document.question.task == "generate"

    @property
    def ranked(self) -> tuple[WorkflowEntry, ...]:
        """The measured arms, best first."""
        entries = [entry for entry in self.document.workflows if entry.rank is not None]
        return tuple(sorted(entries, key=lambda entry: entry.rank or 0))

    def entry(self, arm: str) -> WorkflowEntry:
        """Return the entry of an arm."""
        return next(entry for entry in self.document.workflows if entry.arm == arm)

    def workflow(self, entry: WorkflowEntry) -> Workflow | None:
        """Return the workflow of an entry with the declared facts of its arm, None if unknown."""
        found = next((each for each in self.catalogue.workflows if each.id == entry.id), None)
        return found.for_arm(entry.options or "default") if found is not None else None
