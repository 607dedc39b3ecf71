"""Modules with any signature are exported with a free batch and length."""

from __future__ import annotations

import pathlib
from typing import Any

import lazy
import numpy as np
import pytest
import workers

from probes.adapter import UnsupportedError
from probes.facts import EACH_CALL, SizeLimit

# A warning of a stack is no error of ours.
pytestmark = [pytest.mark.stack, pytest.mark.filterwarnings("ignore")]

TOKENS = 6


def make_request(directory: pathlib.Path, **changes: Any) -> Any:
    options = {"feeding": "host", "dynamic": True}
    return workers.make_request(pathlib.Path("x.py"), directory, options=options, **changes)


def subject_of(module: Any, arguments: Any, request: Any) -> Any:
    model = lazy.loaded_model.LoadedModel(
        module=module.eval(), arguments=tuple(arguments), shares_weights=False
    )
    return lazy.torch_subject.TorchSubject(model, request)


def assert_served(
    subject: Any, request: Any, inputs: list[Any], shape: tuple[int, ...], *, with_onnx: bool
) -> None:
    """Assert that an export with free dimensions, of one row, returns what the model does."""
    with lazy.torch.no_grad():
        if with_onnx:
            program = lazy.onnxruntime_cpu.build(subject, subject.inputs(1, 0), request)
            (found,) = program.collect(program(program.feed(inputs)))
        else:
            tensors = subject.tensors(subject.inputs(1, 0))
            exported = lazy.onnx_export.export_every(subject, tensors)
            found = exported.module()(*subject.tensors(inputs)).numpy()
        (expected,) = subject.run(inputs)
    assert found.shape == shape
    assert abs(found - expected).max() < 1e-5


@pytest.mark.parametrize("with_onnx", [False, True], ids=["torch.export", "ONNX Runtime"])
def test_keyword_inputs_get_a_free_batch_and_length(
    with_onnx: bool, tmp_path: pathlib.Path
) -> None:
    class Weighted(lazy.torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = lazy.torch.nn.Embedding(50, 8)

        def forward(self, *, ids: Any, factor: Any) -> Any:
            return self.table(ids) * factor.unsqueeze(1)

    request = make_request(tmp_path, input_tokens=TOKENS)
    examples = {
        "ids": lazy.torch.zeros(1, TOKENS, dtype=lazy.torch.int64),
        "factor": lazy.torch.ones(1, 8),
    }
    module, _ = lazy.call_inputs.flatten(Weighted().eval(), (), examples)
    tokens = lazy.loaded_model.Argument((TOKENS,), lazy.torch.int64, 0, 50)
    factor = lazy.loaded_model.Argument((8,), lazy.torch.float32)
    subject = subject_of(module, (tokens, factor), request)
    inputs = subject.inputs(5, 0)
    longer = [inputs[0].repeat(2, axis=1), inputs[1]]
    assert_served(subject, request, longer, (5, 2 * TOKENS, 8), with_onnx=with_onnx)


def test_all_dimensions_are_free_that_the_code_does_not_fix(tmp_path: pathlib.Path) -> None:
    class Speech(lazy.torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = lazy.torch.nn.Conv1d(4, 8, 3, stride=2, padding=1)

        def forward(self, sound: Any, lengths: Any) -> Any:
            found = self.layer(sound.transpose(1, 2)).transpose(1, 2)
            return found * (lazy.torch.arange(found.shape[1]) < lengths[:, None])[..., None]

    request = make_request(tmp_path)
    examples = (lazy.torch.randn(1, 10, 4), lazy.torch.tensor([5]))
    subject = subject_of(Speech(), lazy.factory.arguments_like(examples, [1]), request)
    sound, lengths = subject.inputs(3, 0)
    assert_served(subject, request, [sound.repeat(2, axis=1), lengths], (3, 10, 8), with_onnx=True)


def test_each_call_checks_the_sizes_that_the_code_limits(tmp_path: pathlib.Path) -> None:
    class Longer(lazy.torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return 2 * x if x.shape[1] > 8 else x

    request = make_request(tmp_path)
    arguments = lazy.factory.arguments_like((lazy.torch.zeros(1, 6),), [1])
    subject = subject_of(Longer(), arguments, request)
    assert_served(subject, request, [np.ones((5, 8), np.float32)], (5, 8), with_onnx=True)
    program = lazy.onnxruntime_cpu.build(subject, subject.inputs(1, 0), request)
    with pytest.raises(AssertionError):
        program(program.feed([np.ones((1, 9), np.float32)]))
    assert lazy.onnxruntime_cpu.engagement(program, ()).size_limits == (SizeLimit(0, 1, 1, 8),)
    lines = lazy.aotinductor.integration(subject, request)
    start = lazy.aotinductor.starts(subject, request)["package"].start
    for _, in_each_call in map(EACH_CALL.split, (lines, start)):
        assert in_each_call.startswith("assert 1 <= inputs[0].shape[1] <= 8,")


def test_a_batch_that_the_code_fixes_is_not_free(tmp_path: pathlib.Path) -> None:
    class Pairs(lazy.torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return x.reshape(2, -1).sum(1)

    examples = (lazy.torch.zeros(2, 8),)
    request = make_request(tmp_path, batch_sizes=[2])
    subject = subject_of(Pairs(), lazy.factory.arguments_like(examples, [2]), request)
    with pytest.raises(UnsupportedError, match="2 rows"):
        lazy.onnx_export.export_every(subject, examples)


@pytest.mark.parametrize("shapes", [[(3, 2), (5,)], [()]], ids=["ragged", "scalar"])
def test_a_model_without_a_batch_is_not_exported(
    shapes: list[tuple[int, ...]], tmp_path: pathlib.Path
) -> None:
    examples = tuple(lazy.torch.zeros(shape) for shape in shapes)
    arguments = lazy.factory.arguments_like(examples, [1])
    subject = subject_of(lazy.torch.nn.Identity(), arguments, make_request(tmp_path))
    with pytest.raises(UnsupportedError, match="no common first dimension"):
        lazy.onnx_export.export_every(subject, examples)


@pytest.mark.parametrize("categories", [0, 1, 3])
@pytest.mark.parametrize("with_onnx", [False, True], ids=["torch.export", "ONNX Runtime"])
def test_inputs_after_named_ones_get_a_free_batch(
    with_onnx: bool, categories: int, tmp_path: pathlib.Path
) -> None:
    class Recommender(lazy.torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = lazy.torch.nn.Linear(4, 2)

        def forward(self, dense: Any, *categories: Any) -> Any:
            return sum(categories, start=self.linear(dense))

    request = make_request(tmp_path)
    widths = (4, *[2] * categories)
    arguments = (lazy.loaded_model.Argument((width,), lazy.torch.float32) for width in widths)
    subject = subject_of(Recommender(), arguments, request)
    assert_served(subject, request, subject.inputs(5, 0), (5, 2), with_onnx=with_onnx)
