"""The way from stored visits, or from the results of an answer, to a recommendation; starts."""

from __future__ import annotations

import pathlib
import sys
from typing import Any

import builders
import built_answers
import msgspec
import pytest
import recorded_runs
from drawn import weights
from forks import run_command
from hypothesis import example, given, settings
from hypothesis import strategies as st
from kept.runs import NAMES, read_run

from advisor.ask.option_values import parse_priorities
from advisor.decide.answers import answer_from_results, answer_from_state, with_preferences
from advisor.domain.answer import Answer, Problem, encode
from advisor.domain.arm_figures import ARM_FIGURES, START
from advisor.domain.constraints import Constraint, Priorities
from advisor.domain.errors import ExportFileError, OptionValueError
from advisor.domain.measurement import COLD, Start
from advisor.domain.run_events import EndCause
from advisor.domain.run_state import Header, RunState
from advisor.report import page, text_report
from advisor.report.answer_files import answer_of_run
from advisor.report.tables import list_tables
from advisor.store.runs import Run
from advisor.store.store import Store
from probes.outcome import Failure, Outcome

ROUNDS = 6
SPEED_BONUS = builders.shipped_catalogue().rubric.decision.speed_bonus
ARMS = ("compiled", "exported", "elsewhere")
WORKFLOWS = (
    builders.workflow("compiled", declared=builders.declared(new_shapes="recompiles")),
    builders.workflow(
        "exported",
        declared=builders.declared(
            export_step=True, artefact_scope="gpu-model", new_shapes="refused"
        ),
    ),
    builders.workflow(
        "elsewhere", declared=builders.declared(lines_changed=40, vendors=1, architectures="listed")
    ),
)
#: Seconds of a call by arm, and the relative deviation of each round.
speeds = st.tuples(*[st.floats(0.01, 1.0)] * (len(ARMS) + 1))
all_deviations = st.lists(
    st.floats(0.97, 1.03), min_size=ROUNDS * (len(ARMS) + 2), max_size=ROUNDS * (len(ARMS) + 2)
)


def state_of(drawn: tuple[float, ...], deviations: list[float]) -> RunState:
    """Return the state of a finished run with one race, with a deviation for each round.

    The duplicate has the typical seconds of the baseline and its own deviations.
    """
    typical = dict(zip((builders.BASELINE, *ARMS), drawn, strict=True))
    typical[builders.DUPLICATE] = typical[builders.BASELINE]
    processes = {}
    for index, arm in enumerate(sorted(typical)):
        rounds = deviations[index * ROUNDS : (index + 1) * ROUNDS]
        visits = builders.visits([typical[arm] * deviation for deviation in rounds])
        processes[arm] = builders.process(*visits, outcome=Outcome())
    return builders.run_state(
        processes, last_groups={1: tuple(processes)}, closed={1: "out-of-time"}, finished=True
    )


def header_of(priorities: Priorities | None = None, *required: Constraint) -> Header:
    weights = priorities or builders.priorities()
    return builders.header_of(*WORKFLOWS, priorities=weights, constraints=required)


@example((1.0, 1.0, 0.625, 0.34375), [1.0] * 30, builders.priorities(54, 0, 46), "performance", 2)
@settings(max_examples=40)
@given(
    speeds,
    all_deviations,
    weights(),
    st.sampled_from(["performance", "productivity", "portability", "input_flexibility"]),
    st.integers(2, 3),
)
def test_a_constraint_only_removes(
    drawn: tuple[float, ...],
    deviations: list[float],
    priorities: Priorities,
    criterion: str,
    tier: int,
) -> None:
    state = state_of(drawn, deviations)
    free = answer_from_state(header_of(priorities), state)
    bound = answer_from_state(header_of(priorities, Constraint(criterion, ">=", tier)), state)
    kept = [each.arm for each in bound.scores if not each.failed_constraints]
    assert kept == [each.arm for each in free.scores if each.ratings[criterion].tier >= tier]
    assert {each.arm: each.score for each in bound.scores} == {
        each.arm: each.score for each in free.scores
    }
    assert (bound.recommendation is not None) == bool(kept)
    if bound.recommendation:
        scores = {each.arm: each.score for each in bound.scores}
        # A faster arm is advised before one that scores a little more.
        least = scores[kept[0]] - SPEED_BONUS
        assert bound.recommendation.arm in kept
        assert scores[bound.recommendation.arm] >= least
        advice = bound.recommendation
        assert {advice.runner_up, *(flip.to for flip in advice.flips)} - {None} <= set(kept)


@pytest.mark.parametrize(
    ("ending", "failed", "problem", "rounds"),
    [
        ("out-of-time", (), "budget-spent", 0),
        ("out-of-time", (builders.BASELINE,), "budget-spent", 0),
        ("decided", (builders.BASELINE,), "nothing-viable", 0),
        ("decided", (builders.BASELINE,), "nothing-viable", 4),
        ("decided", (), "nothing-viable", 0),
    ],
)
def test_a_run_without_a_measured_arm_has_a_problem(
    ending: EndCause, failed: tuple[str, ...], problem: str, rounds: int
) -> None:
    wrong = Outcome(Failure("incorrect", phase="new-shapes", reason="it is wrong", fix="update it"))
    arms = (builders.BASELINE, builders.DUPLICATE, *ARMS)
    visits = builders.visits([0.1] * rounds)
    processes = {
        arm: builders.process(*visits, outcome=wrong if arm in failed else None) for arm in arms
    }
    state = builders.run_state(processes, last_groups={1: arms}, closed={1: ending})
    answer = answer_from_state(header_of(), state)
    assert (answer.scores, answer.recommendation) == ((), None)
    assert answer.problem is not None
    assert (answer.problem.name, answer.problem.next_step == "update it") == (
        problem,
        problem == "nothing-viable" and bool(failed),
    )


BOUND = (Constraint("productivity", ">=", 3),)


@pytest.fixture(params=["cpu", "gpu", "generates", "one core", "foreign", "without batch"])
def run(request: pytest.FixtureRequest, home: pathlib.Path) -> Run:
    store = Store(home)
    if request.param == "gpu":
        return recorded_runs.make_gpu_run(store)
    here = builders.machine()
    one_core = builders.replace(here.cpu, usable_processors=1)
    changes: dict[str, dict[str, Any]] = {
        "one core": {"machine": builders.replace(here, cpu=one_core)},
        "foreign": {"foreign": True},
    }
    return recorded_runs.make_run(
        store,
        finished=True,
        generates=request.param == "generates",
        workload=recorded_runs.WITHOUT_BATCH if request.param == "without batch" else None,
        **changes.get(request.param, {}),
    )


def read_back(answer: Answer) -> Answer:
    return msgspec.json.decode(encode(answer), type=Answer)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"priorities": builders.priorities(10, 80, 10)},
        {"priorities": builders.priorities(100, 0, 0, input_flexibility=0)},
        {"constraints": BOUND},
        {"constraints": (Constraint("speedup", ">=", 100.0),)},
        {"constraints": (Constraint("memory", "<=", 1 << 20),)},
    ],
    ids=["the same", "productivity", "performance", "a letter", "a speed-up", "memory"],
)
def test_an_answer_decided_again_is_the_answer_of_the_run_decided_so(
    run: Run, changes: dict[str, Any]
) -> None:
    again = answer_from_results(read_back(answer_of_run(run)), run.header().catalogue, **changes)
    assert again == read_back(answer_of_run(run, **changes))


def test_a_constraint_that_nothing_meets_leaves_a_problem_and_can_be_lifted(made_run: Run) -> None:
    barred = read_back(answer_of_run(made_run, constraints=(Constraint("speedup", ">=", 1000.0),)))
    assert barred.recommendation is None
    assert barred.problem is not None
    assert barred.problem.name == "nothing-viable"
    assert built_answers.headline(barred)[0] == f"No recommendation: {barred.problem.what}"
    free = answer_from_results(barred, made_run.header().catalogue, constraints=())
    assert free.problem is None
    assert free == read_back(answer_of_run(made_run))


def test_the_command_that_asks_again_has_the_new_weights_and_constraints(made_run: Run) -> None:
    question = msgspec.structs.replace(answer_of_run(made_run).question, asked={"preset": "own"})
    thirds = Priorities(performance=100 / 3, productivity=200 / 3, portability=0)
    again = with_preferences(question, thirds, (Constraint("speedup", ">=", 2.0),)).asked
    assert (again["require"], "preset" in again) == ("speedup>=2x", False)
    assert parse_priorities(str(again["priority"])).performance == pytest.approx(100 / 3)


def test_a_constraint_that_the_task_does_not_measure_is_refused(made_run: Run) -> None:
    required = (Constraint("ttft", "<=", 0.2),)
    answer = read_back(answer_of_run(made_run))
    with pytest.raises(OptionValueError, match="ttft"):
        answer_of_run(made_run, constraints=required)
    with pytest.raises(OptionValueError, match="ttft"):
        answer_from_results(answer, made_run.header().catalogue, constraints=required)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in NAMES if read_run(name).results.measurements])
@pytest.mark.parametrize("weights", [None, builders.priorities(100, 0, 0)], ids=["kept", "fastest"])
def test_a_kept_answer_is_decided_again_or_has_a_problem(
    name: str, weights: Priorities | None
) -> None:
    again = answer_from_results(read_run(name), builders.shipped_catalogue(), priorities=weights)
    assert (again.recommendation is None) != (again.problem is None)
    assert text_report.render(again)
    assert page.render(again)


@pytest.mark.parametrize(
    ("name", "title"),
    [
        ("cpu-minilm-float32", "ONNX Runtime, CPU"),
        ("cpu-demo-llama", "OpenVINO"),
        ("h100-vit-base-float32", "TensorRT"),
        ("h200-resnet-50-float32", "Torch-TensorRT"),
    ],
)
def test_an_arm_that_is_much_faster_than_the_advised_one_is_named(name: str, title: str) -> None:
    again = answer_from_results(read_run(name), builders.shipped_catalogue())
    fastest = max(again.scores, key=lambda each: each.speedup)
    assert fastest.speedup >= 1.2 * builders.known(again.advised).scored.speedup
    assert builders.known(again.recommendation).decision.speed_regret.arm == fastest.arm
    assert title in "\n".join(text_report.render(again).splitlines()[:5])


@pytest.mark.parametrize("damage", ["no baseline", "unknown workflow"])
@pytest.mark.parametrize("name", ["cpu-served-demo-llama", "cpu-demo"])
def test_a_damaged_answer_is_refused(damage: str, name: str) -> None:
    answer = read_run(name)
    known = builders.shipped_catalogue()
    assert answer_from_results(answer, known).recommendation is not None
    measurements = [
        builders.replace(each, workflow="gone") if damage == "unknown workflow" else each
        for each in answer.results.measurements
        if damage == "unknown workflow" or each.arm != answer.results.baseline
    ]
    with pytest.raises(ExportFileError):
        answer_from_results(
            built_answers.with_results(answer, measurements=tuple(measurements)), known
        )


def test_an_answer_without_measurements_stands_as_it_is() -> None:
    answer = read_run("cpu-demo")
    problem = Problem(name="budget-spent", what="nothing was timed", next_step="more", exit_code=4)
    nothing = built_answers.with_results(answer, measurements=())
    nothing = builders.replace(nothing, scores=(), recommendation=None, problem=problem)
    known = builders.shipped_catalogue()
    assert (
        answer_from_results(nothing, known, priorities=builders.priorities(54, 26, 20)) == nothing
    )


COLD_START = Start(way=COLD, title="nothing kept", seconds=57.9, call_seconds=0.01)
SAVED = Start(
    way="saved",
    title="the file",
    loads_on="the same GPU",
    source="a page",
    seconds=3.1,
    call_seconds=0.02,
    shipped_bytes=18 << 20,
    lines=2,
)
BROKEN = Start(way="other", title="the package", failure="it is broken")
UNCHECKED = Start(way="early", title="the cache", seconds=0.5, failure="it was not checked")


def started(*starts: Start, finished: bool = True) -> RunState:
    """Return a run in which `compiled` wins and has these starts."""
    by_arm = {"compiled": starts} if starts else {}
    return built_answers.decided_state(starts=by_arm, finished=finished)


def answer(*starts: Start) -> Answer:
    return answer_from_state(built_answers.finished_header(), started(*starts))


def test_the_answer_has_the_cold_start_and_the_fastest_way() -> None:
    (line,) = built_answers.headline(answer(COLD_START, SAVED, BROKEN), "start")
    assert all(figure in line for figure in ("57.9 s", "3.1 s", "18 MiB", "2 lines", "the file"))
    (cold,) = built_answers.headline(answer(COLD_START), "start")
    assert "57.9 s" in cold
    assert "line" not in cold
    slightly_slower = Start(way="kept", title="the folder", seconds=3.14, lines=0)
    (line,) = built_answers.headline(answer(COLD_START, SAVED, slightly_slower), "start")
    assert "the folder" in line
    assert not built_answers.headline(answer(BROKEN), "start")
    assert not built_answers.headline(answer(), "start")


def test_the_table_has_every_way_with_its_calls_and_the_notes_what_failed() -> None:
    found = {table.name: table for table in list_tables(answer(COLD_START, SAVED, BROKEN))}
    _, cold, saved, broken = found["starts"].rows
    assert [row[2] for row in (cold, saved, broken)] == ["57.9", "3.1", "-"]
    assert any("it is broken" in note for note in found["starts"].notes)
    assert any("the same GPU" in note and "a page" in note for note in found["starts"].notes)
    assert "starts" not in {table.name for table in list_tables(answer())}


@pytest.mark.parametrize(("limit", "is_met"), [(10.0, True), (3.0, False)])
def test_a_limit_of_the_start_is_met_by_the_fastest_way(limit: float, is_met: bool) -> None:
    get = ARM_FIGURES[START].get
    assert get(builders.measurement(starts=(COLD_START, SAVED, BROKEN, UNCHECKED))) == SAVED.seconds
    assert get(builders.measurement(starts=(BROKEN, UNCHECKED))) is None
    header = built_answers.finished_header()
    constraint = Constraint(START, "<=", limit)
    question = builders.replace(header.question, constraints=(constraint,))
    header = builders.replace(header, question=question)

    def fails(state: RunState, arm: str) -> bool:
        scores = {scored.arm: scored for scored in answer_from_state(header, state).scores}
        return bool(scores[arm].failures)

    assert fails(started(COLD_START, SAVED), "compiled") != is_met
    assert fails(started(COLD_START, SAVED), builders.BASELINE), "its start is not known"
    running = started(finished=False)
    assert not fails(running, "compiled"), "starts are measured last"
    assert answer_from_state(header, running).question.constraints == (constraint,)


DECIDE_SCRIPT = """
import pathlib, sys
from advisor.report.answer_files import answer_of_run
from advisor.domain.answer import encode
from advisor.store.runs import Run

sys.stdout.write(encode(answer_of_run(Run(pathlib.Path(sys.argv[1])))))
"""


def test_another_process_with_another_hash_seed_gives_the_same_bytes(made_run: Run) -> None:
    command = [sys.executable, "-c", DECIDE_SCRIPT, str(made_run.directory)]
    assert run_command(command, {"PYTHONHASHSEED": "7"}).stdout == encode(answer_of_run(made_run))
