"""Performance portability over named platforms, and what it needs as evidence."""

from __future__ import annotations

from typing import Any

import builders
import pytest
import recorded_runs
from built_measurements import platform
from hypothesis import given
from hypothesis import strategies as st

from advisor.ask.context import Context
from advisor.decide import performance_portability, scoring
from advisor.decide.answers import answer_from_state, platform_of_run
from advisor.domain.errors import PlatformError
from advisor.domain.measurement import Measurement
from advisor.domain.results import Platform
from advisor.domain.run_state import RunState
from advisor.domain.workflow import CountedLines, Workflow
from advisor.report import text_report
from advisor.report.answer_files import answer_of_run

EAGER = "import torch\noutput = model(*inputs)\n"


def workflow(id_: str, application: str = "", source: str = EAGER) -> Workflow:
    return builders.workflow(
        id_, application=application, integration=CountedLines(lines_changed=1, source=source)
    )


WORKFLOWS = (
    workflow("pytorch-eager"),
    workflow("compiled"),
    workflow("runtime-cpu", "runtime", "session = open('cpu')\nsession.run()\n"),
    workflow("runtime-cuda", "runtime", "session = open('cuda')\nsession.run()\n"),
    workflow("vendor-only"),
)


def compared(*platforms: Platform) -> dict[str, Any]:
    found = builders.known(performance_portability.compare_platforms(platforms, WORKFLOWS))
    return {entry.application: entry for entry in found.applications}


def test_it_is_the_harmonic_mean_over_the_platforms() -> None:
    entry = compared(platform("CPU", compiled=1.0), platform("GPU", compiled=0.5))["compiled"]
    assert entry.performance_portability == pytest.approx(2 / 3)
    assert entry.architectural_portability == pytest.approx(1 / 3)
    assert entry.efficiencies == {"CPU": 1.0, "GPU": 0.5}


def test_it_is_zero_on_an_unsupported_platform_and_unknown_on_an_untried_one() -> None:
    entries = compared(
        platform("GPU", compiled=1.0, vendor_only=1.0), platform("CPU", refused=("vendor-only",))
    )
    assert entries["vendor-only"].performance_portability == 0
    assert entries["compiled"].performance_portability is None
    assert entries["compiled"].code_convergence is None


def test_providers_of_one_runtime_are_one_application_with_nearly_the_same_code() -> None:
    platforms = []
    for provider in ("cpu", "cuda"):
        made = platform(provider, runtime=1.0)
        ran = builders.replace(made.efficiencies["runtime"], workflow=f"runtime-{provider}")
        platforms.append(builders.replace(made, efficiencies={"runtime": ran}))
    entry = compared(*platforms)["runtime"]
    assert entry.performance_portability == 1
    assert entry.code_convergence == pytest.approx(1 / 3), "one of three different lines is common"


@given(st.lists(st.floats(0.01, 1.0), min_size=2, max_size=6))
def test_it_lies_between_the_worst_efficiency_and_the_mean(values: list[float]) -> None:
    found = builders.known(performance_portability.harmonic_mean(values))
    assert min(values) - 1e-9 <= found <= sum(values) / len(values) + 1e-9
    assert performance_portability.harmonic_mean([*values, 0.0]) == 0
    assert performance_portability.harmonic_mean([*values, None]) is None


def platform_of(*arms: Measurement, refused: tuple[str, ...] = ()) -> Platform:
    """Return a run of these arms and the baseline on a device without these workflows."""
    plan = builders.plan(
        excluded=[builders.excluded(each, status="unsupported") for each in refused]
    )
    header = builders.header(catalogue=builders.catalogue(workflows=WORKFLOWS))
    results = builders.results(builders.measurement(builders.BASELINE, speedup=1.0), *arms)
    return performance_portability.platform_of(header, RunState(plan=plan), results)


def efficiencies_of(found: Platform) -> dict[str, float]:
    return {name: entry.application_efficiency for name, entry in found.efficiencies.items()}


def test_a_run_is_a_platform_with_the_fastest_arm_of_each_application() -> None:
    below, near, unknown = (builders.call_diagnosis(headroom=each) for each in (0.75, 0.0, None))
    found = platform_of(
        builders.measurement("compiled", speedup=2.0, diagnosis=(below, near)),
        builders.measurement("runtime-cpu/host", speedup=1.0),
        builders.measurement("runtime-cpu/io-binding", speedup=1.5, diagnosis=(unknown,)),
        refused=("vendor-only", "runtime-cuda"),
    )
    assert efficiencies_of(found) == {"compiled": 1.0, "runtime": 0.75, "pytorch-eager": 0.5}
    assert found.efficiencies["compiled"].architectural_efficiency == pytest.approx(0.5)
    assert found.efficiencies["runtime"].architectural_efficiency is None
    assert found.refused == ("vendor-only",), "the runtime runs there by another provider"


def test_a_lower_precision_is_no_measure_for_exact_arms() -> None:
    close = (builders.checked(accuracy_class="close"),)
    found = platform_of(
        builders.measurement("compiled", speedup=4.0, correctness=close),
        builders.measurement("runtime-cpu/host", speedup=3.0, correctness=close),
        builders.measurement("runtime-cpu/io-binding", speedup=2.0),
    )
    assert efficiencies_of(found) == {"compiled": 1.0, "runtime": 1.0, "pytorch-eager": 0.5}


@pytest.mark.parametrize(
    ("other", "tier", "fact"),
    [
        (None, 3, "vendors"),
        (platform("GPU"), 3, "vendors"),
        (platform("GPU", compiled=1.0), 3, "performance_portability"),
        (platform("GPU", compiled=0.1), 2, "performance_portability"),
        (platform("GPU", refused=("compiled",)), 1, "performance_portability"),
    ],
)
def test_it_is_measured_where_two_platforms_were_tried_and_declared_elsewhere(
    other: Platform | None, tier: int, fact: str
) -> None:
    here = platform("CPU", compiled=1.0)
    found = other and performance_portability.compare_platforms([here, other], WORKFLOWS)
    known = builders.catalogue(builders.workflow("compiled"))
    results = builders.results(builders.measurement("compiled"), portability=found)
    rating = scoring.score_arms(results, builders.question(), known)[0].ratings["portability"]
    evidence = "declared" if fact == "vendors" else "measured"
    assert (rating.tier, rating.evidence, rating.fact) == (tier, evidence, fact)


def test_stored_platforms_and_named_runs_give_the_same_portability(context: Context) -> None:
    gpu_run = recorded_runs.make_gpu_run(context.store)
    catalogue = gpu_run.header().catalogue
    local = recorded_runs.make_run(context.store, finished=True, catalogue=catalogue)
    assert answer_of_run(local).results.portability is None
    platforms = (platform_of_run(gpu_run.header(), gpu_run.state()),)
    stored = answer_from_state(
        local.header(), builders.replace(local.state(), platforms=platforms)
    ).results.portability
    assert stored is not None
    assert [platform.run for platform in stored.platforms] == [
        local.directory.name,
        gpu_run.directory.name,
    ]
    named = answer_of_run(local, platforms=[gpu_run])
    assert named.results.portability == stored
    text = text_report.render(named)
    assert "[1] Fancy CPU" in text
    assert f"[2] {recorded_runs.GPU_NAME}" in text


def test_platforms_must_be_different_devices_with_the_same_work(context: Context) -> None:
    local = recorded_runs.make_run(context.store, finished=True)
    demo = builders.shipped_catalogue().models.demo
    other_model = recorded_runs.make_gpu_run(context.store, "20261104-000000-0000", model=demo)
    one = recorded_runs.make_gpu_run(context.store, "20261105-000000-0000")
    two = recorded_runs.make_gpu_run(context.store, "20261106-000000-0000")
    for runs, reason in (([other_model], "another model"), ([one, two], "too")):
        with pytest.raises(PlatformError) as problem:
            answer_of_run(local, platforms=runs)
        assert reason in problem.value.what
