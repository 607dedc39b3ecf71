"""A survey with real workers and fake workflows, and the findings that later runs reuse."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import builders
import msgspec
import pytest
import sessions

from advisor.context import Context
from advisor.domain.answer import Answer
from advisor.domain.outcome import (
    BuildFailed,
    Completed,
    Incorrect,
    ModelRefused,
    NotEngaged,
    Outcome,
)
from advisor.domain.plan import REFERENCE, Arm
from advisor.domain.run_events import ModelSurveyed, RunEvent, WorkerEnded
from advisor.pipeline import survey
from advisor.pipeline.decision import decide
from advisor.pipeline.draft import DraftRun, create, propose
from advisor.pipeline.execution import execute
from advisor.pipeline.stored import survey_findings
from advisor.question.answers import Answers
from advisor.store.runs import Run

ANSWERS = Answers(gpu="cpu", batch_sizes="1", budget="1", workflows="quick,misbehaving/falls-back")
#: Models of the panel that the survey tries.
MODELS = ("llama", "gpt2")


def new_run(context: Context, answers: Answers) -> Run:
    draft = propose(answers, context)
    models = tuple(model for model in draft.catalogue.panel.model if model.id in MODELS)
    panel = msgspec.structs.replace(draft.catalogue.panel, model=models)
    catalogue = msgspec.structs.replace(draft.catalogue, panel=panel)
    return create(DraftRun(catalogue, draft.machine, draft.question, draft.plan), context)


def findings_in(run: Run) -> list[ModelSurveyed]:
    return [event.run_event for event in run.events() if isinstance(event.run_event, ModelSurveyed)]


@pytest.fixture(scope="module")
def survey_run(module_context: Context) -> Run:
    """A run with a survey that was interrupted after its first finding and resumed."""
    run = new_run(module_context, msgspec.structs.replace(ANSWERS, survey=True))
    for event in execute(run, module_context):
        if isinstance(event.run_event, ModelSurveyed):
            break
    assert len(findings_in(run)) == 1
    sessions.exhaust(execute(run, module_context))
    return run


@pytest.fixture(scope="module")
def answer(survey_run: Run) -> Answer:
    return decide(survey_run)


def test_each_workflow_has_one_finding_on_each_model_despite_the_interruption(
    survey_run: Run,
) -> None:
    findings = [
        (finding.workflow, finding.model, finding.verdict) for finding in findings_in(survey_run)
    ]
    assert sorted(findings) == sorted(
        (workflow, model, verdict)
        for workflow, verdict in [
            ("pytorch-eager", "pass"),
            ("quick", "pass"),
            ("misbehaving", "fell-back"),
        ]
        for model in MODELS
    )


def test_findings_are_stored_before_the_run_is_finished(survey_run: Run) -> None:
    events = survey_run.events()
    last = [event for event in events if isinstance(event.run_event, ModelSurveyed)][-1]
    assert last.seq < events[-1].seq


def test_the_rating_of_a_surveyed_workflow_is_measured(answer: Answer) -> None:
    quick = next(arm for arm in answer.scores if arm.arm == "quick")
    assert quick.ratings["architecture_support"].evidence == "measured"


def test_the_users_own_model_counts_as_tried(answer: Answer) -> None:
    surveys = {entry.workflow: entry for entry in answer.results.surveys}
    assert (surveys["quick"].passed, surveys["quick"].tried) == (len(MODELS) + 1, len(MODELS) + 1)
    assert surveys["misbehaving"].models[-1].verdict == "fell-back"


def test_a_later_run_reuses_the_findings(survey_run: Run, module_context: Context) -> None:
    later = decide(new_run(module_context, ANSWERS))
    assert {entry.run for entry in later.results.surveys} == {survey_run.directory.name}


@pytest.mark.parametrize(
    ("changes", "is_comparable"),
    [
        ({}, True),
        ({"question": builders.question(batch_sizes=(64,))}, True),
        ({"question": builders.question(dtype="bfloat16")}, False),
        (
            {
                "machine": builders.machine(
                    software=builders.interpreter(packages={"torch": "2.13.0"})
                )
            },
            False,
        ),
        (
            {
                "machine": builders.machine(
                    cpu=msgspec.structs.replace(builders.machine().cpu, model="Another CPU")
                )
            },
            False,
        ),
    ],
)
def test_a_survey_applies_to_the_same_stack_precision_and_device(
    changes: dict[str, Any], *, is_comparable: bool
) -> None:
    one, two = builders.header(), builders.header(**changes)
    assert survey_findings._is_comparable(one, two) is is_comparable


class ScriptedSession:
    """Stands for a session; every arm ends with a given outcome."""

    def __init__(self, outcomes: dict[str, Outcome]) -> None:
        self.outcomes = outcomes

    def start_reference(self, _arm: Arm, _process: int) -> Iterator[RunEvent]:
        yield from self._end(REFERENCE)

    def start(self, _arms: object) -> Iterator[RunEvent]:
        return iter(())

    def build(self, arm: str) -> Iterator[RunEvent]:
        yield from self._end(arm)

    def stop(self) -> Iterator[RunEvent]:
        return iter(())

    def _end(self, arm: str) -> Iterator[RunEvent]:
        if arm in self.outcomes:
            yield WorkerEnded(arm=arm, process=0, outcome=self.outcomes[arm])


def try_model(**outcomes: Outcome) -> dict[str, str]:
    session, model = ScriptedSession(outcomes), builders.shipped_catalogue().panel.model[0]
    arms = [builders.arm(builders.BASELINE), builders.arm("compiled")]
    return {
        finding.workflow: finding.verdict
        for finding in survey._try_model(session, arms[0], arms, model)  # type: ignore[arg-type]
    }


def test_a_model_that_the_baseline_cannot_run_leaves_all_workflows_untried() -> None:
    verdicts = try_model(reference=ModelRefused(phase="load", reason="no such layer"))
    assert verdicts == {builders.BASELINE: "untried", "compiled": "untried"}


def test_a_worker_without_an_outcome_has_failed() -> None:
    assert try_model(reference=Completed()) == {builders.BASELINE: "pass", "compiled": "failed"}


@pytest.mark.parametrize(
    ("outcome", "verdict"),
    [
        (Completed(), "pass"),
        (Incorrect(phase="correctness", reason="far off"), "wrong"),
        (NotEngaged(phase="correctness", reason="eager code ran"), "fell-back"),
        (BuildFailed(phase="build", reason="no such operator"), "failed"),
    ],
)
def test_each_outcome_has_its_verdict(outcome: Outcome, verdict: str) -> None:
    assert try_model(reference=Completed(), compiled=outcome) == {
        builders.BASELINE: "pass",
        "compiled": verdict,
    }
