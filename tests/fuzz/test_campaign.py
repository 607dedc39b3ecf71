"""The campaign for a fixed seed and for one that moves, and every input that it has found."""

from __future__ import annotations

import datetime as dt
import json
import pathlib

import campaign
import pytest

pytestmark = pytest.mark.slow

#: Seconds of each of the two campaigns, and most inputs of each target.
SECONDS, MOST_INPUTS = 25.0, 40
FIXED_SEED = 7


def seed_of_today() -> int:
    """Return a seed that is new every day and the same for all who run the tests on it."""
    return dt.datetime.now(dt.timezone.utc).date().toordinal()


@pytest.mark.parametrize(
    "seed",
    [FIXED_SEED, pytest.param(seed_of_today(), id="the seed of today", marks=pytest.mark.long)],
)
@pytest.mark.parametrize("name", campaign.TARGETS)
def test_random_inputs_find_no_defect(
    name: str, seed: int, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A finding of this test is in its message; only the command keeps it as a file.
    monkeypatch.setattr(campaign, "REGRESSIONS", tmp_path)
    seconds = SECONDS / len(campaign.TARGETS)
    results = campaign.run_campaign([name], seed, seconds, MOST_INPUTS)
    count, defects = results[name]
    assert defects == [], f"seed {seed}"
    assert count > 0


@pytest.mark.parametrize(
    "file", sorted(campaign.REGRESSIONS.glob("*.json")), ids=lambda file: file.stem
)
def test_an_input_that_was_a_defect_is_none_any_more(
    file: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    case = json.loads(file.read_text(encoding="utf-8"))
    campaign.TARGETS[case["target"]](tmp_path / "target").try_input(case["input"])
