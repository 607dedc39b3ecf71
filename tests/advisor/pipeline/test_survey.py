"""A survey with real workers and pretend workflows: what it finds, and that it is neither made twice nor forgotten."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import builders
import msgspec
import pytest

from advisor.context import Context
from advisor.domain.outcome import (
    BuildFailed,
    Completed,
    Incorrect,
    ModelRefused,
    NotEngaged,
    Outcome,
)
from advisor.domain.plan import REFERENCE, Arm
from advisor.domain.run_events import Ended, RunEvent, Surveyed
from advisor.pipeline import survey as surveying
from advisor.pipeline.decision import decide
from advisor.pipeline.draft import DraftRun, create, propose
from advisor.pipeline.execution import execute
from advisor.question.answers import Answers
from advisor.store import Run

ANSWERS = Answers(gpu="cpu", batch_sizes="1", budget="1", workflows="quick,misbehaving/falls-back")


def run_of(world: Context, answers: Answers, models: int = 2) -> Run:
    proposal = propose(answers, world)
    panel = msgspec.structs.replace(
        proposal.catalogue.panel, model=proposal.catalogue.panel.model[:models]
    )
    known = msgspec.structs.replace(proposal.catalogue, panel=panel)
    return create(DraftRun(known, proposal.machine, proposal.question, proposal.plan), world)


def surveyed(run: Run) -> list[Surveyed]:
    return [event.run_event for event in run.events() if isinstance(event.run_event, Surveyed)]


def test_a_survey_is_stored_counts_as_measured_and_is_recalled(
    fake_world: Callable[[], Context],
) -> None:
    world = fake_world()
    run = run_of(world, msgspec.structs.replace(ANSWERS, survey=True))
    events = list(execute(run, world))
    found = {(finding.workflow, finding.model): finding.verdict for finding in surveyed(run)}
    assert found == {
        (workflow, model): verdict
        for workflow, verdict in [
            ("pytorch-eager", "pass"),
            ("quick", "pass"),
            ("misbehaving", "fell-back"),
        ]
        for model in ("llama", "gpt2")
    }
    decision = decide(run)
    quick = next(arm for arm in decision.scored if arm.arm == "quick")
    assert quick.ratings["architecture_support"].evidence == "measured"
    surveys = {survey.workflow: survey for survey in decision.results.surveys}
    assert (surveys["quick"].passed, surveys["quick"].tried) == (3, 3), (
        "two of the panel and the user's own"
    )
    assert surveys["misbehaving"].models[-1].verdict == "fell-back"
    assert [event for event in events if isinstance(event.run_event, Surveyed)][-1].seq < events[
        -1
    ].seq

    later = decide(run_of(world, ANSWERS))
    assert {survey.run for survey in later.results.surveys} == {run.directory.name}


@pytest.mark.parametrize(
    ("changes", "same"),
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
def test_a_survey_holds_for_the_same_stack_precision_and_device(
    changes: dict[str, Any], same: bool
) -> None:
    assert surveying._is_comparable(builders.header(), builders.header(**changes)) == same


class Scripted:
    """Stands for a session: every arm ends as it is told."""

    def __init__(self, ends: dict[str, Outcome]) -> None:
        self.ends = ends

    def make_reference(self, _arm: Arm, _process: int) -> Iterator[RunEvent]:
        yield from self._end(REFERENCE)

    def start(self, _arms: object) -> Iterator[RunEvent]:
        return iter(())

    def build(self, arm: str) -> Iterator[RunEvent]:
        yield from self._end(arm)

    def stop(self) -> Iterator[RunEvent]:
        return iter(())

    def _end(self, arm: str) -> Iterator[RunEvent]:
        if arm in self.ends:
            yield Ended(arm=arm, process=0, outcome=self.ends[arm])


def try_model(**ends: Outcome) -> dict[str, str]:
    session, model = Scripted(ends), builders.shipped_catalogue().panel.model[0]
    arms = [builders.arm(builders.BASELINE), builders.arm("compiled")]
    return {
        finding.workflow: finding.verdict
        for finding in surveying._try_model(session, arms[0], arms, model)  # type: ignore[arg-type]
    }


def test_a_model_that_eager_cannot_run_says_nothing_about_the_others() -> None:
    verdicts = try_model(reference=ModelRefused(phase="load", reason="no such layer"))
    assert verdicts == {builders.BASELINE: "untried", "compiled": "untried"}


def test_a_worker_without_an_answer_has_failed() -> None:
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
def test_each_end_has_its_word(outcome: Outcome, verdict: str) -> None:
    assert try_model(reference=Completed(), compiled=outcome) == {
        builders.BASELINE: "pass",
        "compiled": verdict,
    }


def test_what_was_surveyed_before_an_interruption_is_not_tried_again(
    fake_world: Callable[[], Context],
) -> None:
    world = fake_world()
    run = run_of(world, msgspec.structs.replace(ANSWERS, survey=True, workflows="quick"), models=1)
    for event in execute(run, world):
        if isinstance(event.run_event, Surveyed):
            break
    known = surveyed(run)
    for _ in execute(run, world):
        pass
    assert len(known) == 1
    assert [(finding.workflow, finding.model) for finding in surveyed(run)] == [
        ("pytorch-eager", "llama"),
        ("quick", "llama"),
    ]
