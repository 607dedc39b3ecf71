"""The document of a sweep, and its text, Markdown, page and picture."""

from __future__ import annotations

import json

import builders
import built_answers
import built_sweeps
import html5lib
import jsonschema
import msgspec
import pytest
from built_sweeps import answer_at, at
from report_runs import with_results

from advisor import schemas
from advisor.domain.answer import Answer, AnswerSummary, Problem, UnmeasuredArm, encode
from advisor.domain.sweep import Lengths
from advisor.errors import MachineUnfitError, SweepUnfinishedError
from advisor.report.formatting.phrases import format_lengths
from advisor.report.sections.answer import UNFIT_NOTICE
from advisor.report.sweeps import missing_arms, sweep_document, sweep_page, sweep_text
from advisor.report.sweeps.length_chart import length_charts
from advisor.report.sweeps.sweep_document import SweepDocument

RENDERERS = (sweep_text.render, sweep_text.render_markdown, sweep_page.render)
UNFINISHED = Problem(name="unfinished", what="nothing yet", next_step="resume")
HOSTILE = "</td><script>alert(1)</script>|{{ 7*7 }}"


def without_compiled(answer: Answer, *unmeasured: UnmeasuredArm) -> Answer:
    """Return the answer with these other arms without a measurement, and none of `compiled`."""
    (baseline,) = (one for one in answer.results.measurements if one.arm != "compiled")
    results = msgspec.structs.replace(answer.results, measurements=(baseline,))
    head = msgspec.structs.replace(built_answers.finished_header(), question=answer.question)
    return built_answers.answer_of(results, head, unmeasured=(*answer.unmeasured, *unmeasured))


@pytest.fixture
def swept() -> SweepDocument:
    """Three lengths, of which the middle one is limited to `compiled`."""
    record = built_sweeps.sweep_record({at(8): 0.7, at(32): 0.2, at(128): 0.1}, limited=[at(32)])
    answers = {at(n): answer_at(at(n), faster=n / 8) for n in (8, 32, 128)}
    answers[at(32)] = answer_at(at(32), only=["compiled"])
    return built_sweeps.document(record, answers)


def test_the_document_has_every_length_with_its_decision(swept: SweepDocument) -> None:
    jsonschema.validate(json.loads(encode(swept)), schemas.generate("sweep"))
    assert swept.finished
    assert [each.share for each in swept.lengths] == [0.7, 0.2, 0.1]
    assert [each.answer.arm for each in swept.lengths] == ["compiled"] * 3
    assert [each.limited_to for each in swept.lengths] == [(), ("compiled",), ()]
    assert [[cell.arm for cell in each.cells] for each in swept.lengths] == [["compiled"]] * 3
    assert all(each.cells[0].mix_speedup == each.cells[0].speedup for each in swept.lengths)
    (curve,) = (curve for curve in swept.curves if curve.arm == "compiled")
    values = [point.speedup.value for point in curve.points]
    assert values == pytest.approx([4, 4, 64])
    assert not swept.left_out


def test_an_arm_that_a_limited_plan_lacks_is_left_out_with_the_reason() -> None:
    record = built_sweeps.sweep_record({at(8): 0.5, at(32): 0.25, at(128): 0.25}, limited=[at(32)])
    answers = {at(n): answer_at(at(n)) for n in (8, 32, 128)}
    # The arm was not planned where the plan was limited.
    answers[at(32)] = without_compiled(answer_at(at(32), only=["other"]))
    found = built_sweeps.document(record, answers)
    (left_out,) = found.left_out
    assert left_out.arm == "compiled"
    assert [(each.lengths, each.status) for each in left_out.missing] == [(at(32), "excluded")]
    assert "compiled" not in {entry.arm for entry in found.ranked}
    for render in RENDERERS:
        assert left_out.missing[0].reason in render(found)


def test_an_arm_that_failed_has_a_line_below_the_table_of_the_lengths() -> None:
    # The length 32 does not count in the mix.
    record = built_sweeps.sweep_record({at(8): 1.0, at(32): 0.0})
    hangs = builders.unmeasured("compiled", status="timed-out", option=None, reason="HANGS")
    answers = {at(8): answer_at(at(8)), at(32): without_compiled(answer_at(at(32)), hangs)}
    found = built_sweeps.document(record, answers)
    assert not found.left_out
    missing = {
        arm.arm: [(each.lengths, each.status) for each in arm.missing] for arm in found.missing
    }
    assert missing == {
        "compiled": [(at(32), "timed-out")],
        "broken": [(at(8), "crashed"), (at(32), "crashed")],
    }
    for render in RENDERERS:
        text = render(found)
        assert text.count("HANGS") == 1
        assert text.index("Best by length") < text.index("HANGS") < text.index("Arms of the mix")


def test_a_failed_arm_has_a_line_where_the_mix_has_no_answer() -> None:
    record = built_sweeps.sweep_record({at(8): 0.5, at(32): 0.5})
    problem = SweepUnfinishedError("the mix lacks 32", "resume it")
    found = sweep_document.compose(record, {at(8): answer_at(at(8))}, None, Problem.of(problem))
    assert [arm.arm for arm in found.missing] == ["broken"]
    (line,) = sweep_text.missing_lines(found)
    assert all(line in render(found).replace("\\", "") for render in RENDERERS[:2])


@pytest.mark.parametrize(("noise_floor", "unfit"), [(0.3, ()), (4.0, (at(32),))])
def test_a_length_on_an_unfit_machine_has_a_note(
    noise_floor: float, unfit: tuple[Lengths, ...]
) -> None:
    answers = {at(n): answer_at(at(n)) for n in (8, 32)}
    answers[at(32)] = with_results(answers[at(32)], noise_floor=noise_floor)
    found = built_sweeps.document(built_sweeps.sweep_record({at(8): 0.5, at(32): 0.5}), answers)
    assert tuple(each.lengths for each in found.lengths if each.machine_unfit) == unfit
    for render in RENDERERS:
        assert (UNFIT_NOTICE in render(found)) == bool(unfit)


def test_an_unfinished_sweep_shows_the_lengths_that_are_measured() -> None:
    record = built_sweeps.sweep_record({at(8): 0.5, at(32): 0.5})
    answers = {at(8): answer_at(at(8))}
    problem = SweepUnfinishedError("the mix lacks 32", "resume it")
    found = sweep_document.compose(record, answers, None, Problem.of(problem))
    assert not found.finished
    assert found.problem is not None
    assert found.lengths[0].answer.arm == "compiled"
    assert found.lengths[1].answer.arm is None
    for render in RENDERERS:
        text = render(found)
        assert problem.what in text
        assert problem.next_step in text


def test_a_sweep_without_any_run_has_outputs() -> None:
    record = built_sweeps.sweep_record({at(8): 0.5, at(32): 0.5})
    found = sweep_document.compose(record, {}, None, UNFINISHED)
    for render in RENDERERS:
        assert UNFINISHED.what in render(found)


def test_a_length_without_an_answer_shows_its_problem(swept: SweepDocument) -> None:
    problem = MachineUnfitError("No answer: busy", "measure again")
    without = AnswerSummary(problem=Problem.of(problem))
    first = msgspec.structs.replace(swept.lengths[0], answer=without, cells=())
    found = msgspec.structs.replace(swept, lengths=(first, *swept.lengths[1:]))
    for render in RENDERERS:
        text = render(found).replace("\\", "")
        assert problem.name in text
        assert f"{problem.what}; next: {problem.next_step}" in text


def test_every_output_begins_with_the_headline_of_the_mix(swept: SweepDocument) -> None:
    assert swept.mix_answer is not None
    headline = swept.mix_answer.headline[0].text
    assert sweep_text.render(swept).startswith(headline)
    assert sweep_text.render_markdown(swept).replace("\\", "").startswith(f"## {headline}")
    assert f"<h1>{headline}</h1>" in sweep_page.render(swept)


def test_a_curve_over_the_lengths_is_drawn_with_its_ticks(swept: SweepDocument) -> None:
    (picture,) = length_charts(swept)
    for tokens in (8, 32, 128):
        assert f">{tokens}</text>" in picture.drawing
    assert "advised" in picture.drawing
    assert str(picture.drawing) in sweep_page.render(swept)


def test_pairs_have_a_picture_for_each_output_length() -> None:
    pairs = [at(one, two) for one in (8, 32) for two in (16, 64)]
    record = built_sweeps.sweep_record(dict.fromkeys(pairs, 0.25))
    found = built_sweeps.document(record, {each: answer_at(each) for each in pairs})
    pictures = length_charts(found)
    assert [picture.drawing.count("compiled, 8 input tokens") for picture in pictures] == [1, 1]
    outputs = [at(8, 16), at(8, 64)]
    record = built_sweeps.sweep_record(dict.fromkeys(outputs, 0.5))
    found = built_sweeps.document(record, {each: answer_at(each) for each in outputs})
    (picture,) = length_charts(found)
    assert ">64</text>" in picture.drawing


def test_one_measured_length_has_no_picture() -> None:
    record = built_sweeps.sweep_record({at(8): 0.5, at(32): 0.5})
    found = sweep_document.compose(record, {at(8): answer_at(at(8))}, None, None)
    assert length_charts(found) == []


def test_the_page_is_valid_and_text_is_not_markup(swept: SweepDocument) -> None:
    hostile = msgspec.structs.replace(
        swept,
        left_out=(
            missing_arms.MissingArm(
                arm=HOSTILE,
                missing=(missing_arms.MissingAt(lengths=at(8), status="crashed", reason=HOSTILE),),
            ),
        ),
        missing=(),
        model=HOSTILE,
    )
    page = sweep_page.render(hostile)
    html5lib.HTMLParser(strict=True).parse(page)
    assert "<script" not in page
    assert "<script" not in sweep_text.render_markdown(hostile)


def test_output_lengths_are_shown_where_text_is_generated() -> None:
    assert format_lengths(at(8), "forward") == "8"
    assert format_lengths(at(8), "generate") == "8/16"
