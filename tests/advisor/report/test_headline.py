"""The headline: what to use, how certain that is, what is faster, and what would change it."""

from __future__ import annotations

import math
import re
from typing import Any

import builders
import built_answers
import built_measurements
import pytest
from builders import BASELINE, DEMO, replace
from built_measurements import against_baseline, measured
from golden_files import Expect
from hypothesis import given, settings
from hypothesis import strategies as st
from kept.runs import decide_run

from advisor.decide.answers import answer_from_results
from advisor.decide.rivals import CLEARLY_FASTER
from advisor.decide.serving import compare_with_asked_rate
from advisor.domain.answer import AdvisedAnswer
from advisor.domain.constraints import Constraint
from advisor.domain.machine import Cpu
from advisor.domain.measurement import Interval, Measurement, MemoryBytes
from advisor.domain.model import FactoryModel, OnnxModel
from advisor.domain.question import choose_next_budget
from advisor.domain.recommendation import SpeedRegret
from advisor.domain.results import MeasuredInputs
from advisor.domain.serving import RateLevel
from advisor.domain.text import format_apart, join_names
from advisor.domain.workflow import Workflow
from advisor.report import text_report
from advisor.report.advice_lines import describe_steps
from advisor.report.advised_arm import describe_changed_states, describe_goodput
from advisor.report.answer_lines import answer_lines, short_answer_lines
from advisor.report.headline import write_headline
from advisor.report.other_arms import describe_certainty
from probes.accuracy import Accuracy

CPU = Cpu(model="a CPU", physical_cores=2, usable_processors=2, memory_bytes=16 << 30)


def advise_between(
    *arms: Measurement,
    workflows: tuple[Workflow, ...] = (),
    noise_floor: float | None = 0.004,
    has_batch: bool | None = None,
    example_rows: int | None = None,
    **asked: Any,
) -> AdvisedAnswer:
    results = against_baseline(
        *arms,
        noise_floor=noise_floor,
        inputs=MeasuredInputs(
            fixed=0, has_length=True, has_batch=has_batch, example_rows=example_rows
        ),
    )
    sizes = tuple(each.shape.batch_size for each in results.races)
    asked = {"model": DEMO, "batch_sizes": sizes, **asked}
    head = built_answers.header_for(results, *workflows, **asked)
    head = replace(head, machine=builders.machine(cpu=CPU))
    return built_answers.advised(built_answers.answer_of(results, head))


def test_a_clear_answer_has_three_lines(expect: Expect) -> None:
    found = advise_between(measured("compiled", 1.5))
    assert found.decision.word == "CLEAR"
    assert (found.advice.arm, found.advice.flips, found.decision.speed_regret) == (
        "compiled",
        (),
        SpeedRegret(arm=None, value=1.0, high=1.0),
    )
    assert [line.part for line in write_headline(found.answer)] == ["answer", "certainty", "change"]
    expect("headline-clear", built_answers.headline(found.answer))


@pytest.mark.parametrize(
    ("speedup", "spread", "share", "told"),
    [
        (1.04, 0.04, 40, ", or keep .*, which is about as good .*"),
        (1.06, 0.06, 90, "; it may be no faster than Pytorch-Eager"),
        (1.12, 0.04, 90, ""),
        (1.0, 0.002, 90, ""),
    ],
)
def test_a_small_gain_comes_first(speedup: float, spread: float, share: float, told: str) -> None:
    weights = builders.priorities(share, 95 - share, 5)
    found = advise_between(measured("compiled", speedup, spread=spread), priorities=weights)
    first, second, *_ = built_answers.headline(found.answer)
    assert (found.decision.word, found.decision.gains_little) == ("CLEAR", bool(told))
    assert re.search(f"2 cores{told}\\.$", first), first
    assert "keep" not in told or "about as good" not in second, "it is said once"


def test_the_batch_size_of_the_examples_is_named_if_it_was_not_measured() -> None:
    compiled = measured("compiled", 1.5)
    size = compiled.cells[0].shape.batch_size
    for rows, is_named in ((size + 7, True), (size, False), (None, False)):
        answer = advise_between(compiled, example_rows=rows).answer
        lines = built_answers.headline(answer, "batch-sizes")
        assert any(f"--batch-sizes {rows}" in line for line in lines) == is_named


def test_a_reference_in_the_models_own_precision_is_said() -> None:
    checked = builders.checked(reference="float32", rmse=0.0, rmse_eager=1e-7)
    baseline = measured(BASELINE, 1.0, correctness=(checked,))
    close = Accuracy(fault="row-error", relative_error=2e-7, ratio_to_eager=2.0)
    checked = builders.checked(accuracy_class="close", reference="float32", accuracy=close)
    compiled = measured("compiled", 1.5, correctness=(checked,))
    own = built_answers.answer_of(builders.results(baseline, compiled))
    texts = [
        " ".join(built_answers.headline(each)) for each in (own, advise_between(compiled).answer)
    ]
    assert ["itself in float32" in each for each in texts] == [True, False]
    assert ["times what rounding alone" in each for each in texts] == [True, False]


def test_states_that_a_program_may_drop_are_named(expect: Expect) -> None:
    checked = builders.checked(accuracy=Accuracy(changed_states=("n", "mean", "log", "hidden")))
    advised = advise_between(measured("compiled", 1.5, correctness=(checked,))).answer
    expect("headline-changed-states", built_answers.headline(advised))
    undecided = builders.replace(advised, recommendation=None)
    (told,) = describe_changed_states(undecided.ranking)
    assert told in answer_lines(undecided)


@pytest.mark.parametrize(
    ("model", "told"),
    [
        (OnnxModel(name="/net.onnx"), "with inputs that were drawn at batch size 1 (--batch"),
        (OnnxModel(name="/net.onnx", inputs="/in.npz"), "was called at batch size 1 (--batch"),
        (OnnxModel(name="/net.onnx", batch_size=1), ""),
        (DEMO, ""),
    ],
)
def test_a_file_with_a_free_batch_size_says_what_it_was_called_with(model: Any, told: str) -> None:
    found = advise_between(measured("compiled", 1.5), model=model)
    lines = built_answers.headline(found.answer, "batch-sizes")
    assert (len(lines), told in "".join(lines)) == (bool(told), True)


@pytest.mark.parametrize("other", ["onnxruntime-cpu/io-binding", "openvino"])
def test_arms_of_a_file_that_differ_in_settings_alone_are_called_so(other: str) -> None:
    baseline = measured("onnxruntime-cpu/host", 1.0, spread=0.0)
    faster = measured(other, 1.5)
    workflows = map(builders.workflow, ("onnxruntime-cpu", "openvino"))
    results = builders.results(baseline, faster, baseline=baseline.arm)
    head = builders.header_of(*workflows, model=OnnxModel(name="/net.onnx"))
    told = "only its settings" in built_answers.headline(built_answers.answer_of(results, head))[1]
    assert told == (other != "openvino")


def test_the_reason_of_an_answer_that_is_not_the_first_is_named(expect: Expect) -> None:
    longer = builders.workflow("longer", declared=builders.declared(lines_changed=6))
    found = advise_between(
        measured("short", 1.0, spread=0.002),
        measured("longer", 1.5, spread=0.002),
        workflows=(longer,),
        priorities=builders.priorities(38, 62, 0),
    )
    assert (found.decision.chosen_for, found.advice.arm) == ("speed", "longer")
    assert found.answer.scores[0].arm != "longer"
    assert builders.known(found.advice.margin) < 0
    expect("headline-chosen-for-speed", built_answers.headline(found.answer))
    first, *others = found.answer.scores
    lines = write_headline(replace(found.answer, scores=(replace(first, unproven=True), *others)))
    expect("headline-unproven", [line.text for line in lines[:2]])


def test_options_of_the_advised_workflow_that_are_about_as_good_are_named(expect: Expect) -> None:
    options = (measured("same/a", 2.0, spread=0.05), measured("same/b", 1.97, spread=0.05))
    found = advise_between(
        *(replace(each, workflow="same") for each in options),
        workflows=(builders.workflow("same"),),
    )
    assert (found.advice.arm, found.decision.options_as_good) == ("same/a", ("same/b",))
    expect("headline-options", built_answers.headline(found.answer)[:2])


def test_beside_the_baseline_the_best_other_workflow_is_named(expect: Expect) -> None:
    found = advise_between(measured("slow", 0.9), measured("slower", 0.8))
    assert found.advice.arm == BASELINE
    expect("headline-baseline", built_answers.headline(found.answer))


def test_from_which_certainty_on_it_is_not_missing_is_a_value_of_the_rubric() -> None:
    found = advise_between(measured("one", 2.0, spread=3.0)).answer
    known = builders.catalogue(builders.workflow("one"))
    reached = builders.known(found.recommendation).decision.certainty
    for share, is_missing in ((reached, False), (0.95, True)):
        rubric = replace(known.rubric, decision=replace(known.rubric.decision, clear_share=share))
        again = answer_from_results(found, replace(known, rubric=rubric))
        assert built_answers.advised(again).decision.certain != is_missing
        certainty = built_answers.headline(again, "certainty")[0]
        assert ("best, or about as good, with " in certainty) == is_missing


def test_an_open_answer_says_what_to_use_meanwhile(expect: Expect) -> None:
    found = advise_between(measured("one", 2.0, spread=3.0), measured("two", 3.0, spread=3.0))
    assert found.decision.word == "OPEN"
    assert {*found.decision.contenders} == {"one", "two"}
    assert found.decision.needed_repetitions is not None
    assert "--wait-for-quiet" in describe_steps(found.answer)[0], "what settles it comes first"
    expect("headline-open", built_answers.headline(found.answer))


def test_a_doubt_is_not_denied_by_what_a_wrong_choice_costs(expect: Expect) -> None:
    cells = (built_measurements.cell(2.0, processes=1),)
    found = advise_between(replace(measured("once", 2.0), cells=cells))
    assert (found.decision.word, found.decision.timed_once) == ("LIKELY", ("once",))
    assert found.decision.lost_speed == 0
    assert " --budget " in describe_steps(found.answer)[0], "what settles it comes first"
    answer = built_answers.with_question(found.answer, workflows=("once",))
    restricted = write_headline(answer)[1].text
    told = [*built_answers.headline(found.answer, "certainty"), restricted]
    several = replace(found.decision, timed_once=("once", BASELINE), certain=False)
    other = built_answers.with_advice(found.answer, decision=several)
    expect("headline-one-process", [*told, *built_answers.headline(other, "certainty")])


@pytest.mark.parametrize(
    ("repeats", "needed", "budget"),
    [(0, 1, "quick"), (1, 1, "standard"), (2, 1, "thorough"), (2, 4, "thorough"), (5, 1, None)],
)
def test_the_next_budget_makes_the_missing_repetitions(
    repeats: int, needed: int, budget: str | None
) -> None:
    """The budgets repeat the leaders 1, 2 and 5 times."""
    budgets = builders.shipped_catalogue().presets.budgets
    spent = replace(budgets["quick"], repeats=0)
    found = choose_next_budget(budgets.values(), spent, made=repeats, needed=needed)
    assert (found.name if found else None) == budget


HARD = builders.workflow(
    "hard",
    declared=builders.declared(lines_changed=50, export_step=True, new_shapes="refused", vendors=1),
)


def test_a_faster_arm_is_named_with_what_it_loses_and_when_it_wins(expect: Expect) -> None:
    error = Accuracy(relative_error=6.6e-4)
    close = builders.checked(accuracy_class="close", accuracy=error, rmse=6.6e-4)
    found = advise_between(
        measured("easy", 2.0),
        measured("hard", 4.2, correctness=(close,)),
        workflows=(HARD,),
        priorities=builders.priorities(20, 40, 40),
    )
    assert found.advice.arm == "easy"
    assert found.decision.speed_regret.arm == "hard"
    assert found.decision.speed_regret.value == pytest.approx(2.1)
    expect("headline-faster", built_answers.headline(found.answer))
    assert ("performance", "hard") in {(flip.criterion, flip.to) for flip in found.advice.flips}


def test_a_faster_arm_leads_from_the_weight_at_which_it_leads_all_arms() -> None:
    middle = builders.workflow(
        "middle", declared=builders.declared(lines_changed=20, export_step=True)
    )
    found = advise_between(
        measured("easy", 1.2),
        measured("middle", 2.2),
        measured("hard", 3.0),
        workflows=(middle, HARD),
        priorities=builders.priorities(20, 40, 40),
    )
    raised = [
        flip
        for flip in found.advice.flips
        if (flip.criterion, flip.when) == ("performance", "more")
    ]
    assert (found.advice.arm, [flip.to for flip in raised]) == ("easy", ["middle", "hard"])
    (line,) = (line for line in built_answers.headline(found.answer) if "Faster: Hard" in line)
    assert f"more than {math.ceil(raised[1].weight)} %" in line


@pytest.mark.parametrize(("least", "most"), [(1.4, None), (1.51, 130), (1.4, 120), (1.0, 140)])
def test_a_required_figure_whose_spread_crosses_the_limit_is_a_doubt(
    least: float, most: int | None
) -> None:
    memory = MemoryBytes(peak=118 << 20, source="a test", spread=(118 << 20, 131 << 20))
    easy = measured("easy", 1.5, memory_bytes=memory)
    speed = Interval(value=1.55, low=1.45, high=1.65)
    limits = (
        Constraint("speedup", ">=", least),
        Constraint("memory", "<=", (most or 200) << 20),
        Constraint("portability", ">=", 1),
    )
    found = advise_between(replace(easy, speedup=speed), constraints=limits)
    told = " ".join(built_answers.headline(found.answer, "constraint"))
    assert ("speedup is 1.45 to 1.65x" in told) == (least > 1.45)
    assert ("memory is 118 to 131 MiB, and the limit <=" in told) == (most in {120, 130})


def test_an_arm_that_no_other_accompanies_names_the_limit_of_the_best_other() -> None:
    memory = MemoryBytes(peak=400 << 20, source="a test")
    limits = (Constraint("memory", "<=", 300 << 20),)
    large = measured("large", 1.5, memory_bytes=memory)
    found = advise_between(large, constraints=limits, priorities=builders.priorities(10, 20, 70))
    assert found.advice.arm == "pytorch-eager"
    assert "Large: memory is 400MiB" in " ".join(built_answers.headline(found.answer, "certainty"))
    lines = " ".join(short_answer_lines(found.answer))
    assert lines.count(found.answer.question.priorities.describe()) == 1


def test_the_winner_of_each_batch_size_is_named_where_they_differ(expect: Expect) -> None:
    found = advise_between(measured("small", 6.0, 1.5, 0.8), measured("large", 1.1, 1.6, 2.2))
    assert found.advice.arm == "small"
    best = {one.shape.batch_size: one.arm for one in found.advice.advice_by_shape}
    assert best == {1: "small", 4: "large", 16: "large"}
    assert built_answers.headline(found.answer, "batch-sizes")
    expect("headline-batch-sizes", built_answers.headline(found.answer))
    busy = built_answers.with_results(found.answer, noise_floor=4.0)
    lines = {line.part for line in write_headline(busy)}
    assert "batch-sizes" not in lines, "single figures of a busy machine say nothing"


@pytest.mark.parametrize(
    ("run", "sizes"),
    [
        ("h200-ranking-bfloat16", ["1"]),
        ("h100-minilm-float32-standard", []),
        ("cpu-generate-demo-gpt2", []),
        ("cpu-vit-base-float32", []),
    ],
)
def test_an_arm_that_is_faster_at_one_size_alone_is_named(run: str, sizes: list[str]) -> None:
    lines = built_answers.headline(decide_run(run), "batch-sizes")
    assert re.findall(r"Faster at batch size (\d+)", " ".join(lines)) == sizes


@pytest.mark.parametrize("has_batch", [True, False, None])
def test_inputs_without_a_batch_are_named(has_batch: bool | None, expect: Expect) -> None:
    model = FactoryModel(name="demo")
    found = advise_between(measured("compiled", 1.5), has_batch=has_batch, model=model)
    assert bool(built_answers.headline(found.answer, "batch-sizes")) == (has_batch is False)
    if has_batch is False:
        expect("headline-without-batch", built_answers.headline(found.answer))


def test_an_arm_without_rivals_is_not_said_to_have_the_highest_score(expect: Expect) -> None:
    found = advise_between()
    assert (found.advice.arm, found.decision.word) == (BASELINE, None)
    expect("headline-only-arm", built_answers.headline(found.answer))


def test_a_workflow_that_failed_is_named_beside_the_only_result(expect: Expect) -> None:
    failed = (
        builders.unmeasured("aot/half", workflow="aot", option="half", fix="use another dtype"),
        builders.unmeasured("aot", option="default", status="crashed", reason="by SIGSEGV"),
        builders.unmeasured("aot/dynamic", workflow="aot", option="dynamic", status="crashed"),
        builders.unmeasured("absent", status="not-installed", fix="install it"),
    )
    answer = replace(advise_between().answer, unmeasured=failed)
    lines = write_headline(answer)
    first, certainty, change = (line.text for line in lines)
    assert not first.startswith("Use ")
    assert certainty.count("crashed") == 1
    assert failed[1].title in certainty
    assert failed[3].title not in certainty
    assert str(failed[1].fix) in change
    assert f"{failed[1].title}: by SIGSEGV. To compare it: " in change
    further = (builders.unmeasured(name, option="default", status="crashed") for name in "wxyz")
    assert "2 others" in write_headline(replace(answer, unmeasured=(*failed, *further)))[1].text
    asked = replace(built_answers.with_question(answer, workflows=("aot",)), unmeasured=failed[1:2])
    assert text_report.render_summary(asked, 100).count("by SIGSEGV") == 1
    wrong = builders.unmeasured(option="default", status="incorrect", fix=None)
    answer = built_answers.with_question(answer, workflows=("aot",))
    answer = replace(answer, unmeasured=(wrong,))
    expect("headline-alone-incorrect", write_headline(answer)[2].text)


speeds = st.lists(st.floats(0.1, 20), min_size=1, max_size=5)


@settings(max_examples=100, deadline=None)
@given(
    speeds,
    st.lists(st.booleans(), min_size=5, max_size=5),
    st.sampled_from([0.01, 0.3]),
    st.integers(0, 100),
)
def test_no_arm_is_advised_while_a_clearly_faster_one_goes_unnamed(
    drawn: list[float], hard: list[bool], spread: float, performance: int
) -> None:
    arms = [measured(f"arm{place}", one, spread=spread) for place, one in enumerate(drawn)]
    workflows = tuple(
        replace(HARD, id=measured.arm, title=measured.arm)
        for measured, is_hard in zip(arms, hard, strict=False)
        if is_hard
    )
    rest = 100 - performance
    weights = builders.priorities(performance, rest / 2, rest / 2)
    found = advise_between(*arms, workflows=workflows, priorities=weights)
    speedups = {measured.arm: measured.speedup.value for measured in arms} | {BASELINE: 1.0}
    fastest = max(speedups, key=lambda arm: speedups[arm])
    told = " ".join(built_answers.headline(found.answer))
    is_named = f"aster: {found.answer.titles[fastest]} (" in told
    assert is_named or speedups[fastest] < CLEARLY_FASTER * speedups[found.advice.arm]


def test_an_unknown_noise_floor_lowers_the_certainty() -> None:
    fast = measured("fast", 2.0)
    known, unknown = (advise_between(fast, noise_floor=floor) for floor in (0.004, None))
    assert unknown.decision.certainty < known.decision.certainty


@pytest.mark.parametrize("performance", [40, 0])
def test_an_unfit_machine_gives_ranges_at_all_weights(performance: int, expect: Expect) -> None:
    rest = (100 - performance) / 2
    found = advise_between(
        measured("fast", 3.0, spread=0.5),
        measured("also", 1.5, spread=0.5),
        noise_floor=0.6,
        priorities=builders.priorities(performance, rest, rest),
    )
    assert found.decision.fit is False
    assert found.decision.word == ("LIKELY" if performance else "CLEAR")
    certainty = "".join(built_answers.headline(found.answer, "certainty"))
    assert ("between" in certainty.lower()) == (found.advice.arm != BASELINE)
    assert "3.00x" not in certainty
    expect(f"headline-unfit-{performance}", built_answers.headline(found.answer))


def test_figures_that_differ_are_not_rounded_to_the_same() -> None:
    written = [describe_certainty(share) for share in (0.9499, 0.95, 0.989, 0.995)]
    assert written == [f"certainty {each} %" for each in (94, 95, 98, "over 99")]
    assert format_apart(2.2312, 2.2309) == ("2.2312", "2.2309")
    assert format_apart(2.23, 2.22) == ("2.23", "2.22")


def test_names_with_commas_are_separated_by_semicolons() -> None:
    assert join_names(["a", "b", "c"], "or") == "a, b or c"
    assert join_names(["a, b", "c"], "or") == "a, b or c"
    assert join_names(["a, b", "c", "d"], "or") == "a, b; c; or d"


GOODPUT = Interval(value=10.0, low=8.0, high=12.0)


def lines(rate: float | None, *levels: RateLevel) -> list[str]:
    served = built_measurements.served_arm(
        goodput=GOODPUT, levels=levels, asked=compare_with_asked_rate(GOODPUT, levels, rate, 2.5)
    )
    serving = built_measurements.serving(served)
    head = builders.header_of(builders.workflow("engine"), load=built_measurements.load(rate=rate))
    measured = builders.results(builders.measurement("engine"), serving=serving)
    answer = built_answers.answer_for(measured, [builders.scored_arm("engine")], head)
    return describe_goodput(built_answers.advised(answer))


@pytest.mark.parametrize("rate", [None, 5.0, 40.0, 9.0])
def test_the_goodput_is_stated_and_the_servers_for_an_asked_rate_with_their_price(
    rate: float | None, expect: Expect
) -> None:
    expect(f"load-lines-{rate:g}" if rate else "load-lines", lines(rate))


def test_the_latency_of_each_server_is_that_at_its_share_of_the_rate(expect: Expect) -> None:
    expect("load-lines-latency", lines(40.0, built_measurements.rate_level(10.1)))
