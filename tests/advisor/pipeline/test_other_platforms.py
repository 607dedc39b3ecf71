"""Runs made elsewhere: they answer for a GPU that is not attached, count as platforms, and are never taken for what was measured here."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import builders
import jsonschema
import msgspec
import pytest
import recorded_runs

from advisor import schemas
from advisor.context import Context
from advisor.domain.run_events import PlatformKnown
from advisor.errors import UserError
from advisor.pipeline import imported_answer, other_platforms
from advisor.pipeline.decision import decide, judge
from advisor.pipeline.draft import create, propose
from advisor.question.answers import Answers
from advisor.question.model import parse_model
from advisor.report import document, table
from advisor.report import imported as origin
from advisor.store import Run

MODEL = "synthetic/ffn@8x16"
ANSWERS = Answers(model=MODEL, gpu="H100")
ON_GPU = {"device": "cuda", "gpu": "GPU-0000"}
SLOW = {**recorded_runs.SECONDS, "compiled": 0.0078, "exported": 0.0039}


def store_run(
    world: Context, run_id: str = "20261101-000000-0000", *, finished: bool = True, **asked: Any
) -> Run:
    return recorded_runs.make_run(
        world.store,
        finished=finished,
        run_id=run_id,
        created="2026-11-01T12:00:00+00:00",
        machine=builders.gpu_machine(),
        question=builders.question(**{**ON_GPU, **asked}),
        seconds_of=SLOW,
        catalogue=builders.catalogue(
            *(builders.workflow(id_) for id_ in ("compiled", "exported", "broken"))
        ),
    )


def answer(world: Context, **changes: Any) -> imported_answer.Imported:
    found = imported_answer.answer(msgspec.structs.replace(ANSWERS, **changes), world)
    assert found is not None
    return found


def test_a_run_from_such_a_gpu_answers_with_its_origin_and_its_age(
    fake_world: Callable[[], Context],
) -> None:
    world = fake_world()
    store_run(world)
    composed = origin.compose(answer(world), "p3-advisor --json --gpu H200")
    jsonschema.validate(json.loads(document.encode(composed)), schemas.generate("run"))
    assert composed.provenance is not None
    assert (composed.provenance.age_days, composed.provenance.device) == (
        20,
        "NVIDIA H100 80GB HBM3",
    )
    assert {entry.evidence for entry in composed.workflows if entry.rank is not None} == {
        "imported"
    }
    assert '"measured"' not in document.encode(composed)
    text = table.render(composed)
    assert "measured 20 days ago on NVIDIA H100 80GB HBM3, driver 580.65" in text.splitlines()[1]
    assert "(measured)" not in text
    assert composed.recommendation is not None
    assert composed.recommendation.trust >= imported_answer.BEST_TRUST
    assert "nothing was measured on this machine" in composed.recommendation.trust_reasons[0]


def test_text_is_not_answered_from_a_forward_pass(fake_world: Callable[[], Context]) -> None:
    world = fake_world()
    asked = Answers(model="demo/llama", gpu="H100")
    store_run(world, model=parse_model(asked, builders.shipped_catalogue().models))
    assert imported_answer.answer(asked, world) is not None
    assert imported_answer.answer(msgspec.structs.replace(asked, task="generate"), world) is None


def test_it_is_decided_with_the_priorities_that_are_asked_now(
    fake_world: Callable[[], Context],
) -> None:
    world = fake_world()
    store_run(world)
    serving = answer(world, preset="serving", requests=1000).decision
    assert serving.header.question.priorities.performance == 70
    assert serving.header.question.requests == 1000
    barred = answer(
        world, require="performance>=3,productivity>=3,portability>=3,architecture_support>=3"
    ).decision
    assert serving.recommendation is not None
    assert barred.recommendation is None or barred.recommendation.arm == "exported"


def test_the_newest_run_of_the_same_model_counts(fake_world: Callable[[], Context]) -> None:
    world = fake_world()
    store_run(world)
    newest = store_run(world, "20261102-000000-0000")
    store_run(world, "20261103-000000-0000", finished=False)
    store_run(world, "20261104-000000-0000", model=builders.shipped_catalogue().models.demo)
    store_run(world, "20261105-000000-0000", device="cpu", gpu=None)
    assert answer(world).provenance.run == newest.directory.name


@pytest.mark.parametrize(
    "changes",
    [
        {"gpu": "H200"},
        {"model": "demo"},
        {"batch_sizes": "64"},
        {"dtype": "bfloat16"},
        {"input_tokens": 64},
        {"output_tokens": 64},
        {"gpu": "H10"},
        {"gpu": "100 H"},
    ],
)
def test_a_run_of_something_else_does_not_answer(
    changes: dict[str, Any], fake_world: Callable[[], Context]
) -> None:
    world = fake_world()
    store_run(world)
    assert imported_answer.answer(msgspec.structs.replace(ANSWERS, **changes), world) is None


@pytest.mark.parametrize("text", ["RTX 4090", "4090", "NVIDIA RTX 4090", "geforce rtx 4090"])
def test_a_gpu_goes_by_the_words_of_its_name(text: str) -> None:
    assert imported_answer.is_named("NVIDIA GeForce RTX 4090", text)
    assert not imported_answer.is_named("NVIDIA GeForce RTX 4090 D".replace("4090", "5090"), text)


def test_a_new_run_knows_the_platforms_that_were_measured_before_it_and_keeps_them(
    fake_world: Callable[[], Context],
) -> None:
    world = fake_world()
    gpu_run = store_run(world)
    store_run(world, "20261030-000000-0000")
    store_run(world, "20261031-000000-0000", batch_sizes=(2,))
    here = builders.header(run_id="20261121-000000-0000", catalogue=gpu_run.header().catalogue)
    (known,) = other_platforms.recall(world.store, here)
    assert (known.platform.name, known.platform.run) == (
        "NVIDIA H100 80GB HBM3",
        gpu_run.directory.name,
    )
    assert known.platform.efficiencies["exported"].application == 1
    assert known.platform.refused == ("broken",)

    local = recorded_runs.make_run(world.store, finished=True, catalogue=gpu_run.header().catalogue)
    alone = decide(local)
    assert alone.results.portability is None
    together = judge(
        local.header(), msgspec.structs.replace(alone.state, platforms=(known.platform,))
    )
    assert together.results.portability is not None
    assert [platform.run for platform in together.results.portability.platforms] == [
        local.directory.name,
        gpu_run.directory.name,
    ]
    named = decide(local, platforms=[gpu_run])
    assert named.results.portability == together.results.portability
    composed = document.compose(named)
    assert "[1] Fancy CPU" in table.render(composed)
    assert "[2] NVIDIA H100" in table.render(composed)


def test_platforms_are_stored_with_the_run_that_is_made(fake_world: Callable[[], Context]) -> None:
    world = fake_world()
    proposal = propose(Answers(model=MODEL, gpu="cpu", batch_sizes="1", dtype="float32"), world)
    store_run(world, model=proposal.question.model, input_tokens=proposal.question.input_tokens)
    run = create(proposal, world)
    assert [
        event.run_event.platform.name
        for event in run.events()
        if isinstance(event.run_event, PlatformKnown)
    ] == ["NVIDIA H100 80GB HBM3"]


def damage(run: Run) -> None:
    """Change a byte of a name, so that the size of the file stays what the index knows."""
    file = run.directory / "events.jsonl"
    file.write_bytes(file.read_bytes().replace(b'"compiled"', b'"compile\xff"', 1))


def test_a_damaged_run_is_passed_over(fake_world: Callable[[], Context]) -> None:
    world = fake_world()
    whole, damaged = store_run(world), store_run(world, "20261102-000000-0000")
    world.store.history()
    damage(damaged)
    assert answer(world).provenance.run == whole.directory.name
    proposal = propose(Answers(model=MODEL, gpu="cpu", batch_sizes="1"), world)
    assert create(proposal, world).state().plan is not None


def test_what_keeps_a_run_from_being_begun_leaves_none(
    fake_world: Callable[[], Context], monkeypatch: pytest.MonkeyPatch
) -> None:
    def recall(*_: object) -> None:
        raise OSError

    world = fake_world()
    proposal = propose(Answers(model=MODEL, gpu="cpu"), world)
    monkeypatch.setattr(other_platforms, "recall", recall)
    with pytest.raises(OSError):  # noqa: PT011 - any will do
        create(proposal, world)
    assert world.store.is_empty()


def test_runs_that_cannot_stand_beside_each_other_are_refused(
    fake_world: Callable[[], Context],
) -> None:
    world = fake_world()
    local = recorded_runs.make_run(world.store, finished=True)
    another_model = store_run(
        world, "20261104-000000-0000", model=builders.shipped_catalogue().models.demo
    )
    one, two = store_run(world, "20261105-000000-0000"), store_run(world, "20261106-000000-0000")
    for runs, words in (([another_model], "another model"), ([one, two], "too")):
        with pytest.raises(UserError) as problem:
            decide(local, platforms=runs)
        assert words in problem.value.what
