"""Precisions of models and their references, perturbed inputs, and counted operations."""

from __future__ import annotations

import subprocess
import sys
import types
from typing import Any

import builders
import numpy as np
import pytest
import workers
from lazy import by_request, equal_keys, factory, higher_precision, loaded_model, outputs, torch
from reference_cases import MODEL, Factories

from advisor.domain.model import FactoryModel
from advisor.recipes import calls, snippet
from probes.adapter import Workflow
from probes.checking import correctness
from probes.facts import TRAINING_MODE
from probes.runtime import harness
from probes.shape import Shape

pytestmark = [pytest.mark.stack, pytest.mark.usefixtures("here")]


def with_complex_weight() -> Any:
    module = torch.nn.Module()
    weight = torch.randn(33, dtype=torch.cfloat, generator=torch.Generator().manual_seed(0))
    module.weight = torch.nn.Parameter(weight, requires_grad=False)
    return module


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [("float64", "complex128"), ("float32", "complex64"), ("bfloat16", "complex64")],
)
def test_a_module_keeps_complex_weights(dtype: str, expected: str) -> None:
    cast = higher_precision.cast_module(with_complex_weight(), getattr(torch, dtype))
    printed = with_complex_weight()
    if dtype != "float64":  # which is no choice of users
        lines = calls.cast_lines(builders.question(dtype=dtype), complex_weights=True)
        exec("\n".join(lines), {"torch": torch, "model": printed})
        assert printed.weight.dtype is cast.weight.dtype
    assert cast.weight.dtype is getattr(torch, expected)
    for module in (cast, printed):
        assert torch.allclose(module.weight.to(torch.cfloat), with_complex_weight().weight)


LAYERS = {
    "table": lambda: torch.nn.Embedding(99, 8, dtype=torch.bfloat16),
    "linear": lambda: torch.nn.Linear(3, 3),
    "bfloat16": lambda: torch.nn.Linear(3, 3, dtype=torch.bfloat16),
    "norm": lambda: torch.nn.LayerNorm(3),
}


@pytest.mark.parametrize(
    ("layers", "scales", "given", "expected"),
    [
        (["table", "linear"], "float32", "int64", "float32"),  # a table in less memory
        (["table"], "float32", "int64", "bfloat16"),
        (["table", "bfloat16", "norm"], "float32", "float32", "bfloat16"),
        ([], "bfloat16", "float32", "float32"),  # packed weights
        ([], "bfloat16", "int64", "bfloat16"),
    ],
)
def test_the_precision_of_a_model_is_that_of_what_it_computes(
    layers: list[str], scales: str, given: str, expected: str
) -> None:
    module = torch.nn.Sequential(*(LAYERS[each]() for each in layers))
    module.register_buffer("scales", torch.ones(2, dtype=getattr(torch, scales)))
    argument = loaded_model.Argument((3,), getattr(torch, given))
    model = loaded_model.LoadedModel(module, (argument,), shares_weights=False)
    assert loaded_model.floating_dtype(model) is getattr(torch, expected)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ('module.register_buffer("table", torch.ones(2, dtype=torch.cfloat))', ".is_complex()"),
        ("module = torch.export.export(module, (torch.ones(1, 2),)).module()", ""),
    ],
)
def test_the_recipe_keeps_complex_weights_and_modules_with_a_fixed_mode(
    line: str, expected: str
) -> None:
    made = f"""
def made():
    module = torch.nn.Linear(2, 2)
    {line}
    return module, torch.ones(1, 2)
"""
    request = Factories(f"import torch\n{made}").request("made")
    subject = by_request.open_torch_subject(request)
    module = types.SimpleNamespace(integration=lambda *_: "output = model(*inputs)\n")
    job: Any = types.SimpleNamespace(workflow=Workflow(module), subject=subject, request=request)
    question = builders.question(model=FactoryModel(name="net.py:made"), dtype="bfloat16")
    text = snippet.compose_reported(question, 1, harness.snippet_facts(job, {}))
    assert expected in text
    assert ("model.eval()" in text) == bool(expected)
    assert (TRAINING_MODE in subject.adjusted) == bool(expected)


def test_tensors_of_integers_stay_as_they_are() -> None:
    assert higher_precision.cast(torch.arange(3), torch.float64).dtype is torch.int64
    assert higher_precision.cast(torch.ones(3), torch.float64).dtype is torch.float64


def test_complex_inputs_are_drawn_with_the_spread_of_the_example() -> None:
    example = torch.randn(64, 9, dtype=torch.cfloat) * 3 + (1 - 2j)
    (like,) = factory.arguments_like((example,), [500])
    drawn = like.draw(np.random.default_rng(0), 500)
    assert drawn.shape == (500, 9)
    assert drawn.dtype == np.complex64
    assert abs(drawn.mean() - example.mean().item()) < 0.3
    assert abs(drawn.std() / example.std().item() - 1) < 0.1


@pytest.mark.parametrize("name", ["float32", "float16", "bfloat16"])
def test_each_value_moves_to_a_neighbour(name: str) -> None:
    dtype = getattr(torch, name)
    values = torch.tensor([1.0, 1.5, -3.0, 100.0, -0.37, 1e-3]).repeat(64).to(dtype).double()
    moved = higher_precision.step(values, torch.finfo(dtype).eps, torch.Generator().manual_seed(0))
    distance = (moved - values).abs()
    # The neighbour above, in the precision: it is as far as the spacing of the values there.
    spacing = 2.0 ** torch.floor(torch.log2(values.abs())) * torch.finfo(dtype).eps
    assert torch.equal(distance, spacing)
    assert 0.3 < float((moved > values).double().mean()) < 0.7


def test_zeros_stay_and_nothing_becomes_infinite() -> None:
    values = torch.tensor([0.0, -0.0, 1e-300, 1e300], dtype=torch.float64)
    moved = higher_precision.step(values, 2.0**-7, torch.Generator().manual_seed(0))
    assert moved[:2].tolist() == [0.0, 0.0]
    assert torch.isfinite(moved).all()
    assert (moved[2:] != values[2:]).all()


def test_a_matrix_product_counts_two_operations_for_each_multiplication() -> None:
    assert outputs.count_flops(lambda: torch.ones(3, 5) @ torch.ones(5, 7)) == 2 * 3 * 5 * 7


def test_an_encoder_layer_counts_all_products_although_pytorch_fuses_it() -> None:
    layer = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval()
    # The snippet of another test may have switched it off in this process.
    torch.backends.mha.set_fastpath_enabled(True)
    with torch.no_grad():
        counted = outputs.count_flops(lambda: layer(torch.ones(1, 5, 8)))
    assert counted == 2 * 5 * (4 * 8 * 8 + 2 * 8 * 16) + 2 * 2 * 5 * 5 * 8
    assert torch.backends.mha.get_fastpath_enabled()


def test_grouped_query_attention_counts_every_query_head() -> None:
    query, key, value = torch.ones(2, 8, 5, 16), torch.ones(2, 2, 7, 16), torch.ones(2, 2, 7, 16)
    counted = outputs.count_flops(
        lambda: torch.nn.functional.scaled_dot_product_attention(query, key, value, enable_gqa=True)
    )
    expected = 2 * 2 * 8 * 5 * 7 * (16 + 16)
    assert counted == expected
    assert outputs.attention_flops(query.shape, key.shape, value.shape) == expected


def test_a_call_without_products_has_no_count() -> None:
    assert outputs.count_flops(lambda: torch.ones(3) + 1) is None


def test_a_view_of_a_parameter_as_the_input_of_a_layer_is_no_error() -> None:
    query = torch.nn.Parameter(torch.ones(3, 8))
    layer = torch.nn.MultiheadAttention(8, 2, batch_first=True).eval()
    with torch.no_grad():
        outputs.count_flops(lambda: layer(query.expand(2, -1, -1), *[torch.ones(2, 5, 8)] * 2))


MODELS = """
def build(call):
    layer = torch.nn.Linear(16, 16)
    mask = torch.ones(4, 16, dtype=torch.bool)
    mask[:, 11:] = False
    mask[1, 0] = False
    model = Model(lambda layers, x, mask: call(layers["layer"](x), mask), layer=layer)
    return model, (torch.randn(4, 16), mask)


def masked_logits():
    return build(lambda x, mask: x.masked_fill(~mask, torch.finfo(x.dtype).min))


def softmax_of_masked_rows():
    # In float32, as transformers computes attention.
    return build(lambda x, mask: torch.softmax(
        x.masked_fill(mask | ~mask, torch.finfo(x.dtype).min), -1, dtype=torch.float32
    ).to(x.dtype) + x)


def mask_of_the_default_type():
    return build(lambda x, mask: x + torch.full((16, 16), torch.finfo(x.dtype).min).triu(1)[3])
"""


@pytest.mark.parametrize(
    ("function", "dtype"),
    [
        ("masked_logits", "float32"),
        ("masked_logits", "float16"),
        ("masked_logits", "bfloat16"),
        ("softmax_of_masked_rows", "float32"),
        ("softmax_of_masked_rows", "bfloat16"),
        ("mask_of_the_default_type", "float32"),
    ],
)
def test_a_mask_of_the_lowest_number_has_a_float64_reference(function: str, dtype: str) -> None:
    case = Factories(MODEL + MODELS, batch_sizes=[4], input_sets=2).make_case(function, dtype=dtype)
    assert case.reference.name == "float64"
    (output,) = case.reference.outputs[0]
    # The masks have no part in the size of the output.
    assert 0.1 < output.scale < 2
    assert 0 < output.eager.rmse < 1e-2
    for produced, expected in ((case.outputs, "exact"), (case.outputs[::-1], "incorrect")):
        verdict, _ = correctness.check_outputs(
            case.reference, produced, workers.rules(dtype), Shape(4)
        )
        assert verdict.accuracy_class == expected


def test_the_limits_of_a_precision_are_its_own_while_the_reference_computes() -> None:
    limits = torch.finfo(torch.float16).eps
    with higher_precision.ReferencePrecision(torch.float64, torch.float16).context():
        assert torch.finfo(torch.float64).eps == limits
        assert torch.finfo(torch.complex128).eps == limits
        assert torch.finfo(torch.float32).eps == 2**-23
        assert torch.finfo().eps == 2**-23
    assert torch.finfo(torch.float64).eps == 2**-52


@pytest.mark.parametrize("name", ["float32", "bfloat16", "float64"])
def test_an_rms_norm_without_an_epsilon_has_that_of_its_own_precision(name: str) -> None:
    own = getattr(torch, name)
    small = torch.full((2, 8), 2.0**-12)
    norm = torch.nn.RMSNorm(8, eps=torch.finfo(own).eps if own == torch.float64 else 2**-23)
    expected = norm.double()(small.double())
    called = higher_precision.ReferencePrecision(torch.float64, own).call(torch.nn.RMSNorm(8))
    assert torch.equal(called(small), expected)
    given = higher_precision.ReferencePrecision(torch.float64, own).call(
        torch.nn.RMSNorm(8, eps=0.5)
    )
    assert given(small)[0, 0].item() == pytest.approx(2.0**-11.5, rel=1e-6)


WITHOUT_DYNAMO = """
import sys, torch
from probes.subjects import equal_keys, modes, outputs
modes.leave_out_dynamo()
with equal_keys.Observer():
    torch.ones(2) + 1
assert outputs.count_flops(lambda: torch.ones(3, 5) @ torch.ones(5, 7))
sys.exit("torch._dynamo" in sys.modules)
"""


def test_the_modes_of_a_reference_do_not_import_dynamo() -> None:
    """Its import takes seconds, for which the first answer waits."""
    subprocess.run([sys.executable, "-c", WITHOUT_DYNAMO], check=True)


def test_code_that_compiles_itself_runs_in_modes_and_after_them() -> None:
    values = torch.ones(2)

    def call() -> torch.Tensor:
        found: torch.Tensor = torch.cond(values.sum() > 0, torch.sin, torch.cos, (values,))
        return found

    assert torch.equal(call(), values.sin())
    redirected = higher_precision.RedirectedCasts(torch.float64)
    for mode in (equal_keys.Observer(), equal_keys.OtherOrder(0), redirected):
        with mode:
            assert torch.equal(call(), values.sin())
    outputs.count_flops(call)
    assert torch.equal(call(), values.sin()), "Dynamo would still refuse it"


@pytest.mark.parametrize(
    "change",
    [
        lambda values: values,
        lambda values: values.bfloat16(),
        lambda values: values.long().T,
        lambda values: torch.complex(values, values).conj(),
    ],
)
def test_a_copy_in_parts_has_all_values(change: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outputs, "STAGING_BYTES", 24)
    tensor = change(torch.arange(35.0).reshape(5, 7))
    (copied,), (whole,) = map(outputs.collect, (outputs.copy_in_parts(tensor), tensor))
    assert copied.dtype == whole.dtype
    assert np.array_equal(copied, whole)
