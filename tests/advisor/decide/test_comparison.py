from __future__ import annotations

import math
import random
import statistics
from typing import Any

import builders
import pytest
from builders import NOISE, replace
from built_answers import (
    run_answer,
    served_run,
    timed_cell,
    with_cells,
    with_costs,
    with_measurement,
    with_results,
    with_speedup,
)

from advisor.decide.comparison import Change, Comparison, compare_answers
from advisor.decide.intervals import t_quantile
from advisor.decide.run_differences import find_differences
from advisor.decide.speed_ratios import variance_of_speedup
from advisor.domain.answer import Answer, Status
from advisor.domain.measurement import Interval, UndisturbedSpeedup
from advisor.domain.model import TransformersModel
from advisor.domain.question import Question

#: Id of the second run.
LATER = "20991231-000000-0000"


def compare_two(before: Answer, after: Answer, threshold: float) -> Comparison:
    """Compare the answers as those of two runs, although builders give all runs one id."""
    return compare_answers(before, replace(after, run_id=LATER), threshold, NOISE)


def change(before: Answer, after: Answer, threshold: float = 0.05) -> Change:
    (found,) = compare_two(before, after, threshold).changes
    return found


def with_noise(answer: Answer, noise_floor: float) -> Answer:
    """Return the run with this noise floor at every batch size."""
    races = tuple(replace(race, noise_floor=noise_floor) for race in answer.results.races)
    return with_results(answer, noise_floor=noise_floor, races=races)


def with_failure(answer: Answer, status: Status) -> Answer:
    """Return the run with `compiled` not measured, for this reason."""
    alone = with_results(answer, measurements=(answer.results.by_arm[builders.BASELINE],))
    return replace(
        alone,
        scores=tuple(each for each in answer.scores if each.arm != "compiled"),
        unmeasured=(*answer.unmeasured, builders.unmeasured("compiled", status=status)),
    )


@pytest.mark.parametrize(
    ("speedup", "spread", "verdict", "conclusion"),
    [
        (2.0, 1.001, "same", "no-regression"),
        (2.06, 1.001, "same", "no-regression"),
        (1.9, 1.001, "undecided", "undecided"),
        (1.8, 1.01, "slower", "regression"),
        (2.4, 1.01, "faster", "no-regression"),
        (1.8, 1.3, "undecided", "undecided"),
        (2.4, 1.3, "undecided", "undecided"),
    ],
)
def test_the_speedup_decides(speedup: float, spread: float, verdict: str, conclusion: str) -> None:
    found = compare_two(with_speedup(2.0, spread), with_speedup(speedup, spread), 0.05)
    (compiled,) = found.changes
    assert (compiled.verdict, found.conclusion) == (verdict, conclusion)
    assert compiled.ratio.value == pytest.approx(speedup / 2)


def test_a_slower_machine_is_drift_and_no_regression() -> None:
    before, after = with_speedup(2.0, 1.001), with_speedup(2.0, 1.001, seconds=0.2)
    slow = {"seconds": timed_cell(0.2).seconds}
    found = compare_two(
        with_cells(before, builders.BASELINE, seconds=timed_cell(0.1).seconds),
        with_cells(after, builders.BASELINE, **slow),
        0.05,
    )
    assert found.conclusion == "no-regression"
    assert [(str(each.shape), each.verdict) for each in found.drift] == [("1", "slower")]
    assert found.drift[0].ratio.value == pytest.approx(0.5)
    assert found.changes[0].before.value / found.changes[0].after.value == pytest.approx(0.5)


def test_build_memory_and_outputs_are_compared() -> None:
    before = with_speedup(2.0)
    found = compare_two(before, with_costs(before), 0.05)
    eager, compiled = found.costs
    assert (eager.arm, compiled.arm) == (builders.BASELINE, "compiled")
    assert eager.build_seconds[0] == eager.build_seconds[1]
    assert (compiled.build_seconds[1], compiled.peak_bytes[1]) == (80.0, 3 << 20)
    assert (compiled.errors[1], compiled.accuracy_classes[1]) == (2e-3, "close")
    assert [each.arm for each in found.costs if each.is_less_exact] == ["compiled"]


def test_no_interval_is_narrower_than_the_noise_of_equal_workers() -> None:
    quiet, slow = with_speedup(2.0), with_speedup(1.8)
    assert change(quiet, slow).verdict == "slower"
    assert change(with_noise(quiet, 0.5), slow).verdict == "undecided"


@pytest.mark.parametrize(
    ("processes", "differences", "degrees"), [(1, 1, 3), (2, 4, 6), (1, 100, 39), (5, 1, 4)]
)
def test_rounds_do_not_show_how_processes_differ(
    processes: int, differences: int, degrees: int
) -> None:
    made = with_cells(with_speedup(2.0), "compiled", processes=processes)
    races = tuple(replace(each, rounds=40) for each in made.results.races)
    (found,) = made.results.by_arm["compiled"].cells
    error = builders.known(
        variance_of_speedup("compiled", found, races, NOISE.weight + differences)
    )
    assert error.degrees_of_freedom == degrees


def test_a_run_on_an_unfit_machine_gives_no_verdict() -> None:
    found = compare_two(with_noise(with_speedup(2.0), 0.6), with_speedup(0.5, 1.001), 0.05)
    assert found.unfit == (found.before,)
    assert (found.changes[0].verdict, found.conclusion) == ("undecided", "undecided")
    assert found.detectable_slowdown is None


def test_more_arms_widen_every_interval() -> None:
    before, after = with_speedup(2.0), with_speedup(1.9)
    alone = change(before, after).ratio

    def with_copies(made: Answer) -> Answer:
        copies = [
            replace(made.results.by_arm["compiled"], arm=f"copy{number}") for number in range(9)
        ]
        return with_results(made, measurements=(*made.results.measurements, *copies))

    crowded = compare_two(with_copies(before), with_copies(after), 0.05).changes
    assert "compiled" in {each.arm for each in crowded}
    assert all(
        (each.ratio.low or 0) < (alone.low or 0) and (each.ratio.high or 0) > (alone.high or 0)
        for each in crowded
    )


def test_a_speedup_without_an_interval_and_the_baseline_alone_are_undecided() -> None:
    unbounded = with_cells(
        with_speedup(2.0), "compiled", speedup=Interval(value=0.5, low=None, high=None)
    )
    found = compare_two(with_speedup(2.0), unbounded, 0.05)
    assert (found.changes[0].verdict, found.conclusion) == ("undecided", "undecided")
    alone = with_failure(with_speedup(2.0), "excluded")
    assert compare_two(alone, alone, 0.05).conclusion == "undecided"


@pytest.mark.parametrize(
    ("status", "conclusion"), [("build-failed", "regression"), ("excluded", "undecided")]
)
def test_an_arm_that_fails_now_is_a_regression_unless_it_was_not_tried(
    status: Status, conclusion: str
) -> None:
    found = compare_two(with_speedup(2.0), with_failure(with_speedup(2.0), status), 0.05)
    failed = [("compiled", "build-failed")] if conclusion == "regression" else []
    assert [(each.arm, each.status) for each in found.failed] == failed
    assert (found.conclusion, found.only_before) == (conclusion, ("compiled",))


def test_the_baseline_is_that_of_the_run() -> None:
    before = with_results(with_speedup(2.0), baseline="compiled")
    after = with_measurement(before, "compiled", versions={"onnxruntime": "9"})
    found = compare_two(before, after, 0.05)
    assert [each.arm for each in found.drift] == ["compiled"]
    assert [each.arm for each in found.changes] == [builders.BASELINE]
    assert found.baseline_changed
    eager = with_measurement(before, builders.BASELINE, versions={"torch": "9"})
    assert not compare_two(before, eager, 0.05).baseline_changed
    assert compare_two(before, with_speedup(2.0), 0.05).baseline_changed


@pytest.mark.parametrize(
    "question",
    [
        builders.question(dtype="float16"),
        builders.question(batch_sizes=(1, 2)),
        builders.question(input_tokens=7),
    ],
)
def test_another_question_makes_speeds_incomparable(question: Question) -> None:
    found = compare_two(run_answer(), run_answer(0.2, question=question), 0.05)
    assert not found.comparable
    assert (found.changes, found.drift, found.conclusion) == ((), (), "not-comparable")
    assert found.differences[0].decisive


def test_an_unfinished_run_is_compared_with_its_missing_batch_sizes() -> None:
    question = builders.question(batch_sizes=(1, 16))
    before = run_answer(question=question)
    finished = with_results(before, races=(builders.race_result(1), builders.race_result(16)))
    named = replace(question, workflows=("compiled",))
    found = compare_two(finished, run_answer(question=named, finished=False), 0.05)
    assert found.comparable
    assert [(each.what, each.before, each.after) for each in found.differences] == [
        ("run", "finished", "not finished"),
        ("measured batch sizes", "1, 16", "1"),
        ("workflows", "all that apply", "compiled"),
    ]


def test_an_arm_of_one_run_is_one_difference_and_shared_arms_compare_versions() -> None:
    found = run_answer()
    versions = [{"stack": "1", "torch": "2"}, {"stack": "3", "torch": "4"}]
    before, after = (with_measurement(found, versions=of_run, settings={}) for of_run in versions)
    after = with_results(after, measurements=(after.results.by_arm["compiled"],))
    shared, single = "compiled", builders.BASELINE
    assert [(each.what, each.before) for each in find_differences(before, after)] == [
        (f"{shared}: stack", "1"),
        (f"{shared}: torch", "2"),
        (single, "measured"),
    ]


@pytest.mark.parametrize(
    ("changes", "before", "after"),
    [
        ({"name": "two"}, "one", "two"),
        ({"config": {"layers": 2}, "parameters": 5}, "one", "one, another configuration"),
        ({"weights": "trained"}, "one, weights random", "one, weights trained"),
    ],
)
def test_models_are_named_without_their_configuration(
    changes: dict[str, Any], before: str, after: str
) -> None:
    model = TransformersModel(name="one", weights="random", config={"layers": 1})
    runs = [
        run_answer(question=builders.question(model=each))
        for each in (model, replace(model, **changes))
    ]
    (found,) = compare_two(runs[0], runs[1], 0.05).differences
    assert (found.what, found.before, found.after) == ("model", before, after)
    assert found.decisive


def replicated(value: float, log_error: float, processes: int) -> Answer:
    """Return a run whose `compiled` ran in several processes, as a run with repetitions says."""
    return with_cells(
        run_answer(),
        "compiled",
        speedup=Interval(value=9.9, low=5.0, high=15.0),
        processes=processes,
        undisturbed=UndisturbedSpeedup(value=value, log_error=log_error, processes=processes),
    )


def test_arms_of_several_processes_are_compared_where_nothing_disturbs_them() -> None:
    error = 0.01
    found = change(replicated(2.0, error, 8), replicated(1.8, error, 8))
    assert found.ratio.value == pytest.approx(0.9)
    # One arm is compared, so each bound fails with 2.5 %.
    half_width = t_quantile(0.975, 14) * math.sqrt(2) * error
    assert math.log(builders.known(found.ratio.high) / 0.9) == pytest.approx(half_width, rel=1e-6)
    assert found.verdict == "slower"


def test_an_early_run_without_undisturbed_times_is_compared_over_all_rounds() -> None:
    early, new = with_speedup(2.0, 1.001), replicated(1.0, 0.01, 8)
    assert change(early, new).ratio.value == pytest.approx(9.9 / 2)
    assert change(new, early).ratio.value == pytest.approx(2 / 9.9)


@pytest.mark.parametrize(("deviation", "processes"), [(0.02, 3), (0.02, 8), (0.05, 8)])
def test_a_slowdown_of_the_stated_size_is_found_nine_times_in_ten(
    deviation: float, processes: int
) -> None:
    noise = random.Random(4)
    error = deviation / math.sqrt(processes)
    slowdown = change(
        replicated(2.0, error, processes), replicated(2.0, error, processes)
    ).detectable_slowdown

    def drawn_run(value: float) -> Answer:
        """Return a run whose processes, and so the deviation they show, are drawn."""
        logs = [noise.gauss(math.log(value), deviation) for _ in range(processes)]
        error = statistics.stdev(logs) / math.sqrt(processes)
        return replicated(math.exp(statistics.fmean(logs)), error, processes)

    slower = [
        change(drawn_run(2.0), drawn_run(2.0 * (1 - builders.known(slowdown)))).verdict == "slower"
        for _ in range(200)
    ]
    # The share of 200 draws varies by 0.02.
    assert 0.85 < statistics.fmean(slower) < 0.95


def test_more_processes_find_smaller_slowdowns() -> None:
    slowdowns = []
    for processes in (3, 5, 8):
        run = replicated(2.0, 0.04 / math.sqrt(processes), processes)
        slowdowns.append(change(run, run).detectable_slowdown or 1.0)
    assert slowdowns == sorted(slowdowns, reverse=True)
    assert slowdowns[-1] < 0.1 < slowdowns[0]


@pytest.mark.parametrize("noise_floor", [0.01, 4.0])
def test_a_run_compared_with_itself_has_no_undecided_arm(noise_floor: float) -> None:
    run = with_noise(with_speedup(2.0, spread=3.0), noise_floor)
    (other,) = compare_two(run, run, 0.05).changes
    assert other.verdict == "undecided"
    decided = replace(run, rubric="another")
    for again in (run, decided):
        found = compare_answers(run, again, 0.05, NOISE)
        assert (found.conclusion, found.detectable_slowdown) == ("same-run", None)
        assert (found.undecided, found.changes, found.drift) == ((), (), ())
    resumed = with_cells(run, "compiled", tflops=1.0)
    assert compare_answers(run, resumed, 0.05, NOISE).conclusion != "same-run"


@pytest.mark.parametrize(
    ("after", "spread", "verdict", "conclusion"),
    [
        (10.0, 1.02, "same", "no-regression"),
        (8.0, 1.02, "slower", "regression"),
        (13.0, 1.02, "faster", "no-regression"),
        (9.0, 1.3, "undecided", "undecided"),
    ],
)
def test_the_goodput_decides(after: float, spread: float, verdict: str, conclusion: str) -> None:
    first = served_run({"engine": 10.0, "baseline": 1.0}, spread=1.01)
    second = served_run({"engine": after, "baseline": 1.0}, spread=spread)
    found = compare_answers(first, second, 0.1, NOISE)
    changes = {change.arm: change for change in found.changes}
    assert changes["engine"].verdict == verdict
    assert changes["engine"].ratio.value == pytest.approx(after / 10)
    assert found.conclusion == ("undecided" if spread > 1.1 else conclusion)


def test_other_limits_are_not_comparable() -> None:
    first = served_run({"engine": 10.0}, spread=1.01)
    found = compare_answers(first, served_run({"engine": 5.0}, spread=1.01, itl=0.1), 0.1, NOISE)
    assert found.conclusion == "not-comparable"
    assert found.changes == ()


def test_a_server_without_a_goodput_in_one_run_is_named() -> None:
    first = served_run({"engine": 10.0, "other": 5.0}, spread=1.01)
    found = compare_answers(first, served_run({"engine": 10.0}, spread=1.01), 0.1, NOISE)
    assert found.only_before == ("other",)
    assert [change.arm for change in found.changes] == ["engine"]
