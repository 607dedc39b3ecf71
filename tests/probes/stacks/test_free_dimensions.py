"""Modules with any signature are exported with a free batch and length."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest
import workers

torch = pytest.importorskip(
    "torch", reason="the stack is not installed: pip install 'p3-advisor[stack]'"
)
pytest.importorskip("onnxruntime", reason="pip install 'p3-advisor[stack]'")

from probes.adapter import UnsupportedError  # noqa: E402 - the next lines need torch
from probes.stacks import free_dimensions  # noqa: E402
from probes.subjects.call_inputs import flatten  # noqa: E402
from probes.subjects.factory import arguments_like  # noqa: E402
from probes.subjects.loaded_model import LoadedModel, NormalValues, RandomIntegers  # noqa: E402
from probes.subjects.torch_subject import TorchSubject  # noqa: E402
from probes.workflows import onnxruntime_cpu  # noqa: E402

# A warning of a stack is no error of ours.
pytestmark = [pytest.mark.stack, pytest.mark.filterwarnings("ignore")]

TOKENS = 6


class Weighted(torch.nn.Module):  # type: ignore[name-defined]
    """Takes keyword inputs only."""

    def __init__(self) -> None:
        super().__init__()
        self.table = torch.nn.Embedding(50, 8)

    def forward(self, *, ids: Any, factor: Any) -> Any:
        """Return the rows of `ids`, scaled."""
        return self.table(ids) * factor.unsqueeze(1)


def keyword_subject(request: Any) -> TorchSubject:
    """Return a subject whose module calls another one with keyword inputs."""
    examples = {"ids": torch.zeros(1, TOKENS, dtype=torch.int64), "factor": torch.ones(1, 8)}
    module, _ = flatten(Weighted().eval(), (), examples)
    arguments = (RandomIntegers((TOKENS,), 0, 50), NormalValues((8,), torch.float32))
    model = LoadedModel(
        module=module,
        arguments=arguments,
        weights="random",
        shares_weights=False,
        unit="tokens",
        units_per_sample=TOKENS,
    )
    return TorchSubject(model, request)


def run_both(
    subject: TorchSubject, request: Any, inputs: list[Any], *, with_onnx: bool
) -> tuple[Any, Any]:
    """Return the outputs of an export with free dimensions, made with one row, and of the model."""
    with torch.no_grad():
        if with_onnx:
            program = onnxruntime_cpu.build(subject, subject.inputs(1, 0), request)
            (found,) = program.collect(program(program.feed(inputs)))
        else:
            tensors = subject.tensors(subject.inputs(1, 0))
            exported = free_dimensions.export_for_any_shape(subject, tensors)
            found = exported.module()(*subject.tensors(inputs)).numpy()
        (expected,) = subject.run(inputs)
    return found, expected


@pytest.mark.parametrize("with_onnx", [False, True], ids=["torch.export", "ONNX Runtime"])
def test_keyword_inputs_get_a_free_batch_and_length(
    with_onnx: bool,
    tmp_path: pathlib.Path,
) -> None:
    options = {"feeding": "host", "dynamic": True}
    request = workers.make_request(
        pathlib.Path("x.py"), tmp_path, options=options, dtype="float32", batch_sizes=[1]
    )
    subject = keyword_subject(request)
    inputs = subject.inputs(5, 0)
    longer = [inputs[0].repeat(2, axis=1), inputs[1]]
    found, expected = run_both(subject, request, longer, with_onnx=with_onnx)
    assert found.shape == (5, 2 * TOKENS, 8)
    assert abs(found - expected).max() < 1e-5


@pytest.mark.parametrize(
    "examples",
    [(torch.zeros(3, 2), torch.zeros(5)), (torch.tensor(1.0),)],
    ids=["ragged", "scalar"],
)
def test_a_model_without_a_batch_is_not_exported(
    examples: tuple[Any, ...], tmp_path: pathlib.Path
) -> None:
    request = workers.make_request(pathlib.Path("x.py"), tmp_path, dtype="float32", batch_sizes=[1])
    model = LoadedModel(
        module=torch.nn.Identity(),
        arguments=arguments_like(examples, [1]),
        weights="random",
        shares_weights=False,
        unit="samples",
        units_per_sample=1,
    )
    exports: list[object] = []
    with pytest.raises(UnsupportedError, match="no common first dimension"):
        free_dimensions.first_that_works(exports.append, TorchSubject(model, request), examples)
    assert not exports


class Recommender(torch.nn.Module):  # type: ignore[name-defined]
    """Takes one named input and any number of others."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 2)

    def forward(self, dense: Any, *categories: Any) -> Any:
        """Return the features of `dense`, plus all categories."""
        features = self.linear(dense)
        for each in categories:
            features = features + each
        return features


@pytest.mark.parametrize("categories", [0, 1, 3])
@pytest.mark.parametrize("with_onnx", [False, True], ids=["torch.export", "ONNX Runtime"])
def test_inputs_after_named_ones_get_a_free_batch(
    with_onnx: bool, categories: int, tmp_path: pathlib.Path
) -> None:
    options = {"feeding": "host", "dynamic": True}
    request = workers.make_request(
        pathlib.Path("x.py"), tmp_path, options=options, dtype="float32", batch_sizes=[1]
    )
    arguments = (
        NormalValues((4,), torch.float32),
        *[NormalValues((2,), torch.float32)] * categories,
    )
    model = LoadedModel(
        module=Recommender().eval(),
        arguments=arguments,
        weights="random",
        shares_weights=False,
        unit="samples",
        units_per_sample=1,
    )
    subject = TorchSubject(model, request)
    inputs = subject.inputs(5, 0)
    found, expected = run_both(subject, request, inputs, with_onnx=with_onnx)
    assert found.shape == (5, 2)
    assert abs(found - expected).max() < 1e-5
