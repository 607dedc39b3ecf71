"""Which models each workflow supports, from the events of this run and of stored surveys."""

from __future__ import annotations

import contextlib
from typing import Literal

import msgspec

from advisor.domain.artefacts import varying_sibling
from advisor.domain.outcome import (
    Completed,
    Failure,
    Incorrect,
    Nondeterministic,
    NotEngaged,
    Outcome,
)
from advisor.domain.plan import Arm, Plan
from advisor.domain.question import Question
from advisor.domain.run import Header
from advisor.domain.run_events import ModelSurveyed
from advisor.domain.run_state import RunState
from advisor.errors import RunFileError
from advisor.measure.rounds import is_valid
from advisor.pipeline.stored.arms import plan_of
from advisor.store.runs import Run
from advisor.store.store import Store

SurveyVerdict = Literal["pass", "wrong", "failed", "fell-back", "untried"]

#: `family` of the user's own model in a finding.
OWN_MODEL_FAMILY = "your own"


def one_arm_per_workflow(plan: Plan) -> list[Arm]:
    """Return the first arm of each workflow.

    The options of an arm do not decide which models a workflow supports.
    """
    first: dict[str, Arm] = {}
    for arm in plan.arms:
        first.setdefault(arm.workflow, arm)
    return list(first.values())


def verdict_of(outcome: Outcome | None) -> tuple[SurveyVerdict, str | None]:
    """Return the verdict for the outcome of a worker, and the reason if it is not a pass."""
    if isinstance(outcome, Completed):
        return "pass", None
    if isinstance(outcome, (Incorrect, Nondeterministic)):
        return "wrong", outcome.reason
    if isinstance(outcome, NotEngaged):
        return "fell-back", outcome.reason
    return "failed", outcome.reason if isinstance(outcome, Failure) else "its worker gave no answer"


def collect_findings(state: RunState, question: Question) -> tuple[ModelSurveyed, ...]:
    """Return the findings on the panel and on the user's own model; none without a survey.

    Findings of this run take precedence over recalled ones. The run itself has tried the user's
    own model.
    """
    if not state.surveyed:
        return ()
    fresh = tuple(finding for finding in state.surveyed if finding.run is None)
    return (*(fresh or state.surveyed), *_own_model_findings(state, question))


def _own_model_findings(state: RunState, question: Question) -> list[ModelSurveyed]:
    findings = []
    for arm in one_arm_per_workflow(plan_of(state)):
        outcomes = [
            process.outcome
            for process in state.processes.get(arm.id, ())
            if process.outcome is not None
        ]
        if outcomes:
            last_failure = next(
                (outcome for outcome in reversed(outcomes) if not isinstance(outcome, Completed)),
                outcomes[-1],
            )
            verdict, reason = verdict_of(last_failure)
            if is_valid(state, arm.id):
                verdict, reason = "pass", None
            elif (sibling := varying_sibling(state, arm.id)) is not None:
                verdict, reason = (
                    "wrong",
                    f"its artefact is that of {sibling}, which varies",
                )
            findings.append(
                ModelSurveyed(
                    workflow=arm.workflow,
                    model=question.model.name,
                    family=OWN_MODEL_FAMILY,
                    verdict=verdict,
                    reason=reason,
                )
            )
    return findings


def find_comparable_survey(store: Store, header: Header) -> tuple[ModelSurveyed, ...]:
    """Return the findings of the newest stored survey that applies to the run of `header`.

    It has the same stack, precision and device. Unreadable runs are skipped.
    """
    for run, other in store.finished_runs():
        if (
            other.run_id == header.run_id
            or not other.question.survey
            or not _is_comparable(other, header)
        ):
            continue
        with contextlib.suppress(RunFileError):
            if findings := _own_findings(run):
                return tuple(
                    msgspec.structs.replace(finding, run=other.run_id) for finding in findings
                )
    return ()


def _own_findings(run: Run) -> list[ModelSurveyed]:
    """Return the findings of the run itself, without those it has recalled."""
    return [
        event.run_event
        for event in run.events()
        if isinstance(event.run_event, ModelSurveyed) and event.run_event.run is None
    ]


def _is_comparable(one: Header, two: Header) -> bool:
    software, other = one.machine.software, two.machine.software
    is_same_stack = (software.packages, software.torch_cuda) == (other.packages, other.torch_cuda)
    return is_same_stack and one.device == two.device and one.question.dtype == two.question.dtype
