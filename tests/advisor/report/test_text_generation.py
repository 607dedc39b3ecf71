"""Generated text in the text table: a line for each arm, and only what could be had."""

from __future__ import annotations

import pathlib

import builders
import msgspec
from recorded_runs import make_run

from advisor.domain.measurement import Generation
from advisor.pipeline.decision import decide
from advisor.report import document, table
from advisor.report.text_generation import generated, words_of_generation
from advisor.store import Store


def test_each_arm_has_a_line_with_its_tokens_and_times(tmp_path: pathlib.Path) -> None:
    found = decide(make_run(Store(tmp_path), finished=True, generates=True))
    composed = document.compose(found)
    lines = generated(composed)
    assert lines[1].startswith(
        "  compiled @1: 7774 tokens/s, first token after 0.41 ms, 0.119 ms between tokens"
    )
    assert lines[1].endswith("cache 0.25 MiB")
    assert set(lines) <= set(table.render(composed).splitlines())


def test_what_could_not_be_had_is_left_out_and_another_task_has_none_of_it() -> None:
    nothing = Generation(
        ttft_seconds=None,
        itl_seconds=None,
        tokens_per_second_per_user=None,
        cache_bytes=None,
        mbu=0.5,
        mfu=None,
        method="",
    )
    assert words_of_generation(nothing) == "50% of the memory bandwidth"
    assert (
        words_of_generation(msgspec.structs.replace(nothing, mbu=1.6))
        == "more than the memory bandwidth, out of caches"
    )
    assert generated(builders.document()) == []
