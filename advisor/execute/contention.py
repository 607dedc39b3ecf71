"""Which arms need no build, because they cannot lead."""

from __future__ import annotations

from advisor.decide.potential import Potential, potential_of
from advisor.domain.answer import Answer
from advisor.domain.run import Header
from advisor.execute.build_queue import MORE_TIME
from probes.wire.outcome import Failure


def arms_that_cannot_lead(answer: Answer, header: Header) -> dict[str, Failure]:
    """Return the arms without a measurement that cannot score more than the advised arm.

    Each has the reason. None where the budget builds all arms, where the user named workflows, and
    while the decision is OPEN.
    """
    question, advice = header.question, answer.recommendation
    if (
        not question.budget.contenders_only
        or question.all_arms
        or question.workflows
        or answer.advised is None
        or advice is None
        or advice.certainty is None
        or advice.certainty.decision_word not in {"CLEAR", "LIKELY"}
    ):
        return {}
    advised = answer.advised.scored
    least = advised.score + advised.bonus + header.catalogue.rubric.decision.near
    found = {
        arm.arm: potential_of(arm, answer.results, header)
        for arm in answer.unmeasured
        if arm.option is not None and arm.status == "excluded"
    }
    return {
        arm: Failure("skipped", "build", _reason(each), MORE_TIME, skip_cause="cannot-lead")
        for arm, each in found.items()
        if each is not None and each.score <= least
    }


def _reason(found: Potential) -> str:
    most = f"not built: it would not lead even at {found.speedup:.2g}x"
    if found.gain is None:
        return most
    gain = f"at most {found.gain.largest:.2g}x as fast as {found.sibling}"
    return f"{most}; it was {gain} in {found.gain.runs} runs"
