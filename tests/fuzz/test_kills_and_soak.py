"""A few cases of the kill schedule and of the soak; the scripts make hundreds."""

from __future__ import annotations

import pathlib

import kill_schedule
import pytest
import soak

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def fakes(tmp_path_factory: pytest.TempPathFactory) -> kill_schedule.Fakes:
    return kill_schedule.Fakes(tmp_path_factory.mktemp("fakes"))


@pytest.mark.parametrize(
    "case",
    [
        ("build", "SIGTERM", "advisor"),
        ("warmup", "SIGKILL", "watchdog"),
        pytest.param(("measure", "SIGSTOP", "worker"), marks=pytest.mark.long),
        pytest.param(("correctness", "SIGHUP", "host"), marks=pytest.mark.long),
    ],
)
def test_a_killed_run_leaves_nothing_and_loses_nothing(
    case: kill_schedule.Case, fakes: kill_schedule.Fakes, tmp_path: pathlib.Path
) -> None:
    kill_schedule.kill_once(fakes, tmp_path, case)


def test_the_schedule_has_every_combination() -> None:
    cases = kill_schedule.schedule(100, seed=1)
    assert len(set(cases)) == 100


@pytest.mark.long
def test_runs_in_a_row_hold_nothing_afterwards(
    fakes: kill_schedule.Fakes, tmp_path: pathlib.Path
) -> None:
    (tmp_path / "place").mkdir()
    readings = soak.run_in_a_row(fakes, tmp_path / "place" / "home", 2)
    first, *_, last = readings
    assert (last.descriptors, last.threads, last.children) == (
        first.descriptors,
        first.threads,
        first.children,
    )
    assert last.temporary_files == first.temporary_files


@pytest.mark.long
def test_runs_at_once_do_not_disturb_each_other(
    fakes: kill_schedule.Fakes, tmp_path: pathlib.Path
) -> None:
    assert soak.run_at_once(fakes, tmp_path / "home", 2) == []
