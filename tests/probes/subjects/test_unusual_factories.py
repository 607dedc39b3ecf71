"""Models of factories that name precisions, hold sparse weights, or have no batch."""

from __future__ import annotations

import contextlib
import pathlib
from typing import Any

import numpy as np
import pytest
import workers
from lazy import lazy

from probes import protocol
from probes.adapter import ModelError
from probes.checking import dispatch, stored_reference
from probes.wire.shape import Shape

torch = lazy("torch")
factory = lazy("probes.subjects.factory")
torch_subject = lazy("probes.subjects.torch_subject")
pytorch_eager = lazy("probes.workflows.pytorch_eager")

pytestmark = pytest.mark.stack

MODELS = """
import os
import random

import numpy as np
import torch


class Model(torch.nn.Module):
    def __init__(self, call, **layers):
        super().__init__()
        self.call = call
        self.layers = torch.nn.ModuleDict(layers)

    def forward(self, *inputs):
        return self.call(self.layers, *inputs)


def with_casts():
    return Model(
        lambda layers, x: layers["b"](layers["a"](x.bfloat16()).float()),
        a=torch.nn.Linear(16, 64).bfloat16(),
        b=torch.nn.Linear(64, 4),
    ), torch.randn(2, 16)


def of_bytes():
    return Model(
        lambda layers, x: layers["a"](x.float() / 255), a=torch.nn.Linear(16, 4)
    ), torch.randint(0, 256, (2, 16), dtype=torch.uint8)


def bound_to_its_precision():
    def call(layers, x):
        assert x.dtype == torch.float32
        assert layers["a"].weight.dtype == torch.float32
        return layers["a"](x)

    return Model(call, a=torch.nn.Linear(16, 4)), torch.randn(2, 16)


def of_a_number():
    return Model(
        lambda layers, x, scale: layers["a"](x) * scale, a=torch.nn.Linear(16, 4)
    ), (torch.randn(2, 16), torch.tensor(0.5))


def of_gradients():
    def call(layers, x):
        with torch.enable_grad():
            x = x.detach().requires_grad_(True)
            return torch.autograd.grad(layers["a"](x).pow(2).sum(), x)[0]

    return Model(call, a=torch.nn.Linear(16, 4)), torch.randn(2, 16)


class Graph(torch.nn.Module):
    def __init__(self, nodes):
        super().__init__()
        self.layer = torch.nn.Linear(16, 4)
        edges = torch.bernoulli(torch.full((nodes, nodes), 0.5))
        self.register_buffer("edges", edges.to_sparse())

    def forward(self, x):
        return torch.sparse.mm(self.edges, self.layer(x))


def sparse_weights():
    return Graph(2), torch.randn(2, 16)


def of_five_nodes():
    return Graph(5), torch.randn(5, 16)


class Window(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(16, 4)
        self.register_buffer("window", torch.hann_window(16))  # a part of a longer tensor
        self.register_buffer("columns", torch.eye(16).t())

    def forward(self, x):
        return self.layer(x * self.window @ self.columns)


def with_views():
    return Window(), torch.randn(2, 16)


class Unseeded(torch.nn.Module):
    def __init__(self, persistent):
        super().__init__()
        drawn = np.random.default_rng().standard_normal((16, 4), dtype=np.float32)
        self.register_buffer("projection", torch.from_numpy(drawn), persistent=persistent)

    def forward(self, x):
        return x @ self.projection


def buffers_only():
    return Unseeded(True), torch.randn(2, 16)


def buffers_outside_of_the_state():
    return Unseeded(False), torch.randn(2, 16)


def drawn_by_numpy():
    weights = torch.from_numpy(np.random.randn(16, 4).astype(np.float32))
    return Model(lambda layers, x: layers["a"](x) @ weights, a=torch.nn.Linear(16, 16)), (
        torch.randn(2, 16)
    )


def of_a_random_size():
    size = random.choice(range(4, 40))
    return Model(lambda layers, x: layers["a"](x), a=torch.nn.Linear(16, size)), torch.randn(2, 16)


def traced_with_dropout():
    layers = torch.nn.Sequential(torch.nn.Linear(16, 4), torch.nn.Dropout(0.5))
    return torch.fx.symbolic_trace(layers), torch.randn(2, 16)


def parts():
    return torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))


def compiled():
    return torch.compile(parts()), torch.randn(2, 16)


def with_a_compiled_part():
    module = parts()
    module[0] = torch.compile(module[0])
    return module, torch.randn(2, 16)


def compiled_in_place():
    module = parts()
    module.compile()
    return module, torch.randn(2, 16)


def with_a_compiled_forward():
    class CompiledForward(torch.nn.Linear):
        @torch.compile
        def forward(self, x):
            return super().forward(x)

    return CompiledForward(16, 4), torch.randn(2, 16)


def with_a_compiled_attribute():
    module = parts()
    module.forward = torch.compile(module.forward)
    return module, torch.randn(2, 16)


def with_settings():
    torch.set_num_threads(torch.get_num_threads() + 1)
    torch.set_float32_matmul_precision("medium")
    torch.set_default_dtype(torch.float64)
    torch.backends.mkldnn.enabled = False
    return parts().float(), torch.randn(2, 16).float()


def with_a_hook():
    module = parts()
    module.register_forward_hook(lambda module, inputs, output: output + 100)
    module[1].register_forward_pre_hook(lambda module, inputs: (inputs[0] * 2,))
    return module, torch.randn(2, 16)


class Tools:
    pass


def calling(function):
    return lambda: (
        Model(lambda layers, x: function(layers["a"](x)), a=torch.nn.Linear(16, 4)),
        torch.randn(2, 16),
    )


def calls_a_compiled_global():
    global COMPILED
    COMPILED = torch.compile(torch.sin)
    return calling(lambda x: COMPILED(x))()


def calls_a_compiled_method():
    Tools.double = staticmethod(torch.compile(lambda x: 2 * x))
    return calling(lambda x: Tools.double(x))()


def calls_in_a_list():
    functions = [torch.compile(torch.tanh)]
    return calling(lambda x: functions[0](x))()


sets_threads = calling(lambda x: torch.set_num_threads(torch.get_num_threads() + 1) or x)
sets_precision = calling(lambda x: torch.set_float32_matmul_precision("medium") or x)
sets_deterministic = calling(lambda x: torch.use_deterministic_algorithms(True) or x)
sets_a_variable = calling(lambda x: os.environ.update(OMP_DYNAMIC="1") or x)


def keeps_threads(x):
    before = torch.get_num_threads()
    torch.set_num_threads(before + 1)
    torch.set_num_threads(before)
    return x


puts_threads_back = calling(keeps_threads)


def not_to_be_compiled():
    module = parts()
    module[1].forward = torch.compiler.disable(module[1].forward)
    return module, torch.randn(2, 16)


def quantised():
    return torch.ao.quantization.quantize_dynamic(parts(), {torch.nn.Linear}), torch.randn(2, 16)


def lazy():
    return torch.nn.LazyLinear(4), torch.randn(2, 16)


def without_inputs():
    return torch.nn.Linear(16, 4)


def without_values():
    return torch.nn.Linear(16, 4, device="meta"), torch.randn(2, 16)


class Unusual(torch.nn.Module):
    def forward(self, one, two, cache, *, scale, bias=None, pair):
        assert one is two and one.is_contiguous(memory_format=torch.channels_last)
        assert cache.shape[1] == 0 and scale == 2 and bias is None
        assert pair.stride()[-2] == 1 < pair.stride()[-1]
        return torch.cat([cache, (one * two * scale).flatten(1) + pair.mean()], 1)


def of_unusual_inputs():
    image = torch.randn(1, 3, 4, 4).to(memory_format=torch.channels_last)
    keywords = {"scale": 2, "bias": None, "pair": torch.randn(1, 5, 4).mT}
    return Unusual(), (image, image, torch.zeros(1, 0)), keywords


def of_sparse_inputs():
    return Graph(2), torch.randn(2, 16).to_sparse()
"""


def open_subject(function: str, directory: pathlib.Path, seed: int = 0) -> Any:
    return torch_subject.open_torch_subject(request_for(function, directory, seed))


def request_for(function: str, directory: pathlib.Path, seed: int = 0) -> protocol.Request:
    (directory / "nets.py").write_text(MODELS)
    return workers.make_request(
        pathlib.Path("x.py"),
        directory,
        subject={"kind": "factory", "name": f"{directory / 'nets.py'}:{function}"},
        dtype="native",
        batch_sizes=[2] if function != "of_five_nodes" else [1],
        shared_directory=str(directory),
        seed=seed,
    )


def make_reference(function: str, directory: pathlib.Path) -> stored_reference.Reference:
    request = request_for(function, directory)
    subject = torch_subject.open_torch_subject(request)
    inputs = [subject.inputs(2, number) for number in range(2)]
    file = dispatch.reference_file(request, Shape(2))
    with torch.no_grad():
        program = pytorch_eager.build(subject, inputs[0], request)
        dispatch.make_reference(pytorch_eager, subject, program, inputs, file, request)
    return stored_reference.load_reference(file)


def test_the_casts_of_a_model_do_not_lower_the_precision_of_its_reference(
    tmp_path: pathlib.Path,
) -> None:
    reference = make_reference("with_casts", tmp_path)
    assert reference.name == "float64"
    assert reference.perturbations
    (output,) = reference.outputs[0]
    # Eager PyTorch rounds to bfloat16 between the layers.
    assert 1e-4 < output.eager.rmse / output.scale < 1e-1


def test_the_reference_of_integers_that_become_numbers_is_more_precise(
    tmp_path: pathlib.Path,
) -> None:
    reference = make_reference("of_bytes", tmp_path)
    assert reference.name == "float64"
    assert reference.outputs[0][0].eager.rmse > 0


def test_a_model_that_runs_in_its_own_precision_only_is_its_own_reference(
    tmp_path: pathlib.Path,
) -> None:
    reference = make_reference("bound_to_its_precision", tmp_path)
    assert reference.name == "float32"
    assert not reference.uncompared


def test_the_precision_is_the_one_of_most_weights(tmp_path: pathlib.Path) -> None:
    assert open_subject("with_casts", tmp_path).dtype == "bfloat16"


def test_a_number_is_an_input(tmp_path: pathlib.Path) -> None:
    assert [each.shape for each in make_reference("of_a_number", tmp_path).inputs[0]] == [
        (2, 16),
        (),
    ]


def test_inputs_of_unusual_form_are_drawn_as_the_example_is(tmp_path: pathlib.Path) -> None:
    """One tensor twice, channels last, a transposed one, a size of 0, a number and None."""
    reference = make_reference("of_unusual_inputs", tmp_path)
    shapes = [(2, 3, 4, 4), (2, 0), (2, 4, 5)]
    assert [each.shape for each in reference.inputs[0]] == shapes
    assert reference.perturbations
    facts = open_subject("of_unusual_inputs", tmp_path).describe_inputs()
    assert [each.nested for each in facts] == [True] * 3
    assert [each.reordered for each in facts] == [True, False, True]


@pytest.mark.parametrize("given", ["given.npz", "given.py:make"])
def test_given_inputs_replace_those_of_a_factory(given: str, tmp_path: pathlib.Path) -> None:
    array: Any = np.arange(32, dtype=np.float32).reshape(2, 16)
    np.savez(tmp_path / "given.npz", input=array)
    (tmp_path / "given.py").write_text(
        "import torch\n\ndef make():\n    return torch.arange(32.0).reshape(2, 16)\n"
    )
    request = request_for("without_inputs", tmp_path)
    request.subject["inputs"] = str(tmp_path / given)
    subject = torch_subject.open_torch_subject(request)
    assert np.array_equal(subject.inputs(2, 1)[0], array)
    assert subject.fixed_inputs == 1
    (named,) = subject.describe_inputs()
    assert named.name == ("input" if given.endswith(".npz") else "")


def test_operations_that_cannot_be_counted_are_unknown(tmp_path: pathlib.Path) -> None:
    subject = open_subject("of_gradients", tmp_path)
    assert make_reference("of_gradients", tmp_path).outputs[0][0].shape == (2, 16)
    assert subject.flops(subject.inputs(2, 0)) is None


def test_sparse_weights_are_those_of_the_first_worker(tmp_path: pathlib.Path) -> None:
    first = open_subject("sparse_weights", tmp_path)
    other = open_subject("sparse_weights", tmp_path, seed=7)
    inputs: list[Any] = first.inputs(2, 0)
    with torch.no_grad():
        assert np.array_equal(first.run(inputs)[0], other.run(inputs)[0])


@pytest.mark.parametrize("function", ["with_views", "buffers_only", "buffers_outside_of_the_state"])
def test_buffers_are_those_of_the_first_worker(function: str, tmp_path: pathlib.Path) -> None:
    first = open_subject(function, tmp_path)
    other = open_subject(function, tmp_path, seed=7)
    inputs: list[Any] = first.inputs(2, 0)
    with torch.no_grad():
        assert np.array_equal(first.run(inputs)[0], other.run(inputs)[0])


@pytest.mark.parametrize("function", ["drawn_by_numpy", "of_a_random_size"])
def test_the_random_numbers_of_a_factory_are_seeded(function: str, tmp_path: pathlib.Path) -> None:
    first, other = (open_subject(function, tmp_path) for _ in range(2))
    inputs: list[Any] = first.inputs(2, 0)
    with torch.no_grad():
        assert np.array_equal(first.run(inputs)[0], other.run(inputs)[0])


def test_a_traced_graph_is_in_evaluation_mode(tmp_path: pathlib.Path) -> None:
    assert not make_reference("traced_with_dropout", tmp_path).uncompared


@pytest.mark.parametrize("function", ["of_sparse_inputs", "lazy", "without_values"])
def test_what_cannot_be_drawn_or_shared_is_refused_with_a_fix(
    function: str, tmp_path: pathlib.Path
) -> None:
    with pytest.raises(ModelError) as refused:
        open_subject(function, tmp_path)
    assert refused.value.fix


def test_a_model_of_one_number_of_rows_is_refused_with_that_number(tmp_path: pathlib.Path) -> None:
    subject = open_subject("of_five_nodes", tmp_path)
    with pytest.raises(ModelError) as refused, torch.no_grad():
        subject.settle_inputs(1, 1)
    assert "--batch-sizes 5" in refused.value.fix
    assert "first dimension" in refused.value.fix
    assert "list(images)" not in refused.value.fix
    subject.settle_inputs(5, 1)


@pytest.mark.filterwarnings("ignore:.*jit:DeprecationWarning")
@pytest.mark.parametrize(
    "function",
    [
        "compiled",
        "with_a_compiled_part",
        "compiled_in_place",
        "with_a_compiled_forward",
        "with_a_compiled_attribute",
    ],
)
def test_a_compiler_is_taken_off_and_stated(function: str, tmp_path: pathlib.Path) -> None:
    subject = open_subject(function, tmp_path)
    assert list(subject.adjusted) == ["torch.compile"]
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    with torch.no_grad():
        (output,) = subject.run(subject.inputs(2, 0))
    assert output.shape == (2, 4)
    assert not torch._dynamo.utils.counters["stats"]


@pytest.mark.filterwarnings("ignore:.*jit:DeprecationWarning")
@pytest.mark.parametrize(
    "function", ["calls_a_compiled_global", "calls_a_compiled_method", "calls_in_a_list"]
)
def test_eager_pytorch_calls_compiled_functions_uncompiled(
    function: str, tmp_path: pathlib.Path
) -> None:
    subject = pytorch_eager.open_subject(request_for(function, tmp_path))
    try:
        assert list(subject.adjusted) == ["torch.compile"]
        torch._dynamo.reset()
        torch._dynamo.utils.counters.clear()
        with torch.no_grad():
            subject.run(subject.inputs(2, 0))
        assert not torch._dynamo.utils.counters["stats"]
    finally:
        torch.compiler.set_stance("default")


@pytest.mark.parametrize(
    ("function", "setting"),
    [
        ("sets_threads", "threads"),
        ("sets_precision", "float32_matmul_precision"),
        ("sets_deterministic", "deterministic_algorithms"),
        ("sets_a_variable", "OMP_DYNAMIC"),
        ("puts_threads_back", ""),
    ],
)
def test_settings_that_forward_changes_are_refused(
    function: str, setting: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMP_DYNAMIC", "0")
    threads, precision = torch.get_num_threads(), torch.get_float32_matmul_precision()
    refused = pytest.raises(ModelError, match=rf"settings .*{setting}")
    try:
        with refused if setting else contextlib.nullcontext():
            make_reference(function, tmp_path)
    finally:
        torch.set_num_threads(threads)
        torch.set_float32_matmul_precision(precision)
        torch.use_deterministic_algorithms(mode=False)


def test_settings_of_the_process_are_put_back_or_kept_and_stated(tmp_path: pathlib.Path) -> None:
    threads = torch.get_num_threads()
    try:
        subject = open_subject("with_settings", tmp_path)
        assert torch.get_default_dtype() == torch.float64
    finally:
        torch.set_default_dtype(torch.float32)
    assert torch.get_num_threads() == threads
    assert torch.get_float32_matmul_precision() == "highest"
    assert torch.backends.mkldnn.enabled
    assert subject.adjusted["threads"] == (
        f"set to {threads + 1} by the model, put back to {threads}"
    )
    assert subject.adjusted.keys() == {
        "threads",
        "float32_matmul_precision",
        "mkldnn",
        "default_dtype",
    }


@pytest.mark.filterwarnings("ignore:.*quant")
@pytest.mark.parametrize("function", ["with_a_hook", "quantised", "not_to_be_compiled"])
def test_the_baseline_is_what_the_factory_returned(function: str, tmp_path: pathlib.Path) -> None:
    subject = open_subject(function, tmp_path)
    reference = make_reference(function, tmp_path)
    torch.manual_seed(0)
    module, _ = factory.call_factory(request_for(function, tmp_path).subject["name"])
    with torch.no_grad():
        expected = module.eval()(*subject.tensors(reference.inputs[0]))
    found = reference.outputs[0][0].values.reshape(expected.shape)
    assert abs(found - expected.double().numpy()).max() < 1e-3 * abs(found).max()
    assert not subject.adjusted


def test_the_third_value_of_a_factory_is_named_where_it_is_wrong() -> None:
    tensor = torch.zeros(2)
    for third in (tensor, {1: tensor}):
        returned = (torch.nn.Linear(2, 2), torch.zeros(1, 2), third)
        with pytest.raises(ModelError, match="third value"):
            factory.check_returned(returned, "models.py:build")


@pytest.mark.parametrize(
    ("parameters", "needed"),
    [
        ("width", "width"),
        ("width, *, depth, bias=True", "width, depth"),
        ("width=4", ""),
        ("*sizes, **options", ""),
    ],
)
def test_parameters_that_a_factory_needs_are_named(
    parameters: str, needed: str, tmp_path: pathlib.Path
) -> None:
    file = tmp_path / "parametrised.py"
    file.write_text(f"def build({parameters}):\n    return 'built'\n")
    if not needed:
        assert factory.call_factory(f"{file}:build") == "built"
        return
    with pytest.raises(ModelError) as problem:
        factory.call_factory(f"{file}:build")
    assert str(problem.value).endswith(f": {needed}")
    assert "default values" in problem.value.fix
