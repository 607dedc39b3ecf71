"""Models of factories that name precisions, hold sparse weights, or have no batch."""

from __future__ import annotations

import pathlib
from typing import Any

import numpy as np
import pytest
from lazy import by_request, factory, torch
from reference_cases import MODEL, Factories

from probes.adapter import ModelError
from probes.shape import Shape

pytestmark = [pytest.mark.stack, pytest.mark.usefixtures("here")]

MODELS = """
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


def with_steps():
    def call(layers, x):
        return layers["a"](torch.exp(-torch.arange(16) / 16)) + x

    return Model(call, a=torch.nn.Linear(16, 16)), torch.randn(2, 16)


def with_seeded_noise():
    def call(layers, x):
        noise = torch.randn(2, 16, generator=torch.Generator().manual_seed(1))
        return layers["a"]((x + 1e-4 * noise).to(torch.float32))

    return Model(call, a=torch.nn.Linear(16, 16)), torch.randn(2, 16)


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


def lazy():
    return torch.nn.LazyLinear(4), torch.randn(2, 16)


def without_inputs():
    return torch.nn.Linear(16, 4)


def without_values():
    return torch.nn.Linear(16, 4, device="meta"), torch.randn(2, 16)


def without_rows():
    return torch.nn.Linear(16, 4), torch.randn(0, 16)


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


def of_masked_inputs():
    x = torch.randn(2, 16)
    return Graph(2), torch.masked.masked_tensor(x, x > 0)


def of_large_integers():
    return Graph(2), torch.full((2, 16), 2**63, dtype=torch.uint64)


def of_sparse_inputs():
    return Graph(2), torch.randn(2, 16).to_sparse()


def of_text():
    return Graph(2), (["a", "b"],)


def exported():
    linear = torch.nn.Linear(16, 4)
    return torch.export.export(linear, (torch.ones(2, 16),)), torch.ones(2, 16)
"""
FACTORIES = Factories(MODEL + MODELS)
request_for, open_subject = FACTORIES.request, FACTORIES.open
make_reference = FACTORIES.make_reference


@pytest.mark.parametrize(
    ("function", "own", "name", "least_error"),
    [
        # Eager PyTorch rounds to bfloat16, the precision of most weights, between the layers.
        ("with_casts", "bfloat16", "float64", 1e-4),
        ("of_bytes", "float32", "float64", 1e-9),
        ("with_steps", "float32", "float64", 1e-9),
        ("with_seeded_noise", "float32", "float64", 1e-9),
        ("bound_to_its_precision", "float32", "float32", 0),
    ],
)
def test_the_reference_is_more_precise_than_eager_where_the_model_allows_it(
    function: str, own: str, name: str, least_error: float
) -> None:
    assert open_subject(function).dtype == own
    reference = make_reference(function)
    assert (reference.name, reference.uncompared) == (name, {})
    assert reference.perturbations or function != "with_casts"
    (output,) = reference.outputs[0]
    assert torch.get_default_dtype() == torch.float32
    most = 1e-5 if own == "float32" else 1e-1
    assert least_error <= output.eager.rmse / output.scale < most


def test_a_number_is_an_input() -> None:
    assert [each.shape for each in make_reference("of_a_number").inputs[0]] == [(2, 16), ()]


def test_inputs_of_unusual_form_are_drawn_as_the_example_is() -> None:
    """One tensor twice, channels last, a transposed one, a size of 0, a number and None."""
    reference = make_reference("of_unusual_inputs")
    assert [each.shape for each in reference.inputs[0]] == [(2, 3, 4, 4), (2, 0), (2, 4, 5)]
    assert reference.perturbations
    facts = open_subject("of_unusual_inputs").describe_inputs()
    assert [each.nested for each in facts] == [True] * 3
    assert [each.reordered for each in facts] == [True, False, True]


@pytest.mark.parametrize("given", ["given.npz", "given.py:make"])
def test_given_inputs_replace_those_of_a_factory(given: str, tmp_path: pathlib.Path) -> None:
    array: Any = np.arange(32, dtype=np.float32).reshape(2, 16)
    np.savez(tmp_path / "given.npz", input=array)
    (tmp_path / "given.py").write_text(
        "import torch\n\ndef make():\n    return torch.arange(32.0).reshape(2, 16)\n"
    )
    request = request_for("without_inputs")
    request.subject["inputs"] = str(tmp_path / given)
    subject = by_request.open_torch_subject(request)
    assert np.array_equal(subject.inputs(2, 1)[0], array)
    assert subject.workload(Shape(2), subject.inputs(2, 1)).fixed_inputs == 1
    (named,) = subject.describe_inputs()
    assert named.rows == 2
    assert named.name == ("input" if given.endswith(".npz") else "")


def test_operations_that_cannot_be_counted_are_unknown() -> None:
    subject = open_subject("of_gradients")
    assert make_reference("of_gradients").outputs[0][0].shape == (2, 16)
    assert subject.workload(Shape(2), subject.inputs(2, 0)).flops is None


@pytest.mark.parametrize(
    ("function", "seed"),
    [
        ("sparse_weights", 7),
        ("with_views", 7),
        ("buffers_only", 7),
        ("buffers_outside_of_the_state", 7),
        ("drawn_by_numpy", None),
        ("of_a_random_size", None),
    ],
)
def test_a_worker_has_the_weights_of_the_first_one(function: str, seed: int | None) -> None:
    """Buffers too, whatever its seed is; what a factory draws and keeps is drawn from the seed."""
    first = open_subject(function)
    other = open_subject(function, **({} if seed is None else {"seed": seed}))
    inputs: list[Any] = first.inputs(2, 0)
    with torch.no_grad():
        assert np.array_equal(first.run(inputs)[0], other.run(inputs)[0])


def test_a_traced_graph_is_in_evaluation_mode() -> None:
    assert not make_reference("traced_with_dropout").uncompared


def test_integers_above_those_of_int64_are_drawn() -> None:
    (drawn,) = open_subject("of_large_integers").inputs(2, 1)
    assert (drawn == 2**63).all()


@pytest.mark.filterwarnings("ignore:The PyTorch API of MaskedTensors")
@pytest.mark.parametrize(
    ("function", "fix"),
    [
        ("of_sparse_inputs", "indices and values"),
        ("of_masked_inputs", "indices and values"),
        ("lazy", "call the model once"),
        ("without_values", "on the CPU"),
        ("without_rows", "one row or more"),
        ("of_text", "tokens"),
        ("exported", ".module()"),
    ],
)
def test_what_cannot_be_drawn_or_shared_is_refused_with_a_fix(function: str, fix: str) -> None:
    with pytest.raises(ModelError) as refused:
        open_subject(function)
    assert fix in refused.value.fix


def test_a_model_of_one_number_of_rows_is_refused_with_that_number() -> None:
    subject = open_subject("of_five_nodes", batch_sizes=[1])
    with pytest.raises(ModelError) as refused, torch.no_grad():
        subject.settle_inputs(1, 1)
    assert "--batch-sizes 5" in refused.value.fix
    assert "first dimension" in refused.value.fix
    assert "list(images)" not in refused.value.fix
    subject.settle_inputs(5, 1)


def test_a_module_without_inputs_is_told_how_to_name_them(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "made.py"
    factories = "def make(): return net\ndef make_inputs(): ...\ndef other(): return net\n"
    file.write_text(f"import torch\nnet = torch.nn.Linear(2, 2)\n{factories}")
    with pytest.raises(ModelError, match="is a module, not a function"):
        factory.call_factory(f"{file}:net")
    for name, inputs in (("make", f"{file}:make_inputs"), ("other", "FILE.py:FUNCTION")):
        with pytest.raises(ModelError, match="without example inputs") as problem:
            factory.check_returned(factory.call_factory(f"{file}:{name}"), f"{file}:{name}")
        assert problem.value.fix.endswith(f"--inputs {inputs}")


@pytest.mark.parametrize("name", ["absent", "absent.nets", "json.absent"])
def test_a_module_that_is_not_found_is_no_package_to_install(name: str) -> None:
    with pytest.raises(ModelError) as problem:
        factory.import_module_or_file(name)
    assert "pip" not in problem.value.fix
    assert ".py:" in problem.value.fix


def test_a_missing_import_of_a_module_is_no_missing_module(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "needy_nets.py").write_text("import absent\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError):
        factory.import_module_or_file("needy_nets")


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
