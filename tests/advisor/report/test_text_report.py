"""The report of a run as plain text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import builders
import msgspec
import pytest
from advisor.report.documents import measured_document
from advisor.report.documents.document import Problem, RunDocument
from builders import BASELINE
from golden_files import Expect

from advisor.domain.measurement import MemoryBytes, VisitCounts
from advisor.domain.recommendation import Flip, Side
from advisor.report import markdown, page, text_report
from advisor.report.sections import answer
from advisor.report.sections.partly_used import partly_used
from advisor.report.sections.unranked import unranked
from advisor.system.number_format import MISSING


def with_advice(**changes: Any) -> RunDocument:
    made = builders.document()
    assert made.recommendation is not None
    return msgspec.structs.replace(
        made, recommendation=msgspec.structs.replace(made.recommendation, **changes)
    )


NONE = builders.document(
    recommendation=None,
    problem=Problem(name="nothing-viable", what="everything failed", next_step="ask for less"),
)


def test_the_instruction_comes_first() -> None:
    document = builders.document()
    assert document.recommendation is not None
    first = text_report.render(document).splitlines()[0]
    assert first == document.recommendation.headline[0]


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("clear", {}),
        ("tie", {"ties": ("one", "two")}),
        ("lead", {"verdict": "TIE", "trust": "C", "runner_up": "other", "margin": 0.25}),
    ],
)
def test_the_answer_of_an_early_version_is_written_from_its_fields(
    name: str, changes: dict[str, Any], expect: Expect
) -> None:
    text = text_report.render(with_advice(headline=(), **changes))
    expect(f"text-early-{name}", text.splitlines()[:2])


@pytest.mark.parametrize(("share", "shown"), [(0.25, True), (0.5, False), (None, False)])
def test_a_measured_arm_that_did_less_than_half_of_the_work_has_a_line(
    share: float | None, shown: bool, expect: Expect
) -> None:
    made = builders.document()
    first, *others = made.workflows
    first = msgspec.structs.replace(first, engaged_share=share, engagement="8 of 32 passes")
    document = msgspec.structs.replace(made, workflows=(first, *others))
    lines = partly_used(document)
    assert bool(lines) == shown
    assert set(lines) <= set(text_report.render(document).splitlines())
    if shown:
        expect("text-partly-used", lines)


def test_an_arm_without_a_time_has_no_line_on_its_share() -> None:
    made = builders.document()
    entries = tuple(msgspec.structs.replace(one, engaged_share=0.0) for one in made.workflows)
    named = partly_used(msgspec.structs.replace(made, workflows=entries))
    assert len(named) == 1 + sum(bool(entry.cells) for entry in entries)


def test_an_unfinished_run_has_the_command_that_resumes_it() -> None:
    document = builders.document(finished=False)
    (notice,) = answer.stop_notice(document)
    assert f"p3-advisor resume {document.run_id}" in notice
    assert text_report.render(document).splitlines()[1] == notice
    assert answer.stop_notice(builders.document()) == []


def test_a_run_that_would_fail_again_is_resumed_only_after_a_change(expect: Expect) -> None:
    goes_on, fails = (
        answer.stop_notice(builders.document(finished=False, resumable=each))
        for each in (True, False)
    )
    assert goes_on == answer.stop_notice(builders.document(finished=False))
    assert goes_on != fails
    expect("text-fails-again", fails)


def test_an_unfinished_run_of_another_machine_has_no_command() -> None:
    (notice,) = answer.stop_notice(builders.document(finished=False, imported=True))
    assert "p3-advisor" not in notice


def test_an_unfinished_run_of_a_fleet_is_resumed_with_its_fleet() -> None:
    document = builders.document(finished=False, run_id="20261121-120001-0000-0001-1")
    (notice,) = answer.stop_notice(document)
    assert "p3-advisor fleet 20261121-120001-0000 --resume" in notice


def test_without_a_recommendation_the_problem_and_next_step_come_first() -> None:
    assert text_report.render(NONE).splitlines()[:2] == [
        "No recommendation: everything failed",
        "Next: ask for less",
    ]


def test_the_device_is_the_gpu_that_was_measured() -> None:
    two = (
        builders.gpu(uuid="GPU-a", name="NVIDIA A100"),
        builders.gpu(uuid="GPU-b", name="NVIDIA H200"),
    )
    header = builders.header(
        question=builders.question(device="cuda", gpu="GPU-b"), machine=builders.gpu_machine(*two)
    )
    assert measured_document.compose(builders.decision(header=header)).device_name == "NVIDIA H200"


def test_trust_noise_and_lead_follow_the_headline(expect: Expect) -> None:
    made = with_advice(trust="C", runner_up="other", margin=0.25)
    assert made.recommendation is not None
    lines = text_report.render(made).splitlines()
    count = len(made.recommendation.headline)
    assert count >= 3
    assert lines[:count] == [*made.recommendation.headline]
    expect("text-evidence", lines[count : count + 3])


def test_a_machine_that_is_not_fit_is_no_answer() -> None:
    problem = Problem(name="machine-unfit", what="No answer: busy", next_step="measure again")
    lines = text_report.render(msgspec.structs.replace(NONE, problem=problem)).splitlines()
    assert lines[:2] == ["No answer: busy", "Next: measure again"]
    measured = msgspec.structs.replace(builders.document(), recommendation=None, problem=problem)
    assert answer.UNFIT_NOTICE in text_report.render(measured).splitlines()
    arms = {entry.arm for entry in measured.workflows if entry.rank is not None}
    rows = [row.split() for row in text_report.ranking(measured)]
    ranks = {row[1]: (row[0], row[-1]) for row in rows if row[1] in arms}
    assert ranks == dict.fromkeys(arms, (MISSING, MISSING))


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
    changes: dict[str, Any], unusable: bool, render: Callable[[RunDocument], str]
) -> None:
    made = builders.document()
    assert made.race is not None
    made = msgspec.structs.replace(made, race=msgspec.structs.replace(made.race, **changes))
    assert (answer.UNSTEADY_NOTICE in render(made)) == unusable


def test_an_unknown_noise_floor_and_a_missing_runner_up_are_named(expect: Expect) -> None:
    made = with_advice(runner_up=None, margin=None)
    assert made.race is not None
    made = msgspec.structs.replace(made, race=msgspec.structs.replace(made.race, noise_floor=None))
    expect("text-unknown-noise", answer.confidence(made)[-1])


@pytest.mark.parametrize(
    ("weight", "when", "sentence"),
    [
        (
            25.04,
            "less",
            "The answer changes to other if performance weighs less than 25 % (now 40 %).",
        ),
        (40.0, "less", "The answer changes to other if performance weighs any less (now 40 %)."),
        (
            60.0,
            "more",
            "The answer changes to other if performance weighs more than 60 % (now 40 %).",
        ),
    ],
)
def test_a_flip_is_a_sentence(weight: float, when: Side, sentence: str) -> None:
    flips = (Flip(criterion="performance", weight=weight, to="other", when=when),)
    lines = text_report.render(with_advice(flips=flips)).splitlines()
    assert lines[lines.index("What would change the answer:") + 1] == f"  {sentence}"
    assert sentence in text_report.render(with_advice(headline=(), flips=flips)).splitlines()


def columns(made: RunDocument) -> dict[str, dict[str, str]]:
    """Return the ranking as cells by arm and column; no cell may contain a space."""
    header, *rows = (
        line.replace("build s", "build").replace("ms @", "ms@").split()
        for line in text_report.ranking(made)
        if not line.startswith(("speed-up:", "error:"))
    )
    return {row[header.index("arm")]: dict(zip(header, row, strict=True)) for row in rows}


def test_every_ranked_arm_has_a_row_with_its_figures() -> None:
    assert columns(builders.document())["compiled"] == {
        "#": "1",
        "arm": "compiled",
        "speed-up": "4.00x",
        "ms@1": "100",
        "build": "3.0",
        "MiB": "300",
        "error": "1.0e-07",
        "Perf": "A",
        "Prod": "A",
        "Port": "A",
        "Flex": "A",
        "Arch": "A",
        "score": "3.40",
    }
    assert columns(builders.document())[BASELINE]["Perf"] == "C"


def test_a_figure_that_is_missing_is_a_dash() -> None:
    made = builders.document()
    blank = {
        "memory_bytes": MemoryBytes(peak=None, source="nobody"),
        "speedup": None,
        "build_seconds": None,
        "scores": None,
        "score": None,
    }
    entries = tuple(msgspec.structs.replace(entry, **blank) for entry in made.workflows)
    row = columns(msgspec.structs.replace(made, workflows=entries))["compiled"]
    assert [row[name] for name in ("speed-up", "build", "MiB", "Perf", "score")] == ["-"] * 5


def test_an_arm_that_fails_a_constraint_is_marked_with_its_reason() -> None:
    made = builders.document()
    entries = tuple(
        msgspec.structs.replace(entry, failed_constraints=("too slow",))
        if entry.arm == BASELINE
        else entry
        for entry in made.workflows
    )
    made = msgspec.structs.replace(made, workflows=entries)
    assert columns(made)[BASELINE]["#"] == "2!"
    assert f"  {BASELINE}: too slow" in text_report.render(made).splitlines()


def test_arms_that_fail_a_constraint_alike_share_one_line() -> None:
    made = builders.document()
    entries = tuple(
        msgspec.structs.replace(entry, failed_constraints=("too slow",)) if entry.rank else entry
        for entry in made.workflows
    )
    lines = text_report.render(msgspec.structs.replace(made, workflows=entries)).splitlines()
    failing = ", ".join(entry.arm for entry in entries if entry.failed_constraints)
    assert [line for line in lines if "too slow" in line] == [f"  {failing}: too slow"]


def test_every_workflow_without_a_measurement_has_its_reason() -> None:
    lines = text_report.render(builders.document()).splitlines()
    assert "  broken: crashed, it crashed" in lines
    assert "  absent: not-installed, its environment has not been made" in lines


def test_workflows_without_a_probe_share_one_line() -> None:
    made = builders.document()
    absent = next(entry for entry in made.workflows if entry.arm == "absent")
    foreign = [
        msgspec.structs.replace(absent, id=name, arm=name, status="not-covered")
        for name in ("elsewhere", "apart")
    ]
    lines = unranked(msgspec.structs.replace(made, workflows=(*made.workflows, *foreign)))
    assert [line for line in lines if "elsewhere" in line or "apart" in line] == [
        "  not covered by p3-advisor: elsewhere, apart; p3-advisor workflows gives the reasons"
    ]


def test_workflows_with_the_same_reason_share_one_line_below_those_that_failed() -> None:
    made = builders.document()
    absent = next(entry for entry in made.workflows if entry.arm == "absent")
    foreign = [
        msgspec.structs.replace(
            absent, id=name, arm=name, status="unsupported", reason="it needs a GPU", fix=None
        )
        for name in ("graphs", "kernels")
    ]
    lines = unranked(msgspec.structs.replace(made, workflows=(*foreign, *made.workflows)))
    assert lines[-1] == "  graphs, kernels: unsupported, it needs a GPU"
    assert lines.index("  broken: crashed, it crashed") == 1


def test_workflows_that_the_user_did_not_name_are_counted_if_they_were_not_tried() -> None:
    made = builders.document()
    question = msgspec.structs.replace(made.question, workflows=("compiled/default",))
    lines = unranked(msgspec.structs.replace(made, question=question))
    assert "  broken: crashed, it crashed" in lines, "it was tried"
    assert not any(line.startswith("  absent") for line in lines)
    assert "not named in --workflows" in lines[-1]


def test_a_run_without_measurements_has_no_ranking() -> None:
    made = msgspec.structs.replace(NONE, workflows=())
    assert text_report.ranking(made) == []
    assert "\n\n\n" not in text_report.render(made)


def test_reasons_and_the_command_for_all_figures_come_last() -> None:
    made = with_advice(reasons=("because",), trust_reasons=("noise",))
    lines = text_report.render(made).splitlines()
    assert lines[lines.index("Why:") + 1] == "  because"
    assert lines[-3:-1] == ["Why trust is not higher:", "  noise"]
    assert f"p3-advisor show {made.run_id} --json" in text_report.render(made).splitlines()[-1]


def test_full_trust_has_no_reasons() -> None:
    assert "Why trust" not in text_report.render(with_advice(trust_reasons=()))


def test_the_report_has_printable_characters_only() -> None:
    for made in (builders.document(), NONE):
        text = text_report.render(made)
        assert text.endswith("\n")
        assert all(character.isprintable() or character == "\n" for character in text)
        assert all(line == line.rstrip() for line in text.splitlines())


def test_memory_has_the_same_digits_in_every_report() -> None:
    document = builders.document()
    peak = MemoryBytes(peak=(1234 << 20) + (900 << 10), source="a test")
    entries = tuple(
        msgspec.structs.replace(entry, memory_bytes=peak) if entry.memory_bytes else entry
        for entry in document.workflows
    )
    document = msgspec.structs.replace(document, workflows=entries)
    for render in (text_report.render, markdown.render, page.render):
        assert "1,235" in render(document)
        assert "1,234" not in render(document)
