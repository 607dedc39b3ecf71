"""How certain the advice is, what lowers the trust, and what to do after an answer."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import builders
import built_answers
import built_measurements
import pytest
from builders import BASELINE, replace
from built_answers import recommend_for
from built_measurements import measured, raced
from golden_files import Expect
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.decide import certainty, scoring, trust
from advisor.decide.speedup_draws import draw_log_speedups, speedup_errors
from advisor.decide.unmeasured import machine_unfit, nothing_viable
from advisor.domain.answer import RankedArm
from advisor.domain.constraints import Constraint, Priorities
from advisor.domain.errors import NothingViableError
from advisor.domain.measurement import Cell, Interval, Measurement, MemoryBytes, VisitCounts
from advisor.domain.recommendation import Decision, DecisionWord, Recommendation, Trust
from advisor.domain.results import Results, ScoredArm, StoppedBuild
from advisor.domain.rubric import Rubric
from advisor.domain.workflow import Environment, Workflow
from probes.shape import Shape

QUIET, NOISY = 0.004, 0.3
RULE = builders.shipped_catalogue().rubric.decision


def results(*measurements: Measurement, noise: float = QUIET) -> Results:
    baseline = measured(BASELINE, *[1.0] * len(measurements[0].cells), spread=0.0)
    return raced(baseline, *measurements, noise_floor=noise)


def assess(
    found: Results,
    priorities: Priorities | None = None,
    *workflows: Workflow,
    seed: int = 0,
    rubric: Rubric | None = None,
    **allowed: Any,
) -> tuple[ScoredArm, Decision]:
    """Assess the arms of these workflows, and of ordinary ones."""
    names = {entry.workflow for entry in found.measurements} - {BASELINE}
    others = names - {workflow.id for workflow in workflows}
    known = builders.catalogue(*workflows, *map(builders.workflow, sorted(others)))
    known = replace(known, rubric=rubric or known.rubric)
    weights = priorities or builders.priorities()
    question = builders.question(priorities=weights, seed=seed)
    scored = scoring.score_arms(found, question, known)
    contest = certainty.Contest(found, scored, scored, question, known.rubric)
    return contest.advised, certainty.assess(contest, **allowed)


def test_a_workflow_that_is_far_ahead_is_clear() -> None:
    advised, found = assess(results(measured("fast", 5.0), measured("slow", 1.1)))
    assert (found.word, advised.arm, [*found.contenders]) == ("CLEAR", "fast", ["fast"])
    assert found.certainty > 0.999
    assert found.speed_regret.arm is None
    assert found.speed_regret.value == 1.0
    assert (found.lost_score, found.lost_speed, found.as_good) == (0.0, 0.0, ())
    assert found.chosen_for == "score"


@pytest.mark.parametrize(("possible", "word"), [(0.0, None), (9.0, "LIKELY")])
def test_nothing_is_decided_without_a_second_workflow_that_may_lead(
    possible: float, word: str | None
) -> None:
    one, two = measured("same/one", 2.0, spread=0.9), measured("same/two", 2.1, spread=0.9)
    arms = [replace(each, workflow="same") for each in (one, two)]
    both = replace(results(*arms), measurements=tuple(arms))
    advised, found = assess(both, outstanding={"late": possible})
    assert (advised.arm, found.word) == ("same/two", word)
    assert found.needed_repetitions is None


def test_an_arm_that_is_alone_has_no_word() -> None:
    alone = raced(measured(BASELINE, 1.0, spread=0.0))
    _, found = assess(alone, outstanding={"late": 9.0})
    assert (found.word, found.outstanding) == (None, ("late",))


@pytest.mark.parametrize(
    ("spread", "word", "repetitions"),
    [(0.05, "CLEAR", None), (0.6, "LIKELY", 8), (1.6, "OPEN", None)],
)
def test_the_word_follows_from_what_a_wrong_choice_may_cost(
    spread: float, word: str, repetitions: int | None
) -> None:
    """With much noise, more repetitions would be needed than are worth making."""
    arms = [measured(name, speed, spread=spread) for name, speed in (("one", 2.0), ("two", 2.1))]
    advised, found = assess(results(*arms))
    assert (found.word, advised.arm) == (word, "two")
    assert (found.certainty >= RULE.certain) == (word == "CLEAR")
    assert found.needed_repetitions == repetitions
    assert (found.lost_score > RULE.likely) == (word == "OPEN")


def test_the_lost_speed_is_the_gain_that_makes_up_for_the_lost_score() -> None:
    speed, spread = 2.0, 0.3
    advised, found = assess(results(measured("one", speed, spread=spread), measured("two", 1.99)))
    weight = builders.priorities().shares()["performance"]
    # From 1.5x on a doubling is worth one and a half letters.
    gain = 2 ** (found.lost_score / weight / 1.5) - 1
    assert found.lost_speed == pytest.approx(gain, rel=0.05)
    assert advised.arm == "one"
    _, without = assess(results(measured("one", 2.0)), builders.priorities(0, 50, 50))
    assert without.lost_speed is None


@pytest.mark.parametrize(("between", "lost"), [("log", 0.248), ("linear", 0.248), ("step", 0.0)])
def test_the_lost_speed_follows_the_rule_of_the_rubric(between: str, lost: float) -> None:
    """Where the arms differ in speed alone it is a rival's lead, whatever a lead is worth."""
    rubric = builders.shipped_catalogue().rubric
    performance, *others = rubric.criteria
    rule = replace(performance.grades[0], between=between, knots=((1.0, 1.0), (3.0, 3.0)))
    own = replace(rubric, criteria=(replace(performance, grades=(rule,)), *others))
    both = results(measured("one", 5.0, spread=0.3), measured("two", 5.0))
    _, found = assess(both, rubric=own)
    assert found.lost_speed == pytest.approx(lost, abs=0.001)


def test_no_more_speed_can_be_lost_than_the_intervals_allow() -> None:
    longer = builders.workflow("longer", declared=builders.declared(lines_changed=6))
    arms = (measured("short", 1.0, spread=0.002), measured("longer", 1.5, spread=0.002))
    advised, found = assess(results(*arms), builders.priorities(38, 62, 0), longer)
    assert (advised.arm, found.lost_speed) == ("longer", None)
    assert found.lost_score > 0.03
    close = [measured(f"arm{place}", 1.02, spread=0.05) for place in range(12)]
    advised, found = assess(results(*close), builders.priorities(10, 80, 10))
    assert advised.arm == BASELINE
    assert found.speed_regret.high == pytest.approx(close[0].speedup.high, abs=1e-3)


def test_several_arms_that_differ_by_chance_are_not_better_than_one_of_them() -> None:
    arms = [measured(f"same/{place}", 2.2, spread=0.9) for place in range(4)]
    same = [replace(each, workflow="same") for each in arms]
    steady = measured("steady", 2.2, spread=0.002)
    (_, alone), (_, together) = assess(results(steady, same[0])), assess(results(steady, *same))
    assert alone.word == together.word == "OPEN"
    assert together.contenders == pytest.approx(alone.contenders, abs=0.03)
    assert together.lost_score == pytest.approx(alone.lost_score, rel=0.1)


def test_servers_are_not_repeated_to_settle_the_decision() -> None:
    made = results(measured("one", 2.0), measured("two", 2.3))
    without_cells = tuple(
        replace(
            entry,
            cells=(),
            speedup=Interval(
                value=entry.speedup.value,
                low=entry.speedup.value / 1.5,
                high=entry.speedup.value * 1.5,
            ),
        )
        for entry in made.measurements
    )
    _, found = assess(replace(made, measurements=without_cells, races=()))
    assert found.word == "OPEN"
    assert found.needed_repetitions is None


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(0.2, 10), min_size=1, max_size=5), st.sampled_from([0.01, 0.2]))
def test_shares_regrets_and_words_fit_together(speeds: Sequence[float], spread: float) -> None:
    arms = [measured(f"arm{place}", one, spread=spread) for place, one in enumerate(speeds)]
    advised, found = assess(results(*arms))
    assert 0 <= found.certainty <= 1
    assert found.lost_score >= 0
    assert found.speed_regret.high >= found.speed_regret.value >= 1
    assert (found.word == "CLEAR") == (found.certainty >= RULE.certain)
    assert next(iter(found.contenders)) == advised.workflow


def timed_twice(found: Results, *arms: str) -> Results:
    """Return the results with two processes of these arms, and one of each other."""
    entries = tuple(
        replace(
            entry,
            cells=tuple(replace(each, processes=1 + (entry.arm in arms)) for each in entry.cells),
        )
        for entry in found.measurements
    )
    return replace(found, measurements=entries)


def test_one_process_of_each_arm_is_not_clear() -> None:
    found = results(measured("fast", 5.0), measured("slow", 1.1))
    alone = timed_twice(found)
    _, made = assess(alone)
    assert (made.word, made.replicated, made.needed_repetitions) == ("LIKELY", False, 1)
    _, of_others = assess(alone, builders.priorities(0, 50, 50))
    assert of_others.word == "CLEAR"


@pytest.mark.parametrize(("repeated", "word"), [("next", "CLEAR"), ("slowest", "LIKELY")])
def test_where_only_the_baseline_may_lead_the_next_workflow_is_to_be_repeated(
    repeated: str, word: str
) -> None:
    found = results(measured("next", 0.7), measured("slowest", 0.4))
    advised, made = assess(timed_twice(found, BASELINE, repeated))
    assert (advised.arm, made.word, [*made.contenders]) == (BASELINE, word, [BASELINE])


@pytest.mark.parametrize(
    ("fit", "possible", "word"),
    [(True, 0.0, "CLEAR"), (False, 0.0, "LIKELY"), (True, 9.0, "LIKELY")],
    ids=["fit", "unfit", "outstanding"],
)
def test_the_word_claims_no_more_than_the_machine_and_the_time_allowed(
    fit: bool, possible: float, word: str
) -> None:
    found = results(measured("fast", 5.0), measured("slow", 1.1))
    _, made = assess(found, fit=fit, outstanding={"late": possible})
    assert (made.word, made.fit) == (word, fit)
    assert made.outstanding == (("late",) if possible else ())
    assert made.needed_repetitions is None


def test_where_two_estimates_contradict_each_other_either_is_as_likely() -> None:
    unknown = Interval(value=0.22, low=0.02, high=2.31)
    found = []
    for fastest_calls in (None, unknown):
        (cell,) = measured("busy", 0.22).cells
        busy = replace(cell, speedup=unknown, fastest_calls=fastest_calls)
        cells = (busy, replace(busy, shape=Shape(16)))
        entry = replace(measured("busy", 0.22), speedup=unknown, cells=cells)
        errors = speedup_errors(results(entry), ["busy"])
        logs = draw_log_speedups(errors, seed=0)
        found.append((logs > 0).mean())
        assert math.log(0.01) < logs.mean() < 0
    normal, either = found
    assert normal < 0.13
    assert abs(either - 0.5) < 0.03


DISAGREES = built_measurements.sustained(burst_ratio=1.5, sustained_ratio=0.9, agrees=False)


def cell(processes: int = 3, shift: float = 0.0) -> Cell:
    return built_measurements.cell(1.5, 0.07, processes=processes, shift=shift)


def good(**changes: Any) -> Results:
    """Return results that lack nothing."""
    made = builders.results(builders.measurement("compiled", cells=(cell(),)))
    complete = replace(
        made,
        repeats=2,
        visits=VisitCounts(made=100, discarded=0, unfit=0),
        noise_floor=0.005,
        duplicates=1,
    )
    return replace(complete, **changes)


def grade(
    results: Results,
    word: DecisionWord | None = "CLEAR",
    missing: Sequence[Shape] = (),
    gain: float = 1.5,
) -> tuple[Trust, tuple[str, ...]]:
    return trust.grade(results, word, missing, gain=gain)


def entries(**changes: Any) -> dict[str, Any]:
    return {"measurements": (builders.measurement("compiled", **changes),)}


@pytest.mark.parametrize("decision", ["CLEAR", "LIKELY", None])
def test_complete_evidence_for_a_decision_is_trusted_most(decision: DecisionWord | None) -> None:
    assert grade(good(), decision) == ("A", ())


DOUBTS: list[dict[str, Any]] = [
    {"repeats": 0},
    entries(cells=(cell(processes=2),)),
    {"noise_floor": None},
    {"noise_floor": 0.06},
    {"sustained": DISAGREES},
    {"visits": VisitCounts(made=100, discarded=6, unfit=0)},
    {"visits": VisitCounts(made=100, discarded=0, unfit=6)},
    {"visits": VisitCounts(made=100, discarded=0, unfit=0, stalled_calls=1)},
    entries(cells=(cell(),), steady=False),
    entries(cells=(cell(shift=0.1),)),
]


@pytest.mark.parametrize("changes", DOUBTS, ids=str)
def test_one_missing_kind_of_evidence_costs_the_best_grade(changes: dict[str, Any]) -> None:
    found, reasons = grade(good(**changes))
    assert found == "B"
    assert len(reasons) == 1


@pytest.mark.parametrize(("unfit", "compiled"), [(0, True), (60, False)])
def test_slow_calls_of_a_busy_machine_have_no_guessed_cause(unfit: int, *, compiled: bool) -> None:
    visits = VisitCounts(made=100, discarded=0, unfit=unfit, stalled_calls=1)
    assert ("the stack compiled" in "".join(grade(good(visits=visits))[1])) == compiled


@pytest.mark.parametrize(
    ("arms", "duplicates", "least"), [(2, 1, "A"), (1, 2, "A"), (1, 1, "B"), (2, 0, "B")]
)
def test_arms_in_two_processes_and_the_duplicates_show_together_what_processes_differ_by(
    arms: int, duplicates: int, least: str
) -> None:
    twice = (cell(processes=2),)
    entries = [builders.measurement(f"compiled/{number}", cells=twice) for number in range(arms)]
    results = good(measurements=tuple(entries), duplicates=duplicates)
    assert grade(results)[0] == least


def test_two_missing_kinds_cost_two_grades_and_two_reasons_of_one_kind_cost_one() -> None:
    single = entries(cells=(cell(processes=1),))
    assert grade(good(repeats=0, **single))[0] == "C"
    both = good(noise_floor=0.06, visits=VisitCounts(made=100, discarded=6, unfit=0))
    assert grade(both)[0] == "B"


@pytest.mark.parametrize(
    ("noise", "gain", "expected"),
    [(0.4, 1.5, "C"), (0.4, 2.3, "B"), (0.4, 1 / 2.3, "B"), (0.06, 1.0, "C"), (0.04, 1.0, "A")],
)
def test_noise_beyond_half_of_the_gain_costs_a_grade(
    noise: float, gain: float, expected: str
) -> None:
    found, reasons = grade(good(noise_floor=noise), gain=gain)
    assert found == expected
    assert any(f"{gain:.2f}x" in reason for reason in reasons) == (expected == "C")
    assert " ".join(reasons).count("may differ by") == (expected != "A"), "said once"
    assert any("the choice is clear" in reason for reason in reasons) == (expected == "C")


@pytest.mark.parametrize(
    ("decision", "changes", "missing"),
    [
        ("OPEN", {}, ()),
        ("CLEAR", {}, (16, 64)),
        ("CLEAR", {"noise_floor": 0.6}, ()),
        ("CLEAR", {"visits": VisitCounts(made=100, discarded=0, unfit=60)}, ()),
    ],
)
def test_an_open_decision_missing_sizes_or_an_unfit_machine_allow_no_trust(
    decision: DecisionWord, changes: dict[str, Any], missing: tuple[int, ...]
) -> None:
    found, reasons = grade(good(**changes), decision, [*map(Shape, missing)])
    assert found == "D"
    assert reasons
    assert all(any(str(size) in reason for reason in reasons) for size in missing)


@pytest.mark.parametrize(
    "unfit", [{"noise_floor": 0.6}, {"visits": VisitCounts(made=10, discarded=3, unfit=6)}], ids=str
)
def test_the_reason_of_the_lowest_grade_comes_before_those_that_would_not_cause_it(
    unfit: dict[str, Any],
) -> None:
    (decisive, *_), lesser = (grade(good(**changes))[1] for changes in (unfit, {"repeats": 0}))
    found, reasons = grade(good(**unfit, repeats=0))
    assert found == "D"
    assert reasons[0] == decisive
    assert set(lesser) < set(reasons)
    assert len(set(reasons)) == len(reasons)


def advise(measurement: Measurement) -> Recommendation:
    head = builders.header(
        catalogue=builders.catalogue(
            builders.workflow("other", deployment_steps=("another",)),
            builders.workflow("compiled", deployment_steps=("keep the cache",)),
        )
    )
    arms = [builders.scored_arm("compiled")]
    return recommend_for(builders.results(measurement), arms, head)


def test_what_was_built_is_kept_and_what_was_measured_is_pinned(expect: Expect) -> None:
    measurement = builders.measurement("compiled", versions={"triton": "3.6.0", "torch": "2.12.0"})
    expect("next-steps-pinned", advise(measurement).next_steps)


def test_an_arm_that_was_not_built_in_time_is_named_with_what_allows_more_time(
    expect: Expect,
) -> None:
    results = replace(
        builders.results(builders.measurement("compiled", versions={})),
        stopped_builds=(
            StoppedBuild(arm="engine", fix="allow more with --max-build-times"),
            StoppedBuild(arm="exported", started=False, fix="ask for more with --requests"),
        ),
    )
    advice = recommend_for(results, [builders.scored_arm("compiled")])
    expect("next-steps-unbuilt", advice.next_steps)


def test_one_command_creates_all_missing_environments() -> None:
    own = Environment(kind="own", name="shared-by-two")
    known = builders.catalogue(
        builders.workflow("one"),
        builders.workflow("first", environment=own),
        builders.workflow("second", environment=own),
        builders.workflow("third", environment=Environment(kind="own")),
    )
    missing = [builders.unmeasured(name, fix="a command") for name in ("first", "second", "third")]
    head = builders.header(catalogue=known)
    results = builders.results(builders.measurement("compiled", versions={}))
    advice = recommend_for(results, [builders.scored_arm("compiled")], head, excluded=missing)
    (step,) = advice.next_steps
    assert step.partition("p3-advisor ")[2].split() == ["env", "create", "shared-by-two", "third"]


def test_the_value_nearest_to_each_constraint_is_named_when_nothing_is_left(expect: Expect) -> None:
    question = builders.question(
        constraints=(
            Constraint(criterion="speedup", at_least=50),
            Constraint(criterion="memory", at_most=2**20),
            Constraint(criterion="ttft", at_most=0.1),
            Constraint(criterion="performance", at_least=3),
        )
    )
    results = builders.results(
        *(
            builders.measurement(
                name, speedup=speedup, memory_bytes=MemoryBytes(peak=peak << 20, source="a test")
            )
            for name, speedup, peak in (("one", 1.2, 300), ("two", 1.9, 200), ("three", 1.0, 400))
        )
    )
    known = builders.catalogue(*map(builders.workflow, ("one", "two", "three")))
    arms = scoring.score_arms(results, question, known)
    answer = built_answers.answer(question=question, results=results, scores=arms, unmeasured=())
    problem = nothing_viable(answer, ())
    assert isinstance(problem, NothingViableError)
    expect("nothing-viable", [problem.what, problem.next_step])


def test_a_run_without_an_answer_names_the_budget_of_a_further_run(expect: Expect) -> None:
    noisy = builders.results(builders.measurement("one"), noise_floor=3.0)
    budget = builders.question().budget
    (measured,) = noisy.measurements
    ends = Interval(value=2.0, low=1.4, high=4.0)
    leader = RankedArm(builders.scored_arm("one"), replace(measured, speedup=ends))
    further, last = (machine_unfit(noisy, each, leader, leader) for each in (budget, None))
    fast = replace(measured, speedup=Interval(value=5.0, low=4.4, high=6.0))
    fastest = RankedArm(builders.scored_arm("two"), fast)
    told = machine_unfit(noisy, None, leader, fastest).what
    nothing = replace(measured, speedup=Interval(value=5.0, low=None, high=None))
    unknown = RankedArm(builders.scored_arm("two"), nothing)
    undecided = machine_unfit(noisy, None, unknown, unknown).what
    texts = [further.what, further.next_step, last.next_step, told, undecided]
    expect("machine-unfit", texts)
