"""Answer for a GPU that is not attached: from an imported run, else from published figures."""

from __future__ import annotations

from collections.abc import Callable

from advisor.context import Context
from advisor.errors import GpuNotAttachedError, UnknownGpuError, UserError
from advisor.pipeline.answers import imported_answer, published_answer
from advisor.pipeline.draft import DraftRun
from advisor.question.answers import Answers, command_of
from advisor.report.documents import imported_document, published_document
from advisor.report.documents.document import RunDocument


def draft_or_answer(
    answers: Answers, context: Context, draft: Callable[[], DraftRun]
) -> DraftRun | RunDocument:
    """Return what `draft` returns, or the answer without a measurement for an absent GPU."""
    try:
        return draft()
    except (GpuNotAttachedError, UnknownGpuError) as absent:
        return answer(answers, context, absent)


def answer(answers: Answers, context: Context, absent: UserError) -> RunDocument:
    """Return the document of an answer without a measurement on this machine.

    Raise `absent` if there is neither an imported run nor a published figure.
    """
    rerun_command = command_of(answers)
    found = imported_answer.find_answer(answers, context)
    if found:
        return imported_document.compose(found, rerun_command)
    published = published_answer.answer_from_figures(answers, context, absent)
    return published_document.compose(published, rerun_command)
