"""The JSON document of a run and its composition from a decision."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import builders
import jsonschema
import msgspec
import pytest
from advisor.recommendation.decision_context import DecisionContext
from advisor.report.documents import document, measured_document, workflow_entry
from advisor.report.documents.document import RunDocument
from advisor.report.documents.workflow_entry import WorkflowEntry
from builders import BASELINE

from advisor import schemas
from advisor.domain.constraints import Constraint, FailedConstraint
from advisor.domain.outcome import (
    BuildFailed,
    Completed,
    Crashed,
    Failure,
    Incorrect,
    ModelRefused,
    NotEngaged,
    OutOfMemory,
    Skipped,
    TimedOut,
    Unsupported,
)
from advisor.domain.priorities import CRITERIA
from advisor.errors import NothingViableError
from advisor.recommendation.recommend import recommend
from advisor.score import scoring

FAILURES: Mapping[str, Failure] = {
    "unsupported": Unsupported(phase="build", reason="r"),
    "build-failed": BuildFailed(phase="build", reason="r"),
    "incorrect": Incorrect(phase="correctness", reason="r"),
    "not-engaged": NotEngaged(phase="warmup", reason="r"),
    "out-of-memory": OutOfMemory(phase="build", reason="r"),
    "timed-out": TimedOut(phase="build", reason="r"),
    "crashed": Crashed(phase="build", signal=None, reason="r"),
    "skipped": Skipped(phase="build", reason="r"),
}


def entry_of(composed: RunDocument, arm: str) -> WorkflowEntry:
    (entry,) = (entry for entry in composed.workflows if entry.arm == arm)
    return entry


def compose(**changes: Any) -> RunDocument:
    return measured_document.compose(builders.decision(**changes))


def test_arms_are_sorted_by_rank_and_unmeasured_workflows_follow() -> None:
    composed = builders.document()
    assert [(entry.arm, entry.status, entry.rank) for entry in composed.workflows] == [
        ("compiled", "completed", 1),
        (BASELINE, "completed", 2),
        ("broken", "crashed", None),
        ("absent", "not-installed", None),
    ]


def test_a_measured_arm_has_its_figures_and_scores() -> None:
    entry = entry_of(builders.document(), "compiled")
    assert (entry.id, entry.options, entry.evidence, entry.engaged_share) == (
        "compiled",
        "default",
        "measured",
        1.0,
    )
    assert entry.speedup is not None
    assert entry.speedup.value == pytest.approx(4)
    assert [cell.batch_size for cell in entry.cells] == [1]
    assert entry.scores is not None
    assert tuple(entry.scores) == CRITERIA
    assert entry.scores["performance"].tier == 3
    assert entry.correctness is not None
    assert (entry.correctness.verdict, entry.correctness.reference) == (
        "equivalent",
        "float64 on the CPU",
    )
    assert entry.reason is None


def test_the_requirements_of_the_next_tier_are_listed_or_null() -> None:
    scores = entry_of(builders.document(), BASELINE).scores
    assert scores is not None
    missing = scores["performance"].to_next
    assert missing is not None
    assert [(distance.fact, distance.tier, distance.threshold) for distance in missing] == [
        ("speedup", 2, ">= 1.05")
    ]
    assert scores["portability"].to_next is None


def test_a_failed_arm_has_its_reason_and_fix_and_no_figures() -> None:
    entry = entry_of(builders.document(), "broken")
    assert (entry.reason, entry.fix) == ("it crashed", "update it")
    assert (entry.score, entry.rank, entry.speedup, entry.scores, entry.cells) == (
        None,
        None,
        None,
        None,
        (),
    )


def test_an_excluded_workflow_has_its_reason_and_fix() -> None:
    entry = entry_of(builders.document(), "absent")
    assert (entry.id, entry.options, entry.reason, entry.fix) == (
        "absent",
        None,
        "its environment has not been made",
        "make it",
    )


def test_the_last_failure_of_an_arm_counts() -> None:
    decided = builders.decision()
    failed = [
        builders.process(ready=False, outcome=failure)
        for failure in (FAILURES["crashed"], FAILURES["timed-out"])
    ]
    state = msgspec.structs.replace(
        decided.state, processes={**decided.state.processes, "broken": tuple(failed)}
    )
    assert entry_of(compose(state=state), "broken").status == "timed-out"


@pytest.mark.parametrize("ends", [(), (None,), (Completed(),)])
def test_an_arm_that_was_not_reached_has_the_command_that_resumes_the_run(
    ends: tuple[Completed | None, ...],
) -> None:
    decided = builders.decision()
    processes = {
        **decided.state.processes,
        "broken": tuple(builders.process(ready=False, outcome=end) for end in ends),
    }
    entry = entry_of(
        compose(state=msgspec.structs.replace(decided.state, processes=processes)), "broken"
    )
    assert (entry.status, entry.fix) == ("excluded", f"p3-advisor resume {decided.header.run_id}")
    assert entry.reason


def test_an_unreached_arm_of_an_imported_run_has_no_command() -> None:
    decided = builders.decision()
    state = msgspec.structs.replace(
        decided.state, processes={**decided.state.processes, "broken": ()}
    )
    header = msgspec.structs.replace(decided.header, imported=True)
    assert entry_of(compose(state=state, header=header), "broken").fix is None


@pytest.mark.parametrize("status", FAILURES)
def test_every_failure_has_a_status(status: str) -> None:
    assert workflow_entry.status_of(FAILURES[status]) == status


def test_a_refused_model_counts_as_a_failed_build() -> None:
    assert workflow_entry.status_of(ModelRefused(phase="load", reason="r")) == "build-failed"


def test_each_arm_has_the_places_where_its_workflow_was_verified() -> None:
    composed = builders.document()
    assert entry_of(composed, "compiled").verified == ("cpu 2026-11",)
    assert entry_of(composed, BASELINE).verified == ()


def test_the_race_is_summarised_over_the_batch_sizes() -> None:
    decided = builders.decision()
    races = (builders.race_result(1, rounds=4), builders.race_result(4, rounds=9))
    composed = compose(
        results=msgspec.structs.replace(decided.results, races=races, noise_floor=0.02)
    )
    assert composed.race is not None
    assert (composed.race.rounds, composed.race.noise_floor, composed.race.by_batch_size) == (
        9,
        0.02,
        races,
    )
    assert decided.recommendation is not None
    assert composed.race.verdict == decided.recommendation.verdict


def test_without_a_race_there_is_no_race() -> None:
    decided = builders.decision()
    assert compose(results=msgspec.structs.replace(decided.results, races=())).race is None


def test_without_a_recommendation_the_document_has_the_problem() -> None:
    composed = compose(
        recommendation=None, problem=NothingViableError("everything failed", "ask for less")
    )
    assert composed.recommendation is None
    assert composed.problem == document.Problem(
        name="nothing-viable", what="everything failed", next_step="ask for less"
    )
    assert composed.race is not None
    assert composed.race.verdict == "INCONCLUSIVE"


def test_a_run_that_has_not_been_planned_has_a_document() -> None:
    bare = builders.results(races=(), noise_floor=None)
    composed = compose(
        state=builders.run_state({}, plan=None),
        results=bare,
        scored=(),
        recommendation=None,
        problem=NothingViableError("nothing yet", "wait"),
    )
    assert (composed.workflows, composed.race, composed.finished) == ((), None, False)


FAILED = FailedConstraint(
    index=0, constraint=Constraint(criterion="speedup", at_least=9.0), value=1.5
)


def test_an_arm_that_fails_a_constraint_has_the_reason() -> None:
    decided = builders.decision()
    barred = scoring.rank(
        [
            msgspec.structs.replace(arm, failures=(FAILED,) if arm.arm == "compiled" else ())
            for arm in decided.scored
        ]
    )
    rubric = decided.header.catalogue.rubric
    advice = recommend(
        decided.results,
        barred,
        decided.header.question,
        [],
        DecisionContext(rubric=rubric),
    )
    composed = compose(scored=barred, recommendation=advice)
    assert [(entry.arm, entry.failed_constraints) for entry in composed.workflows][:2] == [
        (BASELINE, ()),
        ("compiled", (FAILED.text,)),
    ]


def test_the_document_matches_its_schema() -> None:
    for composed in (
        builders.document(),
        compose(recommendation=None, problem=NothingViableError("what", "next")),
    ):
        text = document.encode(composed)
        assert text.endswith("}\n")
        encoded = json.loads(text)
        jsonschema.validate(encoded, schemas.generate("run"))
        assert encoded["schema"] == "p3-advisor/run/1"


def test_the_document_is_decoded_as_it_was_encoded() -> None:
    composed = builders.document()
    assert msgspec.json.decode(document.encode(composed), type=RunDocument) == composed


def test_the_document_has_the_public_keys() -> None:
    encoded = json.loads(document.encode(builders.document()))
    assert {
        "schema",
        "run_id",
        "created",
        "question",
        "machine",
        "workflows",
        "race",
        "recommendation",
    } <= set(encoded)
    assert {"gpu", "cpu", "software"} <= set(encoded["machine"])
    keys = {
        "id",
        "options",
        "arm",
        "status",
        "reason",
        "fix",
        "evidence",
        "engaged_share",
        "cells",
        "speedup",
        "build_seconds",
    }
    for entry in encoded["workflows"]:
        assert keys | {
            "memory_bytes",
            "correctness",
            "diagnosis",
            "scores",
            "score",
            "rank",
        } <= set(entry)
    assert {"batch_size", "seconds", "throughput", "speedup", "tflops"} <= set(
        encoded["workflows"][0]["cells"][0]
    )
    assert {"tier", "value", "rule", "evidence", "basis", "to_next", "why"} <= set(
        encoded["workflows"][0]["scores"]["performance"]
    )
    assert {"verdict", "noise_floor", "rounds", "discarded"} <= set(encoded["race"])
    advice = {
        "arm",
        "workflow",
        "verdict",
        "trust",
        "trust_reasons",
        "runner_up",
        "margin",
        "flips",
        "simplex_share",
        "pareto",
    }
    assert advice | {"break_even_requests", "reasons", "guideline", "next_steps"} <= set(
        encoded["recommendation"]
    )
    assert all(
        {"criterion", "weight", "to"} <= set(flip) for flip in encoded["recommendation"]["flips"]
    )
