"""A run's JSON document decided again."""

from __future__ import annotations

import dataclasses
import pathlib
from typing import Any

import builders
import msgspec
import pytest
import recorded_runs
from advisor.report.documents import document as documents
from advisor.report.documents import measured_document, reopened
from advisor.report.documents.document import RunDocument
from advisor.report.documents.document_results import read_results

from advisor.catalogue import rubric_files
from advisor.domain.accuracy import TrainedLoss
from advisor.domain.constraints import Constraint
from advisor.domain.priorities import Priorities
from advisor.domain.results import HostSpeed, StoppedBuild
from advisor.errors import ExportFileError, PriorityError
from advisor.pipeline.decision import Decision, decide, rescore
from advisor.report import page, text_report
from advisor.score import scoring
from advisor.store.runs import Run
from advisor.store.store import Store

EVIDENCE = pathlib.Path(__file__).parents[3] / "stacks" / "evidence"
BOUND = (Constraint(criterion="productivity", at_least=3),)


@pytest.fixture(params=["cpu", "gpu", "generates", "one core", "imported", "without batch"])
def run(request: pytest.FixtureRequest, home: pathlib.Path) -> Run:
    store = Store(home)
    if request.param == "gpu":
        return recorded_runs.make_gpu_run(store)
    here = builders.machine()
    one_core = msgspec.structs.replace(here.cpu, usable_processors=1)
    changes: dict[str, dict[str, Any]] = {
        "one core": {"machine": msgspec.structs.replace(here, cpu=one_core)},
        "imported": {"imported": True},
    }
    return recorded_runs.make_run(
        store,
        finished=True,
        generates=request.param == "generates",
        workload=recorded_runs.WITHOUT_BATCH if request.param == "without batch" else None,
        **changes.get(request.param, {}),
    )


def document_of(decision: Decision) -> RunDocument:
    """Return the document as it is read back from its JSON."""
    text = documents.encode(measured_document.compose(decision))
    return msgspec.json.decode(text, type=RunDocument)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"priorities": builders.priorities(10, 80, 10)},
        {"priorities": builders.priorities(100, 0, 0, input_flexibility=0)},
        {"constraints": BOUND},
        {"constraints": (Constraint(criterion="speedup", at_least=100.0),)},
        {"constraints": (Constraint(criterion="memory", at_most=1 << 20),)},
    ],
    ids=["the same", "productivity", "performance", "a letter", "a speed-up", "memory"],
)
def test_a_document_decided_again_is_the_document_of_the_run_decided_so(
    run: Run, changes: dict[str, Any]
) -> None:
    known = run.header().catalogue
    again = reopened.decide_again(document_of(decide(run)), known, **changes)
    wanted = document_of(decide(run, **changes))
    assert again == wanted


def test_a_document_keeps_what_a_quantised_arm_loses(home: pathlib.Path) -> None:
    whole = decide(recorded_runs.make_run(Store(home), finished=True))
    losses = {"compiled": "B", "exported": "worse"}
    figures = msgspec.structs.replace(
        whole.results,
        host=HostSpeed(median_seconds=0.001, spread=0.02),
        measurements=tuple(
            msgspec.structs.replace(
                entry,
                weight_bytes=500,
                trained_loss=TrainedLoss(basis="text", loss_class=losses[entry.arm]),  # type: ignore[arg-type]
            )
            if entry.arm in losses
            else entry
            for entry in whole.results.measurements
        ),
    )
    known = whole.header.catalogue
    lossy = dataclasses.replace(whole, results=figures, rated=scoring.rate_arms(figures, known))
    required = (Constraint(criterion="accuracy", at_least=2),)
    wanted = document_of(rescore(lossy, whole.header.question.priorities, required))
    failing = {entry.arm for entry in wanted.workflows if entry.failed_constraints}
    assert failing == {"exported"}
    assert reopened.decide_again(document_of(lossy), known, constraints=required) == wanted
    found = read_results(document_of(lossy), known)
    assert {entry.weight_bytes for entry in found.measurements} >= {500}
    assert found.host == figures.host


def test_a_document_keeps_the_builds_that_had_too_little_time(home: pathlib.Path) -> None:
    whole = decide(recorded_runs.make_run(Store(home), finished=True))
    stopped = (StoppedBuild(arm="broken", started=False, fix="allow more with --build-minutes"),)
    figures = msgspec.structs.replace(whole.results, stopped_builds=stopped)
    weights, known = whole.header.question.priorities, whole.header.catalogue
    wanted = document_of(rescore(dataclasses.replace(whole, results=figures), weights, ()))
    assert wanted.recommendation is not None
    assert wanted.recommendation != whole.recommendation
    assert reopened.decide_again(wanted, known) == wanted


def decided(home: pathlib.Path, **changes: Any) -> tuple[RunDocument, RunDocument]:
    """Return the document of a run, and the same one decided again."""
    stored = recorded_runs.make_run(Store(home), finished=True)
    document = document_of(decide(stored))
    return document, reopened.decide_again(document, stored.header().catalogue, **changes)


def test_other_weights_change_scores_and_advice_but_no_figure(home: pathlib.Path) -> None:
    weights = builders.priorities(0, 0, 100)
    before, after = decided(home, priorities=weights)
    assert after.question.priorities == weights
    assert before.question.priorities != weights
    by_arm = {entry.arm: entry for entry in after.workflows}
    for entry in before.workflows:
        same = by_arm[entry.arm]
        assert (same.speedup, same.cells, same.scores) == (
            entry.speedup,
            entry.cells,
            entry.scores,
        )
    changed = [entry for entry in before.workflows if by_arm[entry.arm].score != entry.score]
    assert changed
    assert after.recommendation != before.recommendation


def test_a_constraint_that_nothing_meets_leaves_a_problem(home: pathlib.Path) -> None:
    _, after = decided(home, constraints=(Constraint(criterion="speedup", at_least=1000.0),))
    assert after.recommendation is None
    assert after.problem is not None
    assert after.problem.name == "nothing-viable"
    assert after.race is not None
    assert after.race.verdict == "INCONCLUSIVE"


def test_a_constraint_that_was_the_obstacle_can_be_lifted(home: pathlib.Path) -> None:
    required = (Constraint(criterion="speedup", at_least=1000.0),)
    stored = recorded_runs.make_run(Store(home), finished=True)
    barred = document_of(decide(stored, constraints=required))
    assert barred.recommendation is None
    free = reopened.decide_again(barred, stored.header().catalogue, constraints=())
    assert free.problem is None
    assert free == document_of(decide(stored))


def test_a_constraint_that_the_task_does_not_measure_is_refused(home: pathlib.Path) -> None:
    required = (Constraint(criterion="ttft", at_most=0.2),)
    stored = recorded_runs.make_run(Store(home), finished=True)
    composed = document_of(decide(stored))
    with pytest.raises(PriorityError, match="ttft"):
        decide(stored, constraints=required)
    with pytest.raises(PriorityError, match="ttft"):
        reopened.decide_again(composed, stored.header().catalogue, constraints=required)


def test_a_workflow_that_the_catalogue_lacks_is_refused(home: pathlib.Path) -> None:
    document = document_of(decide(recorded_runs.make_run(Store(home), finished=True)))
    with pytest.raises(ExportFileError) as problem:
        reopened.decide_again(document, builders.catalogue(builders.workflow("compiled")))
    assert document.run_id in problem.value.what
    assert problem.value.next_step


@pytest.mark.parametrize("lacking", ["race", "baseline"])
def test_a_document_without_a_race_or_a_baseline_is_refused(lacking: str) -> None:
    document = builders.document()
    others = tuple(entry for entry in document.workflows if entry.arm != builders.BASELINE)
    changes: dict[str, Any] = {"race": None} if lacking == "race" else {"workflows": others}
    known = builders.catalogue(builders.workflow("compiled"), builders.workflow("broken"))
    assert reopened.decide_again(document, known).recommendation is not None
    with pytest.raises(ExportFileError):
        reopened.decide_again(msgspec.structs.replace(document, **changes), known)


def without_grades(document: RunDocument) -> RunDocument:
    """Return the document as an early version wrote it: letters, no grades, no headline."""
    made = msgspec.to_builtins(document)
    for entry in made["workflows"]:
        for rating in (entry["scores"] or {}).values():
            del rating["grade"]
        if entry["build_seconds"]:
            del entry["build_seconds"]["worst"]
    new = ("headline", "decision", "certainty", "certainty_seed", "contenders", "speed_regret")
    for name in (*new, "score_regret", "needed_repetitions", "advice_by_batch_size"):
        made["recommendation"].pop(name, None)
    return msgspec.convert(made, RunDocument)


def test_a_document_of_an_early_version_gets_grades_and_a_headline(home: pathlib.Path) -> None:
    stored = recorded_runs.make_run(Store(home), finished=True)
    wanted = document_of(decide(stored))
    early = without_grades(wanted)
    assert early.recommendation is not None
    assert early.recommendation.headline == ()
    again = reopened.decide_again(early, stored.header().catalogue)
    assert again.recommendation == wanted.recommendation
    for entry, same in zip(again.workflows, wanted.workflows, strict=True):
        assert (entry.scores, entry.score, entry.rank) == (same.scores, same.score, same.rank)


def kept_documents() -> list[pathlib.Path]:
    """Return the kept documents of runs that measured something."""
    contents = {file: msgspec.json.decode(file.read_bytes()) for file in EVIDENCE.glob("*.json")}
    return sorted(
        file for file, content in contents.items() if content.get("race") or content.get("serving")
    )


@pytest.mark.parametrize("file", kept_documents(), ids=lambda file: file.stem)
@pytest.mark.parametrize("weights", [None, builders.priorities(100, 0, 0)], ids=["kept", "fastest"])
def test_a_kept_document_is_decided_again_or_has_a_problem(
    file: pathlib.Path, weights: Priorities | None
) -> None:
    document = msgspec.json.decode(file.read_bytes(), type=RunDocument)
    again = reopened.decide_again(document, builders.shipped_catalogue(), priorities=weights)
    assert (again.recommendation is None) != (again.problem is None)
    assert all(
        rating.grade is not None
        for entry in again.workflows
        if entry.status == "completed"
        for rating in (entry.scores or {}).values()
    )
    text = text_report.render(again)
    assert page.render(again)
    if again.recommendation is not None:
        first = "\n".join(text.splitlines()[:5])
        fastest = max(
            (entry for entry in again.workflows if entry.rank is not None),
            key=lambda entry: entry.speedup.value if entry.speedup else 0.0,
        )
        advised = next(entry for entry in again.workflows if entry.arm == again.recommendation.arm)
        assert fastest.speedup is not None
        assert advised.speedup is not None
        if fastest.speedup.value >= 1.2 * advised.speedup.value:
            assert again.recommendation.speed_regret is not None
            assert again.recommendation.speed_regret.arm == fastest.arm
            titles = {each.id: each.title for each in builders.shipped_catalogue().workflows}
            assert titles[fastest.id] in first


@pytest.mark.parametrize("damage", ["no baseline", "unknown workflow"])
def test_a_damaged_document_of_servers_is_refused(damage: str) -> None:
    file = EVIDENCE / "cpu-served-demo-llama.json"
    document = msgspec.json.decode(file.read_bytes(), type=RunDocument)
    known = rubric_files.load()
    assert reopened.decide_again(document, known).recommendation is not None
    entries = [
        msgspec.structs.replace(each, id="gone") if damage == "unknown workflow" else each
        for each in document.workflows
        if damage == "unknown workflow" or not each.is_baseline
    ]
    with pytest.raises(ExportFileError):
        reopened.decide_again(msgspec.structs.replace(document, workflows=tuple(entries)), known)
