"""What modules of users do in a call: unusual outputs, and inputs that are changed in place."""

from __future__ import annotations

import types
from typing import Any, cast

import numpy as np
import pytest
from lazy import by_request, pytorch_eager, torch
from reference_cases import MODEL, Factories

from probes.adapter import ModelError, Workflow
from probes.checking.program_cell import load_reference
from probes.runtime import flexibility
from probes.runtime import reference as runtime
from probes.runtime.cells import Job
from probes.shape import Shape, other_length

pytestmark = [pytest.mark.stack, pytest.mark.usefixtures("here")]

MODELS = """
def build(call):
    layer = torch.nn.Linear(16, 8)
    return Model(lambda layers, x: call(layers["layer"], x), layer=layer), torch.randn(2, 16)


def outputs_of_other_layouts():
    return build(
        lambda layer, x: (
            layer(x).to_sparse(),
            torch.nested.nested_tensor(list(layer(x)[:, :, None]), layout=torch.jagged),
            torch.quantize_per_tensor(layer(x), 0.1, 0, torch.qint8),
        )
    )


class Masked(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(16, 8)

    def forward(self, x, left_out):
        return 1 / 0 if left_out[:, 0].any() else self.layer(x * ~left_out)


def masked_at_the_end():
    left_out = torch.zeros(2, 16, dtype=torch.bool)
    left_out[:, -1] = True
    return Masked(), (torch.randn(2, 16), left_out)


class Tree(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(16, 8)

    def forward(self, x, parents):
        node = torch.arange(16).expand_as(parents)
        while node.any():
            node = parents.gather(1, node)
        return self.layer(x)


def of_parents():
    return Tree(), (torch.randn(1, 16), torch.arange(-1, 15).clamp(min=0)[None])


def no_tensor():
    return build(lambda layer, x: {"loss": None, "steps": 3})


def scaled_in_place():
    return build(lambda layer, x: layer(x.mul_(2)))


def clamped_in_place():
    return build(lambda layer, x: layer(x.relu_()))


def plain():
    return build(lambda layer, x: layer(x))


def compared_with_all_rows():
    return build(lambda layer, x: layer(x) @ layer(x).T)


def pooled():
    return build(lambda layer, x: torch.nn.functional.max_pool2d(layer(x)[:, None, None], (1, 2)))


def places():
    return build(lambda layer, x: layer(x).argmax(1))


def of_several_rows():
    normalise = torch.nn.functional.batch_norm
    return build(lambda layer, x: normalise(layer(x), None, None, training=True))


def averaged():
    return build(lambda layer, x: layer(x).mean())


def with_a_state_by_layer():
    return torch.nn.LSTM(8, 4, num_layers=2, batch_first=True), torch.randn(2, 5, 8)


def with_a_mask():
    layer = torch.nn.Embedding(30, 8)
    model = Model(lambda layers, x, mask: layers["layer"](x) * mask[:, :, None], layer=layer)
    return model, (torch.arange(24).reshape(2, 12), torch.ones(2, 12, dtype=torch.bool))


class Table(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.columns = torch.nn.ModuleList(torch.nn.Embedding(size, 4) for size in (3, 90))

    def forward(self, rows, weights):
        return sum(column(rows[:, at]) for at, column in enumerate(self.columns)) * weights


def bags_of_words():
    return torch.nn.EmbeddingBag(100, 4), (torch.randint(100, (40,)), torch.arange(0, 40, 5))


def columns_with_ranges_of_their_own():
    return Table(), (torch.tensor([[2, 80]]), torch.randn(1, 4))


def of_sorted_values():
    model, _ = build(lambda layer, x: layer(x) if (x.diff() >= 0).all() else 1 / 0)
    return model, torch.arange(32.0).reshape(2, 16)


def scripted():
    return torch.jit.script(torch.nn.Linear(16, 8)), torch.randn(2, 16)


def never():
    return build(lambda layer, x: 1 / 0)


class Cache(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("values", torch.zeros(2, 16))

    def forward(self, x):
        self.values.copy_(torch.where(x > 0, x, self.values))
        return x


def with_a_cache_that_no_output_reads():
    return Cache(), torch.randn(2, 16)


def selected():
    return build(lambda layer, x: layer(x)[layer(x) > 0])


def with_masked_outputs():
    return build(lambda layer, x: torch.masked.masked_tensor(layer(x), layer(x) > 0))


def masked_completely():
    return build(lambda layer, x: layer(x).masked_fill(x[:, :8] < 99, -torch.inf).softmax(-1))


class Detector(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Conv2d(3, 2, 1)

    def forward(self, images):
        return [{"scores": self.layer(image[None]).mean((2, 3))} for image in images]


def of_a_list_of_images():
    return Detector(), ([torch.rand(3, 8, 8), torch.rand(3, 6, 9)],)
"""
FACTORIES = Factories(MODEL + MODELS, dtype="float32")
request_for, open_subject = FACTORIES.request, FACTORIES.open
make_reference = FACTORIES.make_reference


@pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor:UserWarning")
@pytest.mark.filterwarnings("ignore:.*jit:DeprecationWarning")
@pytest.mark.parametrize(
    ("function", "shapes"),
    [
        # They are compared as dense ones.
        ("outputs_of_other_layouts", [(2, 8), (8, 1), (8, 1), (2, 8)]),
        ("scripted", [(2, 8)]),
    ],
)
def test_outputs_are_found(function: str, shapes: list[tuple[int, ...]]) -> None:
    reference = make_reference(function)
    assert [output.shape for output in reference.outputs[0]] == shapes


def test_outputs_may_have_a_shape_that_depends_on_the_values() -> None:
    reference = make_reference("selected")
    assert len({output.shape for (output,) in reference.outputs}) == 2
    assert not reference.uncompared


def test_a_module_may_change_its_input_if_calls_return_the_same() -> None:
    assert not make_reference("clamped_in_place").uncompared


def settled_inputs(function: str) -> list[list[Any]]:
    return [settled_subject(function).inputs(2, number) for number in range(2)]


def settled_subject(function: str, sets: int = 2) -> Any:
    subject = open_subject(function)
    with torch.inference_mode():
        subject.settle_inputs(2, sets)
    return subject


def test_inputs_of_the_examples_are_reported() -> None:
    subject = settled_subject("columns_with_ranges_of_their_own")
    with torch.inference_mode():
        work = subject.workload(Shape(2), subject.inputs(2, 0))
    assert work.fixed_inputs == 1
    assert work.has_batch


def test_inputs_of_different_first_dimensions_have_no_batch() -> None:
    subject = open_subject("bags_of_words", batch_sizes=[1])
    inputs = subject.inputs(1, 0)
    assert [array.shape for array in inputs] == [(40,), (8,)]
    with torch.inference_mode():
        assert subject.workload(Shape(1), inputs).has_batch is False


def test_integers_are_the_examples_where_the_model_takes_no_others() -> None:
    (rows, weights), (others, other_weights) = settled_inputs("columns_with_ranges_of_their_own")
    assert rows.tolist() == others.tolist() == [[2, 80], [2, 80]]
    assert not np.array_equal(weights, other_weights)


def test_integers_are_the_examples_where_calls_with_others_do_not_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("probes.subjects.higher_precision.MOST_SECONDS", 0.5)
    (x, parents), (other, _) = settled_inputs("of_parents")
    assert parents.tolist() == [[0, *range(15)]] * 2
    assert not np.array_equal(x, other)


def test_all_values_are_the_examples_where_the_model_takes_no_others() -> None:
    (rows,), _ = settled_inputs("of_sorted_values")
    assert (rows == np.arange(32).reshape(2, 16)).all()


def test_all_random_sets_are_tried() -> None:
    subject = settled_subject("masked_at_the_end", sets=64)
    assert not any(subject.inputs(2, number)[1][:, 0].any() for number in range(64))


@pytest.mark.parametrize(
    ("limit", "value", "sets"),
    [
        ("MANY_OUTPUT_ELEMENTS", 1, 2),
        ("MANY_OUTPUT_ELEMENTS", 1 << 20, 4),
        ("SLOW_CALL_SECONDS", 0.0, 2),
        ("SLOW_CALL_SECONDS", 600.0, 4),
    ],
)
def test_large_outputs_or_slow_calls_have_fewer_input_sets(
    limit: str, value: float, sets: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"probes.subjects.torch_subject.{limit}", value)
    subject = open_subject("plain")
    with torch.inference_mode():
        assert subject.settle_inputs(2, 4) == sets


@pytest.mark.parametrize(
    ("function", "is_called_again"), [("plain", False), ("pooled", False), ("places", True)]
)
def test_outputs_are_computed_once_unless_they_depend_on_places(
    function: str, *, is_called_again: bool
) -> None:
    subject = open_subject(function)
    inputs = [subject.inputs(2, number) for number in range(2)]
    with torch.inference_mode():
        subject.examine_calls(inputs)
    layers: list[object] = []
    with torch.nn.modules.module.register_module_forward_hook(
        lambda module, *_: layers.append(module) if isinstance(module, torch.nn.Linear) else None
    ):
        _, outputs = subject.reference(inputs)
        exact = list(outputs)
        assert len(layers) == len(exact) == len(inputs)
        subject.find_ties(inputs[0], exact[0])
    assert (len(layers) > len(inputs)) is is_called_again


@pytest.mark.parametrize("function", ["plain", "never"])
def test_values_are_random_where_the_examples_are_no_better(function: str) -> None:
    (first,), (second,) = settled_inputs(function)
    assert not np.array_equal(first, second)


def test_the_buffers_are_the_first_ones_after_inputs_were_tried() -> None:
    function = "with_a_cache_that_no_output_reads"
    assert not make_reference(function).uncompared
    assert not settled_subject(function).module.values.any()
    subject = open_subject(function)
    subject.examine_calls([subject.inputs(2, number) for number in range(2)])
    assert not subject.module.values.any()


def job_of(function: str) -> Job:
    """Return the job of the reference worker, which has written its outputs."""
    make_reference(function)
    request = request_for(function)
    channel = types.SimpleNamespace(start_phase=lambda *_: None)
    subject = by_request.open_torch_subject(request)
    return Job(request, cast("Any", channel), Workflow(pytorch_eager), subject)


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        ("plain", True),
        ("compared_with_all_rows", False),
        ("averaged", False),
        ("of_several_rows", False),
        ("with_a_state_by_layer", False),
    ],
)
def test_other_batch_sizes_are_tried_where_each_row_stands_for_itself(
    function: str, expected: bool
) -> None:
    job = job_of(function)
    assert flexibility.read_coupled_rows(job.request) is None
    with torch.inference_mode():
        runtime.record_coupled_rows(job)
    assert bool(flexibility.read_coupled_rows(job.request)) is not expected


@pytest.mark.parametrize(
    ("function", "length"), [("with_a_mask", 12), ("with_a_state_by_layer", 5), ("plain", None)]
)
def test_another_length_is_tried_where_the_model_takes_one(
    function: str, length: int | None
) -> None:
    job = job_of(function)
    with torch.inference_mode():
        runtime.make_length_reference(job)
    assert job.subject.length(job.request) == length
    assert flexibility.length_file(job.request).exists() is (length is not None)
    if length is not None:
        changed = flexibility.at_new_length(job.request, length)
        found = load_reference(changed, changed.shapes[0])
        assert {array.shape[1] for array in found.inputs[0]} == {other_length(length)}


@pytest.mark.filterwarnings("ignore:The PyTorch API of MaskedTensors")
@pytest.mark.parametrize(
    ("function", "reason", "fix"),
    [
        ("no_tensor", "tensor", "dictionaries"),
        ("scaled_in_place", "in place", "clone"),
        ("masked_completely", "NaN", "softmax"),
        ("with_masked_outputs", "masked tensor", "to_tensor"),
    ],
)
def test_a_module_that_cannot_be_judged_is_refused(function: str, reason: str, fix: str) -> None:
    with pytest.raises(ModelError, match=reason) as refused:
        make_reference(function)
    assert fix in refused.value.fix


def test_a_list_of_images_is_refused_with_a_module_that_takes_one_tensor() -> None:
    with pytest.raises(ModelError) as refused:
        settled_subject("of_a_list_of_images")
    assert "list(images)" in refused.value.fix
