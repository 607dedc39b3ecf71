"""Whether the answers ask for a GPU that is not here, and what is known of it then."""

from __future__ import annotations

from collections.abc import Callable

from advisor.context import Context
from advisor.errors import GpuNotAttachedError, UnknownGpuError, UserError
from advisor.pipeline import imported_answer, published_answer
from advisor.pipeline.draft import DraftRun
from advisor.question.answers import Answers, command_of
from advisor.report import imported as origin
from advisor.report import published
from advisor.report.document import RunDocument


def propose_or_answer(
    answers: Answers, world: Context, make_proposal: Callable[[], DraftRun]
) -> DraftRun | RunDocument:
    """Make the plan; for a GPU that is not attached return what a stored run from one says, else what published figures say."""
    try:
        return make_proposal()
    except (GpuNotAttachedError, UnknownGpuError) as absent:
        return _answer(answers, world, absent)


def _answer(answers: Answers, world: Context, absent: UserError) -> RunDocument:
    found = imported_answer.answer(answers, world)
    again = command_of(answers)
    return (
        origin.compose(found, again)
        if found
        else published.compose(published_answer.answer(answers, world, absent), again)
    )
