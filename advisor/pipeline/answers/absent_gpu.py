"""Answer for a GPU that is not attached: from an imported run, else from published figures."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from advisor.context import Context
from advisor.domain.answer import Answer
from advisor.errors import GpuNotAttachedError, UnknownGpuError, UserError
from advisor.pipeline.answers import imported_answer, published_answer
from advisor.pipeline.draft import DraftRun
from advisor.question.answers import Answers, command_of


def draft_or_answer(
    answers: Answers, context: Context, draft: Callable[[], DraftRun]
) -> DraftRun | Answer:
    """Return what `draft` returns, or the answer without a measurement for an absent GPU."""
    try:
        return draft()
    except (GpuNotAttachedError, UnknownGpuError) as absent:
        return answer_without_measurement(answers, context, absent)


def answer_without_measurement(answers: Answers, context: Context, absent: UserError) -> Answer:
    """Return an answer without a measurement on this machine.

    Raise `absent` if there is neither an imported run nor a published figure.
    """
    found = imported_answer.find_answer(answers, context) or published_answer.answer_from_figures(
        answers, context, absent
    )
    return msgspec.structs.replace(found, rerun_command=command_of(answers))
