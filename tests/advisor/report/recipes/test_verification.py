"""Checks of a recipe against its measurement."""

from __future__ import annotations

import msgspec
import pytest
from report_runs import run_answer, with_measurement

from advisor.domain.answer import encode
from advisor.probing.rerun import RecipeResult
from advisor.report.recipes import verification
from advisor.report.recipes.verification import Verification


def verify(throughput: float, speedup: float | None = 2.0) -> Verification:
    """Return the verification of a measured throughput of 10 samples/s within 1%."""
    arm, *_ = with_measurement(run_answer(), versions={"torch": "2.13.0"}).ranked
    result = RecipeResult(
        batch_size=1,
        unit="samples/s",
        throughput=throughput,
        seconds=1 / throughput,
        build_seconds=1.0,
        error_against_eager=0.0,
        speedup=speedup,
        versions={"torch": "2.14.0"},
    )
    return verification.verify("a run", arm, [result], 0.05)


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
    throughput: float, speedup: float | None, result: verification.CheckResult, *, holds: bool
) -> None:
    found = verify(throughput, speedup)
    assert (found.checks[0].result, found.holds) == (result, holds)
    assert found.changed_versions == {"torch": "2.14.0"}
    text = verification.render(found)
    assert verification.RESULT_TEXTS[result] in text
    assert "2.14.0" in text


@pytest.mark.parametrize(
    ("throughput", "speedup", "others"),
    [
        (10.0, 2.0, {"faster", "slower"}),
        (12.0, 2.0, {"holds", "slower"}),
        (8.0, 2.0, {"holds", "faster"}),
        (8.0, 1.2, {"holds", "faster", "slower machine"}),
    ],
)
def test_the_line_of_a_batch_size_has_one_verdict(
    throughput: float, speedup: float, others: set[verification.CheckResult]
) -> None:
    found = verify(throughput, speedup)
    line = verification.render(found).splitlines()[1]
    verdict = verification.RESULT_TEXTS[found.checks[0].result]
    assert line.endswith(f": {verdict}")
    assert ";" not in verdict
    assert not any(verification.RESULT_TEXTS[each] in line for each in others)


def test_the_verification_is_decoded_from_its_json() -> None:
    found = verify(8.0)
    assert msgspec.json.decode(encode(found), type=Verification) == found


def test_the_text_has_the_interval_of_the_measured_speedup() -> None:
    found = verify(8.0)
    wide = msgspec.structs.replace(
        found.checks[0],
        speedup_measured=2.23,
        speedup_low=0.68,
        speedup_high=3.1,
        speedup_reached=0.74,
    )
    text = verification.render(msgspec.structs.replace(found, checks=(wide,)))
    assert "0.74x eager, measured 2.23x (0.68 to 3.10)" in text
