"""Performance portability over named platforms, and what it needs as evidence."""

from __future__ import annotations

from typing import Any

import builders
import pytest
from golden_files import Expect
from hypothesis import given
from hypothesis import strategies as st

from advisor.decide import performance_portability, scoring
from advisor.domain.results import Efficiency, Platform, Portability
from advisor.domain.workflow import Integration, Workflow

EAGER = "import torch\noutput = model(*inputs)\n"


def workflow(id_: str, application: str = "", source: str = EAGER) -> Workflow:
    return builders.workflow(
        id_, application=application, integration=Integration(lines_changed=1, source=source)
    )


WORKFLOWS = (
    workflow("pytorch-eager"),
    workflow("compiled"),
    workflow("runtime-cpu", "runtime", "session = open('cpu')\nsession.run()\n"),
    workflow("runtime-cuda", "runtime", "session = open('cuda')\nsession.run()\n"),
    workflow("vendor-only"),
)


def platform(name: str, refused: tuple[str, ...] = (), **efficiencies: float) -> Platform:
    by_application = {
        application.replace("_", "-"): Efficiency(
            workflow=f"runtime-{'cpu' if name == 'CPU' else 'cuda'}"
            if application == "runtime"
            else application.replace("_", "-"),
            application_efficiency=value,
            architectural_efficiency=value / 2,
        )
        for application, value in efficiencies.items()
    }
    return Platform(
        name=name,
        run=f"run-{name}",
        created="2026-11-21T12:00:00+00:00",
        efficiencies=by_application,
        refused=refused,
    )


def compared(*platforms: Platform) -> dict[str, Any]:
    found = performance_portability.compare_platforms(platforms, WORKFLOWS)
    assert found is not None
    return {entry.application: entry for entry in found.applications}


def test_it_is_the_harmonic_mean_over_the_platforms() -> None:
    entry = compared(platform("CPU", compiled=1.0), platform("GPU", compiled=0.5))["compiled"]
    assert entry.performance_portability == pytest.approx(2 / 3)
    assert entry.architectural_portability == pytest.approx(1 / 3)
    assert entry.efficiencies == {"CPU": 1.0, "GPU": 0.5}


def test_it_is_zero_where_one_platform_is_not_supported_and_unknown_where_it_was_not_tried() -> (
    None
):
    entries = compared(
        platform("GPU", compiled=1.0, vendor_only=1.0), platform("CPU", refused=("vendor-only",))
    )
    assert entries["vendor-only"].performance_portability == 0
    assert entries["compiled"].performance_portability is None
    assert entries["compiled"].code_convergence is None


def test_providers_of_one_runtime_are_one_application_with_nearly_the_same_code() -> None:
    entry = compared(platform("CPU", runtime=1.0), platform("GPU", runtime=1.0))["runtime"]
    assert entry.performance_portability == 1
    assert entry.code_convergence == pytest.approx(1 / 3), "one of three different lines is common"


def test_code_that_is_the_same_everywhere_converges_wholly() -> None:
    assert (
        compared(platform("CPU", compiled=1.0), platform("GPU", compiled=1.0))[
            "compiled"
        ].code_convergence
        == 1
    )


def test_one_platform_says_nothing() -> None:
    assert (
        performance_portability.compare_platforms([platform("CPU", compiled=1.0)], WORKFLOWS)
        is None
    )


@given(st.lists(st.floats(0.01, 1.0), min_size=2, max_size=6))
def test_it_lies_between_the_worst_efficiency_and_the_mean(values: list[float]) -> None:
    found = performance_portability.harmonic_mean(values)
    assert found is not None
    assert min(values) - 1e-9 <= found <= sum(values) / len(values) + 1e-9
    assert performance_portability.harmonic_mean([*values, 0.0]) == 0
    assert performance_portability.harmonic_mean([*values, None]) is None


def test_a_run_is_a_platform_with_the_fastest_arm_of_each_application() -> None:
    below, near, unknown = (builders.call_diagnosis(headroom=each) for each in (0.75, 0.0, None))
    results = builders.results(
        builders.measurement(builders.BASELINE, speedup=1.0),
        builders.measurement("compiled", speedup=2.0, diagnosis=(below, near)),
        builders.measurement("runtime-cpu/host", speedup=1.0),
        builders.measurement("runtime-cpu/io-binding", speedup=1.5, diagnosis=(unknown,)),
    )
    refused = ("vendor-only", "runtime-cuda")
    found = performance_portability.platform_from_results(
        results, WORKFLOWS, refused=refused, name="CPU", run="a", created="now"
    )
    assert {name: entry.application_efficiency for name, entry in found.efficiencies.items()} == {
        "compiled": 1.0,
        "runtime": 0.75,
        "pytorch-eager": 0.5,
    }
    assert found.efficiencies["compiled"].architectural_efficiency == pytest.approx(0.5)
    assert found.efficiencies["runtime"].architectural_efficiency is None
    assert found.refused == ("vendor-only",), "the runtime runs there by another provider"


def test_a_lower_precision_is_no_measure_for_exact_arms() -> None:
    close = (builders.checked(accuracy_class="close"),)
    results = builders.results(
        builders.measurement(builders.BASELINE, speedup=1.0),
        builders.measurement("compiled", speedup=4.0, correctness=close),
        builders.measurement("runtime-cpu/host", speedup=3.0, correctness=close),
        builders.measurement("runtime-cpu/io-binding", speedup=2.0),
    )
    found = performance_portability.platform_from_results(
        results, WORKFLOWS, name="CPU", run="a", created="now"
    )
    assert {name: entry.application_efficiency for name, entry in found.efficiencies.items()} == {
        "compiled": 1.0,
        "runtime": 1.0,
        "pytorch-eager": 0.5,
    }


def rated(found: Portability | None) -> Any:
    known = builders.catalogue(builders.workflow("compiled"))
    results = builders.results(builders.measurement("compiled"), portability=found)
    return scoring.score_arms(results, builders.question(), known)[0].ratings["portability"]


def test_with_one_platform_the_cell_stays_declared_and_says_so(expect: Expect) -> None:
    rating = rated(None)
    assert (rating.tier, rating.evidence, rating.fact) == (3, "declared", "vendors")
    expect("portability-one-platform", rating.why)


@pytest.mark.parametrize(("elsewhere", "tier"), [(1.0, 3), (0.1, 2), (None, 1)])
def test_with_more_platforms_it_is_measured_and_they_are_named(
    elsewhere: float | None, tier: int, expect: Expect
) -> None:
    other = (
        platform("GPU", compiled=elsewhere) if elsewhere else platform("GPU", refused=("compiled",))
    )
    rating = rated(
        performance_portability.compare_platforms([platform("CPU", compiled=1.0), other], WORKFLOWS)
    )
    assert (rating.tier, rating.evidence, rating.fact) == (
        tier,
        "measured",
        "performance_portability",
    )
    expect(f"portability-two-platforms-{elsewhere}", rating.why)


def test_what_was_not_tried_on_the_other_platform_stays_declared(expect: Expect) -> None:
    rating = rated(
        performance_portability.compare_platforms(
            [platform("CPU", compiled=1.0), platform("GPU")], WORKFLOWS
        )
    )
    assert (rating.tier, rating.evidence) == (3, "declared")
    expect("portability-not-tried", rating.why)
