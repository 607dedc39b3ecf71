"""A cross build gives an artefact or an error, and leaves no scratch files."""

from __future__ import annotations

import pathlib
from collections.abc import Callable

import pytest
import sessions

from advisor.ask.answers import Answers
from advisor.context import Context
from advisor.domain.plan import CROSS_BUILD
from advisor.errors import NothingViableError, UnknownGpuError
from advisor.execute import drafts
from advisor.execute.drafts import prepare
from advisor.store.runs import Run


@pytest.fixture
def context(fake_context: Callable[[], Context]) -> Context:
    return fake_context()


@pytest.fixture
def run(context: Context) -> Run:
    return prepare(
        Answers(gpu="cpu", batch_sizes="1,4", budget="2", all_arms=True, workflows="quick"), context
    )


def test_the_artefact_is_copied_into_the_output_directory(
    run: Run, context: Context, tmp_path: pathlib.Path
) -> None:
    before = run.events()
    sessions.exhaust(drafts.build_for(run, "sm_89", tmp_path / "out", context))
    assert (tmp_path / "out" / "sm_89.engine").read_text() == "4 samples for sm_89"
    assert not (run.scratch / CROSS_BUILD).exists()
    assert run.events() == before, "a cross build adds no event to the run"


def test_a_failed_build_raises_an_error_with_its_reason(
    run: Run, context: Context, tmp_path: pathlib.Path
) -> None:
    with pytest.raises(NothingViableError, match="an operator is missing there"):
        list(drafts.build_for(run, "sm_75", tmp_path / "out", context))
    assert not (tmp_path / "out").exists()


def test_a_gpu_without_a_cross_build_is_rejected(
    run: Run, context: Context, tmp_path: pathlib.Path
) -> None:
    with pytest.raises(UnknownGpuError) as problem:
        list(drafts.build_for(run, "sm_90", tmp_path, context))
    assert problem.value.next_step == "choose among sm_75, sm_89"
