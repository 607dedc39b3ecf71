"""The campaign for a fixed seed, and every input that it has found."""

from __future__ import annotations

import json
import pathlib

import campaign
import pytest

pytestmark = pytest.mark.slow

#: Seconds of the campaign, and most inputs of each target.
SECONDS, MOST_INPUTS = 20.0, 40
SEED = 7


@pytest.mark.parametrize("name", campaign.TARGETS)
def test_random_inputs_find_no_defect(
    name: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A finding of this test is in its message; only the command keeps it as a file.
    monkeypatch.setattr(campaign, "REGRESSIONS", tmp_path)
    seconds = SECONDS / len(campaign.TARGETS)
    results = campaign.run_campaign([name], SEED, seconds, MOST_INPUTS)
    count, defects = results[name]
    assert defects == []
    assert count > 0


@pytest.mark.parametrize(
    "file", sorted(campaign.REGRESSIONS.glob("*.json")), ids=lambda file: file.stem
)
def test_an_input_that_was_a_defect_is_none_any_more(
    file: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    case = json.loads(file.read_text(encoding="utf-8"))
    campaign.TARGETS[case["target"]](tmp_path / "target").try_input(case["input"])
