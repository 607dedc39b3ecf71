"""Markdown, CSV, comparisons and verifications: what stands in them is what was measured, and text stays text."""

from __future__ import annotations

import csv
import io
import re
from typing import Any

import builders
import msgspec
import pytest

from advisor.domain.measurement import Cell, Interval, MemoryBytes, Seconds, Throughput
from advisor.report import comparison, csv_rows, markdown, page, table, verification
from advisor.report.document import RunDocument

HOSTILE = "|</td>`=cmd()\n# x"


def cell(seconds: float = 0.1, spread: float = 1.01, **changes: Any) -> Cell:
    """Return a cell whose interval reaches the factor `spread` to both sides."""
    made = Cell(
        batch_size=1,
        seconds=Seconds(median=seconds, low=seconds / spread, high=seconds * spread, samples=9),
        throughput=Throughput(value=1 / seconds, unit="samples/s"),
        speedup=Interval(value=2.0, low=1.9, high=2.1),
        tflops=None,
    )
    return msgspec.structs.replace(made, **changes)


def run(seconds: float = 0.1, spread: float = 1.01, **changes: Any) -> RunDocument:
    """Return a run in which `compiled` took so long."""
    document = builders.document(**changes)
    entries = [
        msgspec.structs.replace(entry, cells=(cell(seconds, spread),))
        if entry.arm == "compiled"
        else entry
        for entry in document.workflows
    ]
    race = msgspec.structs.replace(document.race, noise_floor=0.0) if document.race else None
    return msgspec.structs.replace(document, workflows=tuple(entries), race=race)


def change(before: RunDocument, after: RunDocument, threshold: float = 0.05) -> comparison.Change:
    return next(
        each
        for each in comparison.compare(before, after, threshold).changes
        if each.arm == "compiled"
    )


def test_markdown_has_the_answer_and_the_ranking() -> None:
    text = markdown.render(builders.document())
    assert text.startswith("## Use compiled for synthetic/ffn@8x16".replace("@", "\\@"))
    assert "| 1 | compiled |" in text
    assert "it crashed" in text


def test_memory_is_rounded_the_same_everywhere() -> None:
    document = builders.document()
    peak = MemoryBytes(peak=(1234 << 20) + (900 << 10), source="a test")
    entries = tuple(
        msgspec.structs.replace(entry, memory_bytes=peak) if entry.memory_bytes else entry
        for entry in document.workflows
    )
    document = msgspec.structs.replace(document, workflows=entries)
    assert " 1235 " in table.render(document)
    assert "| 1,235 |" in markdown.render(document)
    assert '<td class="n">1,235</td>' in page.render(document)
    assert "1,234" not in page.render(document)


def test_markdown_of_a_run_that_was_stopped_says_so_and_which_batch_sizes_it_lacks() -> None:
    made = builders.document(finished=False, question=builders.question(batch_sizes=(1, 16, 64)))
    lines = markdown.render(made).splitlines()
    assert lines[2] == f"Stopped before its end: p3-advisor resume {made.run_id} goes on.  "
    assert "| batch sizes | 1, 16, 64; not measured: 16, 64 |" in lines


def test_text_in_markdown_stays_on_its_line_and_is_no_markup() -> None:
    document = builders.document()
    entries = tuple(
        msgspec.structs.replace(entry, arm=HOSTILE, reason=HOSTILE) for entry in document.workflows
    )
    text = markdown.render(msgspec.structs.replace(document, workflows=entries))
    assert "</td>" not in text
    assert not any(line.startswith("# x") for line in text.splitlines())
    ranking = [line for line in text.splitlines() if line.startswith("| ")][:4]
    assert len({len(re.findall(r"(?<!\\)\|", line)) for line in ranking}) == 1


def test_csv_has_a_row_for_each_arm_and_batch_size() -> None:
    rows = list(csv.DictReader(io.StringIO(csv_rows.render([builders.document()]))))
    assert [(row["arm"], row["batch_size"], row["status"]) for row in rows] == [
        ("compiled", "1", "completed"),
        (builders.BASELINE, "1", "completed"),
        ("broken", "", "crashed"),
        ("absent", "", "not-installed"),
    ]
    assert float(rows[0]["speedup"]) == pytest.approx(4)
    assert set(rows[0]) == set(csv_rows.COLUMNS)


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@x", "\tx"])
def test_no_text_in_csv_is_a_formula(text: str) -> None:
    assert str(csv_rows.harmless(text)).startswith("'")
    assert csv_rows.harmless(-1.5) == -1.5


@pytest.mark.parametrize(
    ("factor", "spread", "judgement"),
    [
        (1.0, 1.01, "same"),
        (1.2, 1.01, "slower"),
        (0.8, 1.01, "faster"),
        (1.2, 1.2, "not told apart"),
        (1.03, 1.01, "same"),
    ],
)
def test_a_change_is_judged_by_its_interval(factor: float, spread: float, judgement: str) -> None:
    found = change(run(0.1, spread), run(0.1 * factor, spread))
    assert found.judgement == judgement
    assert found.speed.value == pytest.approx(1 / factor)


def test_noise_widens_the_interval() -> None:
    quiet, loud = run(), run()
    assert loud.race is not None
    loud = msgspec.structs.replace(loud, race=msgspec.structs.replace(loud.race, noise_floor=0.5))
    assert change(quiet, run(0.12)).judgement == "slower"
    assert change(loud, run(0.12)).judgement == "not told apart"


def test_a_median_without_an_interval_shows_nothing() -> None:
    bare = cell(0.3)
    bare = msgspec.structs.replace(bare, seconds=msgspec.structs.replace(bare.seconds, low=None))
    assert (
        comparison.judge(comparison.ratio_of_speeds(cell(0.1), bare, 0.0), 0.05) == "not told apart"
    )


def test_nothing_is_compared_where_the_question_or_the_device_differs() -> None:
    for asked in (
        builders.question(dtype="float16"),
        builders.question(batch_sizes=(1, 2)),
        builders.question(input_tokens=7),
    ):
        found = comparison.compare(run(), run(0.2, question=asked), 0.05)
        assert not found.comparable
        assert found.changes == ()
        assert found.differences[0].decisive
        assert "No verdict" in comparison.render(found)
    assert comparison.compare(run(), run(0.2, advisor_version="9"), 0.05).comparable


def test_a_comparison_with_a_run_that_was_stopped_says_so_and_what_is_missing() -> None:
    asked = builders.question(batch_sizes=(1, 16))
    before = run(question=asked)
    assert before.race is not None
    whole = msgspec.structs.replace(
        before.race, by_batch_size=(builders.race_result(1), builders.race_result(16))
    )
    found = comparison.compare(
        msgspec.structs.replace(before, race=whole), run(question=asked, finished=False), 0.05
    )
    assert found.comparable
    assert [(each.what, each.before, each.after) for each in found.differences] == [
        ("run", "finished", "stopped before its end"),
        ("measured batch sizes", "1, 16", "1"),
    ]
    assert found.headlines[1] == f"{found.headlines[0]} (stopped before its end)"


def test_what_differs_is_said_before_any_figure() -> None:
    text = comparison.render(comparison.compare(run(), run(0.2, advisor_version="9.9"), 0.05))
    assert text.index("9.9") < text.index("slower")
    assert "Slower by more than 5%: compiled at batch size 1." in text
    assert "the machine has changed" in text
    for other in (comparison.render_markdown, comparison.encode):
        assert "9.9" in other(
            comparison.compare(run(), run(0.2, advisor_version="9.9"), 0.05)
        ).replace("\\", "")


def speeded(document: RunDocument, times: float) -> RunDocument:
    """Return the run with other speed-ups of `compiled`, its times as they were."""
    entries = [
        msgspec.structs.replace(
            entry, cells=(cell(speedup=Interval(value=2.0 * times, low=None, high=None)),)
        )
        if entry.arm == "compiled"
        else msgspec.structs.replace(
            entry, cells=(cell(0.1 * times, speedup=Interval(value=1.0, low=1.0, high=1.0)),)
        )
        for entry in document.workflows
        if entry.cells
    ]
    return msgspec.structs.replace(document, workflows=tuple(entries))


def test_where_only_the_baseline_is_slower_the_speed_ups_are_not_what_they_were() -> None:
    found = comparison.compare(speeded(run(), 1.0), speeded(run(), 1.4), 0.05)
    assert comparison.closing(found) == [
        f"Slower by more than 5%: {builders.BASELINE} at batch size 1."
    ]


@pytest.mark.parametrize(
    ("threshold", "words"),
    [(0.005, "0.5%"), (0.025, "2.5%"), (0.05, "5%"), (0.9, "90%"), (0.0, "0%")],
)
def test_the_threshold_is_told_as_it_was_given(threshold: float, words: str) -> None:
    assert comparison.closing(comparison.compare(run(), run(), threshold)) == [
        f"Nothing is shown to be slower by more than {words}."
    ]


def test_a_wide_interval_of_the_speed_up_is_told_beside_what_was_reached() -> None:
    (check,) = verified(8.0).checks
    wide = msgspec.structs.replace(
        check, speedup_measured=2.23, speedup_low=0.68, speedup_high=3.1, speedup_reached=0.74
    )
    text = verification.render(msgspec.structs.replace(verified(8.0), checks=(wide,)))
    assert "0.74 times eager where 2.23 (95 %: 0.68 to 3.10) was measured" in text


def verified(throughput: float, speedup: float | None = 2.0) -> verification.Verification:
    entry = next(entry for entry in run().workflows if entry.arm == "compiled")
    entry = msgspec.structs.replace(entry, versions={"torch": "2.13.0"})
    reached = verification.Reached(
        batch_size=1, throughput=throughput, speedup=speedup, versions={"torch": "2.14.0"}
    )
    return verification.verify("a run", entry, [reached], 0.05)


@pytest.mark.parametrize(
    ("throughput", "speedup", "result", "holds"),
    [
        (10.0, 2.0, "holds", True),
        (9.5, 2.0, "holds", True),
        (12.0, 2.0, "faster", True),
        (8.0, 2.0, "slower machine", False),
        (8.0, 1.2, "slower", False),
        (8.0, None, "slower", False),
    ],
)
def test_a_throughput_holds_within_its_interval_and_the_tolerance(
    throughput: float, speedup: float | None, result: str, *, holds: bool
) -> None:
    found = verified(throughput, speedup)
    assert (found.checks[0].result, found.holds) == (result, holds)
    text = verification.render(found)
    assert verification.WORDS[result] in text
    assert "torch is now 2.14.0" in text
    assert msgspec.json.decode(verification.encode(found), type=verification.Verification) == found
