"""The text report, and the lines with which every output begins."""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from typing import Any

import builders
import built_answers
import msgspec
import pytest
from golden_files import Expect
from kept.runs import EVIDENCE, NAMES, decide_run

from advisor.domain.answer import Answer
from advisor.domain.constraints import Constraint, FailedConstraint
from advisor.domain.errors import MachineUnfitError, NothingViableError
from advisor.domain.measurement import Interval, MemoryBytes, VisitCounts
from advisor.domain.model import OnnxModel
from advisor.domain.plan import EAGER
from advisor.domain.recommendation import Flip, ShapeAdvice, Side
from advisor.domain.results import MeasuredInputs
from advisor.domain.text import MISSING, NO_BREAK_SPACE
from advisor.recipes.snippet import KEEPS_MEMORY, NEEDS_WRAPPER
from advisor.report import explanation, markdown, page, text_report
from advisor.report.advised_arm import MEMORY_KEPT
from advisor.report.answer_files import REPORT_FORMATS
from advisor.report.answer_lines import (
    UNFIT_NOTICE,
    UNKNOWN_NOTICE,
    answer_lines,
    code_lines,
    stop_notice,
    unfit_notice,
)
from advisor.report.cost import cost_line
from advisor.report.headline import certainty_line
from advisor.report.other_arms import flip_lines, partly_used, unranked
from advisor.report.ranking import ranking_rows
from probes.facts import FREED_MEMORY, TRAINING_MODE, InputSpec

NONE = built_answers.without_advice(
    built_answers.answer(), NothingViableError("everything failed", "ask for less")
)
TOO_SLOW = FailedConstraint(index=0, constraint=Constraint("speedup", ">=", 9.0), value=1.5)


@pytest.mark.parametrize(("share", "shown"), [(0.25, True), (0.5, False)])
def test_a_measured_arm_that_did_less_than_half_of_the_work_has_a_line(
    share: float, shown: bool, expect: Expect
) -> None:
    made = built_answers.with_measurement(
        built_answers.answer(), "compiled", engaged_share=share, engagement="8 of 32 passes"
    )
    found = partly_used(made)
    assert bool(found.lines) == shown
    assert (f"{found.title}:" in text_report.render(made).splitlines()) == shown
    if shown:
        expect("text-partly-used", [found.title, *found.lines])


def test_an_unfinished_run_has_the_command_to_resume_and_its_missing_batch_sizes() -> None:
    made = built_answers.answer(finished=False, question=builders.question(batch_sizes=(1, 16, 64)))
    (notice,) = stop_notice(made)
    assert f"p3-advisor resume {made.run_id}" in notice
    assert text_report.render(made).splitlines()[1] == notice
    assert markdown.render(made).splitlines()[2] == f"{notice}  "
    assert notice in page.render(made)
    for render in (markdown.render, page.render):
        assert "1, 16, 64; not measured: 16, 64" in render(made)
    assert stop_notice(built_answers.answer()) == []
    (elsewhere,) = stop_notice(built_answers.answer(finished=False, foreign=True))
    assert "p3-advisor" not in elsewhere
    (decided,) = stop_notice(builders.replace(made, rerun_command="p3-advisor decide"))
    assert decided == notice


def test_what_an_unfinished_run_has_not_measured_is_named() -> None:
    names = ("a", "b", "c", "d", "e")
    late = [builders.unmeasured(name, status="not-reached", option="default") for name in names]
    crashed = builders.unmeasured("broken", status="crashed", option="default")
    made = built_answers.answer(finished=False, unmeasured=(crashed, *late))
    assert ": A, B, C and 2 others not measured;" in stop_notice(made)[0]
    repeated = builders.replace(made.results, repeats=1)
    done = builders.replace(made, unmeasured=(crashed,), results=repeated)
    assert "repetitions and checks" in stop_notice(done)[0]


def test_a_run_that_would_fail_again_is_resumed_only_after_a_change(expect: Expect) -> None:
    goes_on, fails = (
        stop_notice(built_answers.answer(finished=False, resumable=each)) for each in (True, False)
    )
    assert goes_on == stop_notice(built_answers.answer(finished=False))
    assert goes_on != fails
    expect("text-fails-again", fails)
    stopped = builders.replace(NONE, finished=False, scores=())
    shown = [of_text(builders.replace(stopped, resumable=each)) for each in (True, False)]
    assert ["\nNext: " in each for each in shown] == [False, True]


def test_trust_noise_and_lead_follow_the_headline(expect: Expect) -> None:
    made = built_answers.with_advice(
        built_answers.answer(), trust="C", runner_up="other", margin=0.25
    )
    lines = text_report.render(made).splitlines()
    headline = built_answers.headline(made)
    count = len(headline)
    assert count >= 3
    assert lines[:count] == headline
    expect("text-evidence", lines[count : count + 4])


def test_a_machine_that_is_not_fit_is_no_answer() -> None:
    busy = MachineUnfitError("busy", "measure again")
    measured = built_answers.without_advice(built_answers.answer(), busy)
    lines = text_report.render(measured).splitlines()
    assert lines[:2] == ["No answer: busy", "Next: measure again"]
    assert UNFIT_NOTICE in lines
    unknown = built_answers.with_measurement(measured, speedup=Interval(value=9, low=0.1, high=900))
    assert UNKNOWN_NOTICE in text_report.render(unknown)
    baseline = [each for each in measured.scores if each.arm == builders.BASELINE]
    assert not unfit_notice(builders.replace(measured, scores=tuple(baseline)))
    late = builders.replace(measured, unmeasured=(builders.unmeasured(skip_cause="out-of-time"),))
    assert len(answer_lines(late)) == len(answer_lines(measured)) - 1  # no resume
    arms = {each.arm for each in measured.scores}
    head, *rows = ranking_rows(unknown, has_intervals=False)
    ranks = {row[1]: (row[0], row[head.index("score")]) for row in rows}
    assert ranks == dict.fromkeys(arms, (MISSING, MISSING))
    assert MISSING in {row[head.index("Perf")] for row in rows}, "the letter of a range"


def test_an_arm_whose_speed_is_unknown_has_no_score_beside_those_that_are_known() -> None:
    """A few calls that other work delayed do not make an arm the last one."""
    unfit = built_answers.with_results(built_answers.answer(), noise_floor=4.0)
    lost, faster = (
        built_answers.with_measurement(
            unfit, "compiled", speedup=Interval(value=2.0, low=low, high=600.0)
        )
        for low in (0.9, 1.02)
    )
    for answer, is_missing in ((unfit, False), (lost, True), (faster, False)):
        head, *rows = ranking_rows(answer, has_intervals=False)
        scores = {row[head.index("arm")]: row[head.index("score")] for row in rows}
        assert (scores.pop("compiled") == MISSING) == is_missing
        assert MISSING not in scores.values()


@pytest.mark.parametrize("render", [text_report.render, markdown.render, page.render])
@pytest.mark.parametrize(
    ("changes", "unusable"),
    [
        ({"noise_floor": 0.3}, False),
        ({"noise_floor": 4.0}, True),
        ({"visits": VisitCounts(made=10, discarded=0, unfit=4)}, False),
        ({"visits": VisitCounts(made=10, discarded=0, unfit=6)}, True),
    ],
)
def test_figures_of_an_unfit_machine_have_a_notice_next_to_an_answer(
    changes: dict[str, Any], unusable: bool, render: Callable[[Answer], str]
) -> None:
    made = built_answers.with_results(built_answers.answer(), **changes)
    assert (UNFIT_NOTICE in render(made)) == unusable


@pytest.mark.parametrize(
    "render", [text_report.render, markdown.render, page.render, explanation.render]
)
def test_an_unfit_machine_gives_no_single_figure_anywhere(render: Callable[..., str]) -> None:
    unfit = built_answers.with_results(built_answers.answer(), noise_floor=4.0)
    speedup = Interval(value=3.777, low=2.111, high=6.333)
    cell = unfit.results.by_arm["compiled"].cells[0]
    seconds = builders.replace(cell.seconds, median=0.054321)
    cell = builders.replace(cell, speedup=speedup, seconds=seconds)
    unfit = built_answers.with_measurement(unfit, "compiled", speedup=speedup, cells=(cell,))
    # Arms of quantised weights, and batch sizes with another best arm, have tables of their own.
    unfit = built_answers.with_score(unfit, "compiled", weight_format="int8")
    led = ShapeAdvice(shape=cell.shape, arm=EAGER, speedup=1.0, advised_speedup=speedup.value)
    unfit = built_answers.with_advice(unfit, advice_by_shape=(led,))
    shown = render(unfit, *(("", "", {}) if render is explanation.render else ()))
    assert "2.11 to 6.33" in shown
    assert not re.search(r"(?<!\d)(3\.7[78]|54\.32)", shown)


def test_an_unknown_noise_floor_and_a_missing_runner_up_are_named(expect: Expect) -> None:
    made = built_answers.with_advice(built_answers.answer(), runner_up=None, margin=None)
    made = built_answers.with_results(made, noise_floor=None)
    expect("text-unknown-noise", [each for each in answer_lines(made) if "Noise" in each])


def test_a_flip_is_a_sentence(expect: Expect) -> None:
    sides: list[tuple[float, Side]] = [(25.04, "less"), (40.0, "less"), (60.0, "more")]
    flips = [
        Flip(criterion="performance", weight=weight, to="other", when=when)
        for weight, when in sides
    ]
    made = [built_answers.with_advice(built_answers.answer(), flips=(flip,)) for flip in flips]
    expect("text-flips", [flip_lines(each) for each in made])
    lines = text_report.render(made[0]).splitlines()
    assert lines[lines.index("What would change the answer:") + 1].strip() == flip_lines(made[0])[0]


@pytest.mark.parametrize(("rows", "says"), [(4, " (the batch size of the examples)"), (1, ",")])
def test_the_batch_size_of_the_examples_is_named(rows: int, says: str) -> None:
    inputs = MeasuredInputs(fixed=0, has_length=True, has_batch=True, example_rows=rows)
    made = built_answers.with_results(
        built_answers.run_answer(question=builders.question(batch_sizes=(rows,))), inputs=inputs
    )
    assert f"batch size {rows}, 32 input tokens{says}" in text_report.measured_at(made)


def columns(made: Answer) -> dict[str, dict[str, str]]:
    """Return the ranking as cells by arm and column; no cell may contain a space."""
    heads, *rows = (one for one in text_report.ranking(made) if not re.match("(speed|err).*:", one))
    header = re.split(" {2,}", heads)
    cells = [row.split() for row in rows]
    return {row[header.index("arm")]: dict(zip(header, row, strict=True)) for row in cells}


def test_every_ranked_arm_has_a_row_with_its_figures(expect: Expect) -> None:
    expect("text-ranking", columns(built_answers.answer()))
    unknown = MemoryBytes(peak=None, source="nobody")
    made = built_answers.with_measurement(built_answers.answer(), memory_bytes=unknown)
    assert columns(made)["compiled"]["MiB"] == MISSING


def test_arms_that_fail_a_constraint_are_marked_and_share_one_line() -> None:
    made = built_answers.with_score(built_answers.answer(), failures=(TOO_SLOW,))
    assert columns(made)[builders.BASELINE]["#"] == "2!"
    lines = text_report.render(made).splitlines()
    found = [line for line in lines if TOO_SLOW.text in line]
    assert found == [f"  compiled, {builders.BASELINE}: {TOO_SLOW.text}"]


def test_an_arm_that_failed_has_its_next_step_and_a_missing_workflow_none_of_its_own() -> None:
    lines = unranked(built_answers.answer()).lines
    assert [number for number, line in enumerate(lines) if "next" in line] == [1]


def test_workflows_with_the_same_reason_share_one_line_below_those_that_failed(
    expect: Expect,
) -> None:
    made = built_answers.answer()
    foreign = [
        builders.unmeasured(name, status=status, reason="it needs a GPU", fix=None)
        for name, status in (
            *(("elsewhere", "not-covered"), ("apart", "not-covered")),
            *(("graphs", "unsupported"), ("kernels", "unsupported")),
        )
    ]
    both = builders.replace(made, unmeasured=(*foreign, *made.unmeasured))
    expect("text-unranked", unranked(both).lines)


def test_workflows_that_the_user_did_not_name_are_left_out_if_they_were_not_tried() -> None:
    made = built_answers.answer()
    lines = unranked(built_answers.with_question(made, workflows=("compiled/default",))).lines
    assert "broken: crashed, it crashed" in lines, "it was tried"
    assert not any(line.startswith("absent") for line in lines)


def test_a_run_without_measurements_has_no_ranking() -> None:
    made = builders.replace(NONE, scores=(), unmeasured=())
    assert text_report.ranking(made) == []
    assert "\n\n\n" not in text_report.render(made)


def test_reasons_and_the_command_for_all_figures_come_last() -> None:
    made = built_answers.with_advice(built_answers.answer(), trust_faults=("not-repeated",))
    lines = text_report.render(made).splitlines()
    assert lines[-3:-1] == ["Why trust is not higher:", "  no arm was repeated in a fresh process"]
    assert f"p3-advisor show {made.run_id} --json" in text_report.render(made).splitlines()[-1]


def test_the_report_has_printable_characters_only() -> None:
    for made in (built_answers.answer(), NONE):
        text = text_report.render(made)
        assert text.endswith("\n")
        assert all(character.isprintable() or character == "\n" for character in text)
        assert all(line == line.rstrip() for line in text.splitlines())


CODE = """\
import torch

import stack
compiled = stack.compile(model)
# Each call:
output = compiled(x)
"""


def test_the_short_answer_has_the_code_the_best_arms_and_what_is_next() -> None:
    made = built_answers.with_measurement(built_answers.answer(), "compiled", integration=CODE)
    lines = text_report.render_summary(made, 80).splitlines()
    code = [line.strip() for line in lines if line.startswith("    ")]
    assert code == [line for line in CODE.splitlines() if line and line != "import torch"]
    head = next(number for number, line in enumerate(lines) if "speed-up" in line.split())
    assert lines[head + 1].split()[1] == made.ranking[0].arm
    assert f"p3-advisor recipe {made.run_id}" in lines[-2]
    assert f"p3-advisor show {made.run_id} --full" in lines[-1]
    trained = built_answers.with_measurement(made, "compiled", adjusted={TRAINING_MODE: "left"})
    assert [each.partition("  #")[0] for each in code_lines(trained)][1:] == code
    assert code_lines(trained)[0].startswith("model.eval()")
    uses_torch = CODE.replace("(model)", "(model, torch.half)")
    made = built_answers.with_measurement(made, "compiled", integration=uses_torch)
    of_onnx = built_answers.with_question(made, model=OnnxModel(name="net.onnx"))
    assert "import torch" not in code_lines(made)
    assert "import torch" in code_lines(of_onnx), "nothing before it has imported it"


@pytest.mark.parametrize("name", NAMES)
def test_the_short_answer_of_a_kept_run_fits_its_terminal(name: str) -> None:
    """Lines that are copied are not wrapped, and sentences hold no word that is longer."""
    answer = decide_run(name)
    assert len(text_report.render_summary(answer, 60).splitlines()) <= 25
    sentence = text_report.render_summary(answer, 40).partition("\n\n")[0]
    assert all(len(line) <= 40 or " " not in line.strip() for line in sentence.splitlines())
    whole = [line for line in code_lines(answer) if not line.lstrip().startswith("#")]
    is_cut = "more lines, which p3-advisor recipe prints" in text_report.render_summary(answer, 80)
    assert not (is_cut and len(whole) <= 9)
    for count in (0, 2, 8, 30):
        if answer.advised is not None:
            code = "".join(f"model = stack.step_{number}(model)\n" for number in range(count))
            arm = answer.advised.arm
            answer = built_answers.with_measurement(answer, arm, integration=code, adjusted={})
        lines = text_report.render_summary(answer, 80).splitlines()
        assert len(lines) <= 25
        wide = [line for line in lines if len(line) > 80 and " --" not in line]
        assert all(len(line.split()) <= 3 for line in wide), "rank, a long name and the speed-up"
        text = " ".join(" ".join(line.strip() for line in lines).split())
        assert text.startswith(built_answers.headline(answer)[0])
        assert text_report.measured_at(answer) in text
        assert f"{answer.created:%Y-%m-%d}" in text_report.measured_at(answer)
        assert "  build s  " not in text or "  score  " in text, "why a slower arm leads"
        assert not re.search(r"0\.00 to \d|this one|and \d more", text)
        shown = [line for line in lines if line.startswith("    ")]
        has_code = answer.advised is not None and answer.advised.arm != builders.BASELINE
        extents = {count} if count <= 8 else {5, 4, 3, 2}
        if answer.question.load is not None:
            extents = {len(code_lines(answer))}
        assert len(shown) in (extents if has_code else {0})
        assert f"p3-advisor show {answer.run_id} --full" in text
        if answer.advised is not None:
            costs = [
                cost_line(answer, answer.advised, has_details=has_details)
                for has_details in (True, False)
            ]
            assert any(f"Cost: {cost}. Trust" in text for cost in costs)
            assert re.search("Trust [A-D][:.]", text)
            assert any(
                certainty_line(built_answers.advised(answer), has_reasons=has_reasons) in text
                for has_reasons in (True, False)
            )
            faster = 1.2 * answer.advised.speedup.value
            fastest = max(answer.ranking, key=lambda each: each.speedup.value)
            is_named = f" {fastest.arm} " in text or f"aster: {fastest.scored.title} (" in text
            assert is_named or fastest.speedup.value < faster
            table = [line for line in lines if re.match(r"\d+[*!]? +\S", line)]
            baseline = answer.results.baseline
            assert len(table) < 3 or any(f" {baseline} " in line for line in table)
        for flip in flip_lines(answer)[:1]:
            condition = flip.partition(" if ")[2].partition(" of")[0]
            assert text.count(condition) <= 1, "a fact is said once"


def test_the_nearest_rival_is_named_first() -> None:
    found = built_answers.advice_of(decide_run("cpu-demo-workflows"))
    assert found.decision.as_good == ("openvino", "onnxruntime-cpu/io-binding", "pytorch-eager")


def test_the_answer_in_readme_is_what_show_prints() -> None:
    readme = (EVIDENCE.parents[2] / "README.md").read_text(encoding="utf-8").splitlines()
    made = decide_run("h100-whisper-base-float16-standard")
    lines = [f"    {line}".rstrip() for line in text_report.render_summary(made, 100).splitlines()]
    # The others have the path that `show` was given.
    start = readme.index(lines[0])
    shown = [line for line in lines if made.run_id not in line]
    assert [line for line in readme[start : start + len(lines)] if line in shown] == shown


def of_text(made: Answer) -> str:
    return text_report.render(made).partition("\n\n")[0]


def of_markdown(made: Answer) -> str:
    """Return the lines above the table as a reader sees them."""
    above = markdown.render(made).partition("\n|")[0]
    assert above.startswith("## ")
    return html.unescape(re.sub(r"\\(.)", r"\1", above))


def of_page(made: Answer) -> str:
    header = builders.known(re.search(r"<header>(.*?)</header>", page.render(made), re.DOTALL))
    return html.unescape(re.sub(r"<[^>]+>", "", header[1])).replace(NO_BREAK_SPACE, " ")


def of_json(made: Answer) -> str:
    encoded = msgspec.json.decode(REPORT_FORMATS["json"](made, None, ()))
    return "\n".join(line["text"] for line in encoded["headline"])


Reader = Callable[[Answer], str]


@pytest.mark.parametrize("first_lines", [of_text, of_markdown, of_page, of_json])
@pytest.mark.parametrize("finished", [True, False])
def test_every_output_begins_with_all_lines_of_the_headline(
    first_lines: Reader, *, finished: bool
) -> None:
    title = "PyTorch & co <fast>"
    made = built_answers.with_score(
        decide_run("cpu-demo-workflows"), builders.BASELINE, title=title
    )
    lines = built_answers.headline(made)
    assert len(lines) >= 3
    assert title in "".join(lines)
    shown = first_lines(builders.replace(made, finished=finished))
    places = [shown.index(line) for line in lines]
    assert places == sorted(places)


@pytest.mark.parametrize("first_lines", [of_text, of_markdown, of_page])
def test_an_answer_without_a_recommendation_begins_with_the_reason(first_lines: Reader) -> None:
    shown = first_lines(NONE)
    assert "everything failed" in shown
    assert "ask for less" in shown


def test_a_short_table_has_the_first_two_arms(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_report, "CUTS", [{"arms": 2}])
    made = decide_run("cpu-demo-workflows")
    text = text_report.render_summary(built_answers.with_advice(made, arm=made.ranking[2].arm), 80)
    assert [line[:1] for line in text.splitlines() if re.match(r"\d[* ] ", line)] == ["1", "2", "3"]


@pytest.mark.parametrize("arm", [None, EAGER])
def test_the_short_answer_says_that_eager_was_timed_with_freed_memory_kept(arm: str | None) -> None:
    made = built_answers.with_measurement(decide_run("cpu-demo"), settings={FREED_MEMORY: "kept"})
    made = built_answers.with_advice(made, arm=arm or built_answers.advice_of(made).arm)
    words = text_report.render_summary(made, 80).split()
    found, code, line = (
        " ".join(each) for each in (words, KEEPS_MEMORY.split(), MEMORY_KEPT.split())
    )
    assert (code in found, line in found) == (arm is None, arm is not None)
    named = InputSpec("x", (3,), "float32")
    inputs = MeasuredInputs(fixed=0, has_length=True, has_batch=True, tensors=(named,))
    made = built_answers.with_results(made, inputs=inputs)
    assert code_lines(made, 5, 3)[:1] == ([NEEDS_WRAPPER] if arm is None else [])
