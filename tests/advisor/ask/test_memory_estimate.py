"""The estimate of the memory that a workflow needs at least."""

from __future__ import annotations

from typing import Any

import builders
import msgspec
import pytest

from advisor.ask import obstacles
from advisor.ask.obstacles import find_obstacle
from advisor.domain.model import FactoryModel, SyntheticModel, TransformersModel
from advisor.domain.workflow import WeightCopies

#: Llama-2's stack in float16: 5.4 GiB.
STACK = SyntheticModel(
    name="synthetic/ffn-multilayer@llama2-7b",
    block="ffn-multilayer",
    hidden=4096,
    intermediate=11008,
    layers=32,
)
CARD = builders.gpu(name="NVIDIA GeForce RTX 4090", memory_bytes=24 << 30)
ASKED: dict[str, Any] = {
    "model": STACK,
    "dtype": "float16",
    "device": "cuda",
    "gpu": CARD.uuid,
    "batch_sizes": (1, 4, 16, 64),
}


def test_the_sizes_of_the_paper_s_models_agree_with_the_paper() -> None:
    """0.945 and 5.375 GiB: section 4.4, without the biases."""
    small = SyntheticModel(
        name="s", block="ffn-multilayer", hidden=2048, intermediate=5632, layers=22
    )
    for model, gibibytes in ((small, 0.945), (STACK, 5.375)):
        held = obstacles.weight_bytes(builders.question(model=model, dtype="float16"))
        assert held is not None
        assert held / (1 << 30) == pytest.approx(gibibytes, rel=1e-3)


@pytest.mark.parametrize(
    ("copies", "sizes", "fits"),
    [
        (WeightCopies(), (1, 4, 16, 64), True),
        (WeightCopies(always=4.0), (1, 4, 16, 64), True),
        (WeightCopies(always=5.0), (1, 4, 16, 64), False),
        (WeightCopies(each_batch_size=1.0), (1, 4, 16, 64), False),
        (WeightCopies(each_batch_size=1.0), (1, 64), True),
    ],
)
def test_a_workflow_that_holds_too_many_copies_of_the_weights_is_excluded(
    copies: WeightCopies, sizes: tuple[int, ...], fits: bool
) -> None:
    workflow = builders.workflow(weight_copies=copies)
    found = find_obstacle(
        workflow, builders.question(**{**ASKED, "batch_sizes": sizes}), builders.gpu_machine(CARD)
    )
    assert (found is None) == fits
    if found is not None:
        assert found.status == "unsupported"
        assert "24.0 GiB" in found.reason


def test_a_model_of_unknown_size_is_not_excluded() -> None:
    asked = builders.question(**{**ASKED, "model": FactoryModel(name="a.py:b"), "dtype": "native"})
    assert (
        obstacles.find_shortage(
            builders.workflow(weight_copies=WeightCopies(always=1e9)), asked, CARD
        )
        is None
    )


@pytest.mark.parametrize("block", ["matmul", "matmul-relu", "ffn", "encoder"])
def test_the_weights_of_every_block_are_counted(block: str) -> None:
    model = SyntheticModel(name="s", block=block, hidden=8, intermediate=16, layers=1, heads=2)  # type: ignore[arg-type]
    known = {"matmul": 144, "matmul-relu": 144, "ffn": 280, "encoder": 280 + 288 + 32}
    assert obstacles.count_in_block(model) == known[block]


def test_a_language_model_that_does_not_fit_is_excluded() -> None:
    """Llama-2-7b in float16 has 12.5 GiB: once fits into 24, twice does not."""
    model = TransformersModel(
        name="meta-llama/Llama-2-7b-chat-hf", weights="random", parameters=6_738_415_616
    )
    asked = builders.question(**{**ASKED, "model": model})
    assert obstacles.find_shortage(builders.workflow(), asked, CARD) is None
    shortage = obstacles.find_shortage(
        builders.workflow(weight_copies=WeightCopies(always=2.0)), asked, CARD
    )
    assert shortage is not None
    assert "25.1 GiB for 2.0 copies" in shortage


@pytest.mark.parametrize(
    ("parameters", "format_"), [(6e9, None), (2e10, "int8"), (4e10, "int4"), (4e11, None)]
)
def test_a_format_in_which_the_weights_fit_is_named(parameters: float, format_: str | None) -> None:
    """A card of 24 GiB holds 1.3e10 weights in float16, 2.4e10 in int8 and 4.6e10 in int4."""
    model = TransformersModel(name="big", weights="random", parameters=int(parameters))
    asked = builders.question(**{**ASKED, "model": model})
    machine = builders.gpu_machine(CARD)
    found = find_obstacle(builders.workflow(), asked, machine)
    fits = parameters < 1e10
    assert (found is None) == fits
    advice = found.fix if found else None
    assert (advice is None) == (format_ is None)
    if advice is not None:
        assert f"--quantised {format_}" in advice


def test_a_language_model_that_does_not_fit_is_told_how_many_gpus_hold_it() -> None:
    """7e10 weights in float16 have 130 GiB: 8 cards of 24 GiB hold them, and 4 do not."""
    model = TransformersModel(name="big", weights="random", parameters=int(7e10))
    asked = builders.question(**{**ASKED, "model": model, "task": "serve"})
    assert obstacles.gpus_needed(2 * 7e10, CARD) == 8
    advice = obstacles.advise_on_shortage(asked, CARD)
    assert advice is not None
    assert "--gpus-per-model 8" in advice
    split = msgspec.structs.replace(asked, further_gpus=tuple(map(str, range(7))))
    assert obstacles.advise_on_shortage(split, CARD) is None
    assert obstacles.find_shortage(builders.workflow(), split, CARD) is None
    assert obstacles.find_shortage(builders.workflow(), asked, CARD) is not None
    forward = msgspec.structs.replace(asked, task="forward")
    assert obstacles.advise_on_shortage(forward, CARD) is None
