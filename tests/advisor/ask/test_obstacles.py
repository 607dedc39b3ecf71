"""A workflow that cannot run has its first obstacle as the reason."""

from __future__ import annotations

from typing import Any

import builders
import pytest
from golden_files import Expect

from advisor.ask import obstacles
from advisor.ask.obstacles import find_obstacle, missing_packages
from advisor.domain.machine import Machine
from advisor.domain.model import (
    ExportedModel,
    FactoryModel,
    OnnxModel,
    SyntheticModel,
    TransformersModel,
)
from advisor.domain.plan import Excluded
from advisor.domain.workflow import CitedFact, Environment, WeightCopies

SHARED = Environment(kind="shared", requirements=("torch>=2.11,<2.14", "onnxruntime>=1.27"))
H100 = builders.gpu(compute_capability="9.0")
ON_GPU = {"device": "cuda", "gpu": H100.uuid}


def obstacle(
    machine: Machine | None = None, asked: dict[str, Any] | None = None, **workflow: Any
) -> Excluded | None:
    return find_obstacle(
        builders.workflow(**workflow),
        builders.question(**asked or {}),
        machine or builders.gpu_machine(H100),
    )


def test_a_limit_is_reported_whatever_is_installed(expect: Expect) -> None:
    no_device = CitedFact(value="no such device", source="a test")
    no_cache = CitedFact(value="it has no cache", source="a test")
    cases: list[tuple[dict[str, Any], dict[str, Any]]] = [
        ({"task": "generate"}, {}),
        ({"model": OnnxModel(name="a.onnx")}, {}),
        ({}, {"refused": {"cpu": no_device}}),
        ({"task": "generate"}, {"refused": {"generate": no_cache}}),
        ({}, {"devices": ("cuda",)}),
        ({"dtype": "bfloat16"}, {"dtypes": ("float32", "float16")}),
        (ON_GPU, {"min_compute_capability": "9.1"}),
        (ON_GPU, {"min_compute_capability": "10.0"}),
    ]
    reasons = []
    for asked, workflow in cases:
        found = builders.known(obstacle(asked=asked, **workflow))
        assert (found.workflow, found.status, found.fix) == ("compiled", "unsupported", None)
        assert found == obstacle(asked=asked, **workflow, environment=Environment(kind="own"))
        reasons.append(found.reason)
    expect("limits", reasons)


@pytest.mark.parametrize(
    ("asked", "workflow"),
    [
        ({"model": OnnxModel(name="a.onnx")}, {"input_formats": ("torch", "onnx")}),
        ({"model": ExportedModel(name="a.pt2")}, {}),
        ({"model": FactoryModel(name="a:b")}, {}),
        (ON_GPU, {"refused": {"cpu": CitedFact(value="no such device", source="a test")}}),
        ({"dtype": "own"}, {"dtypes": ("float16",)}),
        (ON_GPU, {"min_compute_capability": "9.0"}),
        (ON_GPU, {"min_compute_capability": "8.6"}),
        ({}, {"min_compute_capability": "10.0"}),
        ({"task": "generate"}, {"tasks": ("forward", "generate")}),
    ],
)
def test_a_limit_that_does_not_apply_is_no_obstacle(
    asked: dict[str, Any], workflow: dict[str, Any]
) -> None:
    assert obstacle(asked=asked, **workflow) is None


@pytest.mark.parametrize("limits", [{}, {"devices": ()}, {"tasks": ("generate",)}])
def test_a_workflow_without_a_probe_has_the_declared_reason(limits: dict[str, Any]) -> None:
    reason = CitedFact(value="it needs another machine", source="a test")
    assert obstacle(has_probe=False, not_measured=reason, **limits) == Excluded(
        workflow="compiled",
        status="not-covered",
        reason="it needs another machine",
        fix="to use it without p3-advisor: pip install compiled",
    )


OWN = Environment(kind="own", name="apart", requirements=("rare-stack==2.1",))


@pytest.mark.parametrize(
    ("machine", "reason"),
    [
        (builders.machine(), "has not been created"),
        (builders.machine_with_environment("apart", "its interpreter is gone"), "is gone"),
    ],
)
def test_an_environment_that_is_missing_or_broken_is_created(machine: Machine, reason: str) -> None:
    assert obstacle(builders.machine_with_environment("apart"), environment=OWN) is None
    found = builders.known(obstacle(machine, environment=OWN))
    assert (found.status, found.fix) == ("not-installed", "p3-advisor env create apart")
    assert reason in found.reason


@pytest.mark.parametrize(("packages", "is_named"), [({"rare-stack": "2.2"}, True), ({}, False)])
def test_a_version_mismatch_is_reported(packages: dict[str, str], *, is_named: bool) -> None:
    machine = builders.machine(
        software=builders.interpreter(executable="/opt/python", packages=packages)
    )
    found = builders.known(obstacle(machine, environment=OWN))
    assert found.status == "not-installed"
    for value in ("/opt/python", "rare-stack 2.2", "rare-stack==2.1"):
        assert (value in found.reason) == is_named


@pytest.mark.parametrize(
    ("packages", "missing"),
    [
        ({"torch": "2.12.0", "onnxruntime": "1.27.0"}, []),
        ({"torch": "2.11.0+cu130", "onnxruntime": "2.0"}, []),
        ({"torch": "2.13.0.dev20261101", "onnxruntime": "1.27"}, []),
        ({"torch": "2.12.0"}, ["onnxruntime>=1.27"]),
        ({"torch": "2.10.1", "onnxruntime": "1.26.9"}, ["torch<2.14,>=2.11", "onnxruntime>=1.27"]),
        ({"torch": "2.14.0", "onnxruntime": "1.27"}, ["torch<2.14,>=2.11"]),
        ({}, ["torch<2.14,>=2.11", "onnxruntime>=1.27"]),
    ],
)
def test_missing_packages_are_listed_with_the_install_command(
    packages: dict[str, str], missing: list[str]
) -> None:
    machine = builders.machine(
        software=builders.interpreter(executable="/opt/python", packages=packages)
    )
    assert missing_packages(SHARED.requirements, machine) == missing
    excluded = Excluded(
        workflow="compiled",
        status="not-installed",
        reason=f"/opt/python does not have {', '.join(missing)}",
        fix=" ".join(["/opt/python -m pip install", *(f"'{each}'" for each in missing)]),
    )
    assert obstacle(machine, environment=SHARED) == (excluded if missing else None)


@pytest.mark.parametrize(
    ("accepts", "served"),
    [((("torch>=2.11",),), True), ((("torch>=99",), ("onnx>=1",)), True), ((("jax",),), False)],
)
def test_accepted_packages_in_the_interpreter_need_no_environment(
    accepts: tuple[tuple[str, ...], ...], served: bool
) -> None:
    own = Environment(kind="own", requirements=("no-such-stack==1",))
    assert (obstacle(builders.machine(), environment=own, accepts=accepts) is None) == served


def test_only_servers_that_split_a_model_are_measured_on_several_gpus() -> None:
    split = {"task": "serve", **ON_GPU, "further_gpus": ("GPU-second",)}
    serving: dict[str, Any] = {"tasks": ("serve",), "devices": ("cuda",)}
    assert builders.known(obstacle(asked=split, **serving)).status == "unsupported"
    splits = CitedFact(value=True, source="a test")
    assert obstacle(asked=split, tensor_parallel=splits, **serving) is None
    assert obstacle(asked={"task": "serve", **ON_GPU}, **serving) is None


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
    asked = builders.question(**{**ASKED, "model": FactoryModel(name="a.py:b"), "dtype": "own"})
    large = builders.workflow(weight_copies=WeightCopies(always=1e9))
    assert obstacles.find_shortage(large, asked, CARD) is None


@pytest.mark.parametrize("block", ["matmul", "matmul-relu", "ffn", "encoder"])
def test_the_weights_of_every_block_are_counted(block: str) -> None:
    model = SyntheticModel(name="s", block=block, hidden=8, intermediate=16, layers=1, heads=2)  # type: ignore[arg-type]
    known = {"matmul": 144, "matmul-relu": 144, "ffn": 280, "encoder": 280 + 288 + 32}
    assert obstacles.count_in_block(model) == known[block]


def test_a_language_model_that_does_not_fit_is_told_how_many_gpus_hold_it() -> None:
    """7e10 weights in float16 have 130 GiB: 8 cards of 24 GiB hold them, and 4 do not."""
    model = TransformersModel(name="big", weights="random", parameters=int(7e10))
    asked = builders.question(**{**ASKED, "model": model, "task": "serve"})
    assert "--gpus-per-model 8" in builders.known(obstacles.advise_more_gpus(asked, CARD))
    split = builders.replace(asked, further_gpus=tuple(map(str, range(7))))
    assert obstacles.advise_more_gpus(split, CARD) is None
    assert obstacles.find_shortage(builders.workflow(), split, CARD) is None
    assert obstacles.find_shortage(builders.workflow(), asked, CARD) is not None
    assert obstacles.advise_more_gpus(builders.replace(asked, task="forward"), CARD) is None
