"""The expected seconds of the builds of a plan."""

from __future__ import annotations

import pathlib

import builders
import msgspec
import recorded_runs

from advisor.domain.catalogue import EarlierRuns
from advisor.domain.run_state import Header
from advisor.execute.build_limits import with_expected_builds
from advisor.store.store import Store

SECONDS = {"cpu": {"pytorch-eager": 0.1, "compiled": 20.0, "compiled/short": 10.0}}
FIGURES = {
    device: {
        arm: EarlierRuns(build_seconds=seconds, largest_speedup=2.0)
        for arm, seconds in arms.items()
    }
    for device, arms in SECONDS.items()
}


def header_with_figures() -> Header:
    header = builders.header()
    catalogue = msgspec.structs.replace(header.catalogue, earlier_runs=FIGURES)
    return msgspec.structs.replace(header, catalogue=catalogue)


def expected(store: Store, header: Header, *arms: str) -> dict[str, float | None]:
    plan = with_expected_builds(builders.plan(*arms), header, store)
    return {arm.id: arm.expected_build_seconds for arm in plan.arms}


def test_figures_of_the_catalogue_are_used_without_a_stored_run(tmp_path: pathlib.Path) -> None:
    found = expected(
        Store(tmp_path), header_with_figures(), "compiled", "compiled/other", "unknown"
    )
    assert found == {
        "pytorch-eager": 0.1,
        "pytorch-eager#duplicate": 0.1,
        "compiled": 20.0,
        "compiled/other": 15.0,
        "unknown": None,
    }


def test_a_stored_run_of_the_same_question_comes_first(tmp_path: pathlib.Path) -> None:
    store = Store(tmp_path)
    run = recorded_runs.make_run(store, finished=True)
    header = msgspec.structs.replace(run.header(), run_id="20991231-000000-0000")
    state = run.state()
    built = next(arm for arm, each in state.processes.items() if each[0].ready and each[0].built)
    total = sum(
        each.build_seconds + each.first_call_seconds
        for each in state.processes[built][0].built.values()
    )
    found = expected(store, header, *[arm for arm in (built,) if arm != "pytorch-eager"])
    assert found[built] == round(total, 1)


def test_an_arm_without_figures_promises_as_much_as_its_workflow(tmp_path: pathlib.Path) -> None:
    plan = builders.plan("compiled", "compiled/other", "unknown")
    found = with_expected_builds(plan, header_with_figures(), Store(tmp_path))
    largest = {arm.id: arm.largest_speedup for arm in found.arms if arm.workflow != "pytorch-eager"}
    assert largest == {"compiled": 2.0, "compiled/other": 2.0, "unknown": None}
