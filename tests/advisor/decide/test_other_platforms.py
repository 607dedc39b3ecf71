"""Runs of the same question on other devices become the platforms of a run."""

from __future__ import annotations

from collections.abc import Callable

import builders
import msgspec
import pytest
import recorded_runs

from advisor.ask.answers import Answers
from advisor.context import Context
from advisor.decide import performance_portability
from advisor.decide.decision import decide, evaluate
from advisor.domain.run_events import OtherPlatformFound
from advisor.errors import PlatformError
from advisor.execute.drafts import create, propose
from advisor.report import text_report

ANSWERS = Answers(model="synthetic/ffn@8x16", gpu="cpu", batch_sizes="1", dtype="float32")


@pytest.fixture
def context(fake_context: Callable[[], Context]) -> Context:
    return fake_context()


def test_the_newest_run_of_the_same_work_on_another_device_is_a_platform(
    context: Context,
) -> None:
    gpu_run = recorded_runs.make_gpu_run(context.store)
    recorded_runs.make_gpu_run(context.store, "20261030-000000-0000")
    recorded_runs.make_gpu_run(context.store, "20261031-000000-0000", batch_sizes=(2,))
    header = builders.header(run_id="20261121-000000-0000", catalogue=gpu_run.header().catalogue)
    (found,) = performance_portability.find_platforms(context.store, header)
    assert found.platform.name == recorded_runs.GPU_NAME
    assert found.platform.run == gpu_run.directory.name
    assert found.platform.efficiencies["exported"].application_efficiency == 1
    assert found.platform.refused == ("broken",)


def test_stored_platforms_and_named_runs_give_the_same_portability(context: Context) -> None:
    gpu_run = recorded_runs.make_gpu_run(context.store)
    catalogue = gpu_run.header().catalogue
    local = recorded_runs.make_run(context.store, finished=True, catalogue=catalogue)
    assert decide(local).results.portability is None
    platforms = (performance_portability.load_platform(gpu_run),)
    stored = evaluate(
        local.header(), msgspec.structs.replace(local.state(), platforms=platforms)
    ).results.portability
    assert stored is not None
    assert [platform.run for platform in stored.platforms] == [
        local.directory.name,
        gpu_run.directory.name,
    ]
    named = decide(local, platforms=[gpu_run])
    assert named.results.portability == stored
    text = text_report.render(named)
    assert "[1] Fancy CPU" in text
    assert f"[2] {recorded_runs.GPU_NAME}" in text


def test_platforms_are_stored_with_a_new_run(context: Context) -> None:
    draft = propose(ANSWERS, context)
    recorded_runs.make_gpu_run(
        context.store, model=draft.question.model, input_tokens=draft.question.input_tokens
    )
    run = create(draft, context)
    assert [
        event.run_event.platform.name
        for event in run.events()
        if isinstance(event.run_event, OtherPlatformFound)
    ] == [recorded_runs.GPU_NAME]


def test_a_new_run_skips_damaged_runs(context: Context) -> None:
    draft = propose(ANSWERS, context)
    gpu_run = recorded_runs.make_gpu_run(
        context.store, model=draft.question.model, input_tokens=draft.question.input_tokens
    )
    context.store.history()
    recorded_runs.damage(gpu_run)
    run = create(draft, context)
    assert run.state().plan is not None
    assert run.state().platforms == ()


def test_an_error_before_the_run_is_stored_leaves_no_run(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError

    draft = propose(ANSWERS, context)
    monkeypatch.setattr(performance_portability, "find_platforms", fail)
    with pytest.raises(OSError):  # noqa: PT011 - any will do
        create(draft, context)
    assert context.store.is_empty()


def test_platforms_must_be_different_devices_with_the_same_work(context: Context) -> None:
    local = recorded_runs.make_run(context.store, finished=True)
    demo = builders.shipped_catalogue().models.demo
    other_model = recorded_runs.make_gpu_run(context.store, "20261104-000000-0000", model=demo)
    one = recorded_runs.make_gpu_run(context.store, "20261105-000000-0000")
    two = recorded_runs.make_gpu_run(context.store, "20261106-000000-0000")
    for runs, reason in (([other_model], "another model"), ([one, two], "too")):
        with pytest.raises(PlatformError) as problem:
            decide(local, platforms=runs)
        assert reason in problem.value.what
