"""The run as text: the instruction first, every arm and every reason in it, and plain characters only."""

from __future__ import annotations

from typing import Any

import builders
import msgspec
import pytest
from builders import BASELINE

from advisor.domain.decision import Flip, Side
from advisor.domain.measurement import MemoryBytes
from advisor.report import document, table
from advisor.report.document import Problem, RunDocument


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
    assert (
        table.render(builders.document()).splitlines()[0]
        == "Use compiled for synthetic/ffn@8x16 on Fancy CPU"
    )


def test_a_run_that_was_stopped_says_so_and_how_it_goes_on() -> None:
    made = builders.document(finished=False)
    assert (
        table.render(made).splitlines()[1]
        == f"Stopped before its end: p3-advisor resume {made.run_id} goes on."
    )
    assert "Stopped" not in table.render(builders.document())


def test_a_run_that_was_stopped_elsewhere_cannot_be_resumed_here() -> None:
    assert (
        table.render(builders.document(finished=False, imported=True)).splitlines()[1]
        == "Stopped before its end."
    )
    raced = builders.document(finished=False, run_id="20261121-120001-0000-0001-1")
    assert "p3-advisor fleet 20261121-120001-0000 --resume goes on" in table.render(raced)


def test_a_tie_is_an_instruction_with_a_choice() -> None:
    first = table.render(with_advice(ties=("one", "two"))).splitlines()[0]
    assert first == "Tie for synthetic/ffn@8x16 on Fancy CPU: use compiled, or as well one, two"


def test_no_recommendation_says_why_and_what_next() -> None:
    assert table.render(NONE).splitlines()[:2] == [
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
    assert table.device_name(document.compose(builders.decided(header=header))) == "NVIDIA H200"


def test_how_sure_the_advice_is_comes_second() -> None:
    second = table.render(
        with_advice(verdict="TIE", trust="C", runner_up="other", margin=0.25)
    ).splitlines()[1]
    assert second.startswith(
        "Speeds: TIE. Trust: C. Noise floor: 0.0%. Score: lead +0.25 over other."
    )


def test_what_is_not_known_is_not_invented() -> None:
    made = with_advice(runner_up=None, margin=None)
    assert made.race is not None
    made = msgspec.structs.replace(made, race=msgspec.structs.replace(made.race, noise_floor=None))
    assert table.honesty(made)[0].endswith("Noise floor: not known. Score: no rival.")


@pytest.mark.parametrize(
    ("weight", "when", "sentence"),
    [
        (25.04, "less", "Flips to other when performance weighs less than 25.0 % (now 40 %)."),
        (40.0, "less", "Flips to other when performance weighs less than 40.0 % (now 40 %)."),
        (60.0, "more", "Flips to other when performance weighs more than 60.0 % (now 40 %)."),
    ],
)
def test_a_flip_is_a_sentence(weight: float, when: Side, sentence: str) -> None:
    flips = (Flip(criterion="performance", weight=weight, to="other", when=when),)
    assert sentence in table.render(with_advice(flips=flips)).splitlines()


def columns(made: RunDocument) -> dict[str, dict[str, str]]:
    """Return the ranking as cells by arm and column; no cell of the tests has a blank."""
    header, *rows = (
        line.replace("build s", "build").replace("ms @", "ms@").split()
        for line in table.ranking(made)
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
        "Perf": "A",
        "Prod": "A",
        "Port": "A",
        "Flex": "A",
        "Arch": "A",
        "score": "3.00",
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


def test_an_arm_that_fails_a_constraint_is_marked_and_explained() -> None:
    made = builders.document()
    entries = tuple(
        msgspec.structs.replace(entry, fails=("too slow",)) if entry.arm == BASELINE else entry
        for entry in made.workflows
    )
    made = msgspec.structs.replace(made, workflows=entries)
    assert columns(made)[BASELINE]["#"] == "2!"
    assert f"  {BASELINE}: too slow" in table.render(made).splitlines()


def test_every_workflow_without_a_figure_has_its_reason() -> None:
    lines = table.render(builders.document()).splitlines()
    assert "  broken: crashed, it crashed" in lines
    assert "  absent: not-installed, its environment has not been made" in lines


def test_a_run_in_which_nothing_was_measured_has_no_empty_ranking() -> None:
    made = msgspec.structs.replace(NONE, workflows=())
    assert table.ranking(made) == []
    assert "\n\n\n" not in table.render(made)


def test_reasons_and_the_run_come_last() -> None:
    made = with_advice(reasons=("because",), trust_reasons=("noise",))
    lines = table.render(made).splitlines()
    assert lines[lines.index("Why:") + 1] == "  because"
    assert lines[-3:-1] == ["What keeps the trust from being higher:", "  noise"]
    assert f"p3-advisor show {made.run_id} --json" in table.render(made).splitlines()[-1]


def test_nothing_is_said_about_trust_that_lacks_nothing() -> None:
    assert "What keeps the trust" not in table.render(with_advice(trust_reasons=()))


@pytest.mark.parametrize(
    ("left", "expected"),
    [(None, ["a    bbb", "ccc  d"]), (0, ["a    bbb", "ccc    d"]), (1, ["  a  bbb", "ccc  d"])],
)
def test_columns_are_aligned(left: int | None, expected: list[str]) -> None:
    assert table.align([["a", "bbb"], ["ccc", "d"]], left) == expected


def test_the_table_is_plain_text() -> None:
    for made in (builders.document(), NONE):
        text = table.render(made)
        assert text.endswith("\n")
        assert all(character.isprintable() or character == "\n" for character in text)
        assert all(line == line.rstrip() for line in text.splitlines())
