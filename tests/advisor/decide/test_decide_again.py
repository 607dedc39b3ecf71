"""Answers decided again from their results, with other preferences."""

from __future__ import annotations

import pathlib
from typing import Any

import builders
import msgspec
import pytest
import recorded_runs
from report_runs import with_results

from advisor.decide.decision import decide, decide_again
from advisor.domain.accuracy import TrainedLoss
from advisor.domain.answer import Answer, encode
from advisor.domain.constraints import Constraint, Priorities
from advisor.domain.results import HostSpeed, StoppedBuild
from advisor.errors import ExportFileError, PriorityError
from advisor.report import page, text_report
from advisor.store.runs import Run
from advisor.store.store import Store

EVIDENCE = pathlib.Path(__file__).parents[2] / "stacks" / "evidence"
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


def read_back(answer: Answer) -> Answer:
    """Return the answer as it is read from its JSON, which has no paired rounds."""
    return msgspec.json.decode(encode(answer), type=Answer)


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
def test_an_answer_decided_again_is_the_answer_of_the_run_decided_so(
    run: Run, changes: dict[str, Any]
) -> None:
    again = decide_again(read_back(decide(run)), run.header().catalogue, **changes)
    assert again == read_back(decide(run, **changes))


def test_an_answer_keeps_what_a_quantised_arm_loses(home: pathlib.Path) -> None:
    run = recorded_runs.make_run(Store(home), finished=True)
    whole, known = decide(run), run.header().catalogue
    losses = {"compiled": "B", "exported": "worse"}
    measurements = tuple(
        msgspec.structs.replace(
            entry,
            weight_bytes=500,
            trained_loss=TrainedLoss(basis="text", loss_class=losses[entry.arm]),  # type: ignore[arg-type]
        )
        if entry.arm in losses
        else entry
        for entry in whole.results.measurements
    )
    host = HostSpeed(median_seconds=0.001, spread=0.02)
    lossy = with_results(whole, host=host, measurements=measurements)
    required = (Constraint(criterion="accuracy", at_least=2),)
    wanted = decide_again(lossy, known, constraints=required)
    assert {arm.arm for arm in wanted.scores if arm.failures} == {"exported"}
    assert decide_again(read_back(lossy), known, constraints=required) == read_back(wanted)


def test_builds_that_had_too_little_time_count_again(home: pathlib.Path) -> None:
    run = recorded_runs.make_run(Store(home), finished=True)
    whole, known = decide(run), run.header().catalogue
    stopped = (StoppedBuild(arm="broken", started=False, fix="allow more with --build-minutes"),)
    wanted = decide_again(with_results(whole, stopped_builds=stopped), known)
    assert wanted.recommendation is not None
    assert wanted.recommendation != whole.recommendation
    assert decide_again(read_back(wanted), known) == read_back(wanted)


def decided(home: pathlib.Path, **changes: Any) -> tuple[Answer, Answer]:
    """Return the answer of a run, and the same one decided again."""
    stored = recorded_runs.make_run(Store(home), finished=True)
    answer = read_back(decide(stored))
    return answer, decide_again(answer, stored.header().catalogue, **changes)


def test_other_weights_change_scores_and_advice_but_no_figure(home: pathlib.Path) -> None:
    weights = builders.priorities(0, 0, 100)
    before, after = decided(home, priorities=weights)
    assert after.question.priorities == weights
    assert before.question.priorities != weights
    assert after.results == before.results
    by_arm = {arm.arm: arm for arm in after.scores}
    assert all(by_arm[arm.arm].ratings == arm.ratings for arm in before.scores)
    assert all(by_arm[arm.arm].score != arm.score for arm in before.scores)
    assert after.recommendation != before.recommendation


def test_a_constraint_that_nothing_meets_leaves_a_problem(home: pathlib.Path) -> None:
    _, after = decided(home, constraints=(Constraint(criterion="speedup", at_least=1000.0),))
    assert after.recommendation is None
    assert after.problem is not None
    assert after.problem.name == "nothing-viable"
    assert after.headline[0].text == f"No recommendation: {after.problem.what}"


def test_a_constraint_that_was_the_obstacle_can_be_lifted(home: pathlib.Path) -> None:
    required = (Constraint(criterion="speedup", at_least=1000.0),)
    stored = recorded_runs.make_run(Store(home), finished=True)
    barred = read_back(decide(stored, constraints=required))
    assert barred.recommendation is None
    free = decide_again(barred, stored.header().catalogue, constraints=())
    assert free.problem is None
    assert free == read_back(decide(stored))


def test_a_constraint_that_the_task_does_not_measure_is_refused(home: pathlib.Path) -> None:
    required = (Constraint(criterion="ttft", at_most=0.2),)
    stored = recorded_runs.make_run(Store(home), finished=True)
    answer = read_back(decide(stored))
    with pytest.raises(PriorityError, match="ttft"):
        decide(stored, constraints=required)
    with pytest.raises(PriorityError, match="ttft"):
        decide_again(answer, stored.header().catalogue, constraints=required)


def test_a_workflow_that_the_catalogue_lacks_is_refused(home: pathlib.Path) -> None:
    answer = decide(recorded_runs.make_run(Store(home), finished=True))
    with pytest.raises(ExportFileError) as problem:
        decide_again(answer, builders.catalogue(builders.workflow("compiled")))
    assert answer.run_id in problem.value.what
    assert problem.value.next_step


def kept_answers() -> list[pathlib.Path]:
    """Return the kept answers of runs that measured something."""
    contents = {file: msgspec.json.decode(file.read_bytes()) for file in EVIDENCE.glob("*.json")}
    return sorted(file for file, content in contents.items() if content["results"]["measurements"])


@pytest.mark.slow
@pytest.mark.parametrize("file", kept_answers(), ids=lambda file: file.stem)
@pytest.mark.parametrize("weights", [None, builders.priorities(100, 0, 0)], ids=["kept", "fastest"])
def test_a_kept_answer_is_decided_again_or_has_a_problem(
    file: pathlib.Path, weights: Priorities | None
) -> None:
    answer = msgspec.json.decode(file.read_bytes(), type=Answer)
    again = decide_again(answer, builders.shipped_catalogue(), priorities=weights)
    assert (again.recommendation is None) != (again.problem is None)
    text = text_report.render(again)
    assert page.render(again)
    if again.recommendation is not None:
        first = "\n".join(text.splitlines()[:5])
        fastest = max(again.scores, key=lambda arm: arm.speedup)
        assert again.advised is not None
        if fastest.speedup >= 1.2 * again.advised.scored.speedup:
            assert again.recommendation.certainty is not None
            assert again.recommendation.certainty.speed_regret.arm == fastest.arm
            titles = {each.id: each.title for each in builders.shipped_catalogue().workflows}
            assert titles[fastest.workflow] in first


@pytest.mark.parametrize("damage", ["no baseline", "unknown workflow"])
@pytest.mark.parametrize("name", ["cpu-served-demo-llama", "cpu-demo"])
def test_a_damaged_answer_is_refused(damage: str, name: str) -> None:
    answer = msgspec.json.decode((EVIDENCE / f"{name}.json").read_bytes(), type=Answer)
    known = builders.shipped_catalogue()
    assert decide_again(answer, known).recommendation is not None
    measurements = [
        msgspec.structs.replace(each, workflow="gone") if damage == "unknown workflow" else each
        for each in answer.results.measurements
        if damage == "unknown workflow" or each.arm != answer.results.baseline
    ]
    with pytest.raises(ExportFileError):
        decide_again(with_results(answer, measurements=tuple(measurements)), known)
