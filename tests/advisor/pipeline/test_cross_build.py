"""Building for a GPU that is not here: an artefact or the reason, and nothing left of the work."""

from __future__ import annotations

import pathlib
from collections.abc import Callable

import pytest

from advisor.context import Context
from advisor.errors import NothingViableError, UnknownGpuError
from advisor.pipeline import cross_build
from advisor.pipeline.draft import prepare
from advisor.question.answers import Answers
from advisor.store import Run


@pytest.fixture
def world(fake_world: Callable[[], Context]) -> Context:
    return fake_world()


@pytest.fixture
def run(world: Context) -> Run:
    return prepare(Answers(gpu="cpu", batch_sizes="1,4", budget="2", workflows="quick"), world)


def test_the_artefact_lies_where_it_was_asked_for(
    run: Run, world: Context, tmp_path: pathlib.Path
) -> None:
    before = run.events()
    for _ in cross_build.build(run, "sm_89", tmp_path / "out", world):
        pass
    assert (tmp_path / "out" / "sm_89.engine").read_text() == "4 samples for sm_89"
    assert not (run.scratch / "elsewhere").exists()
    assert run.events() == before, "what was built elsewhere is no event of the run"


def test_a_build_that_fails_says_why(run: Run, world: Context, tmp_path: pathlib.Path) -> None:
    with pytest.raises(NothingViableError, match="the half of it is missing there"):
        list(cross_build.build(run, "sm_75", tmp_path / "out", world))
    assert not (tmp_path / "out").exists()


def test_a_gpu_that_nothing_builds_for_is_refused(
    run: Run, world: Context, tmp_path: pathlib.Path
) -> None:
    with pytest.raises(UnknownGpuError) as problem:
        list(cross_build.build(run, "sm_90", tmp_path, world))
    assert problem.value.next_step == "choose among sm_75, sm_89"
