"""Files of torch.export with nested inputs, and with inputs that share no batch."""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import workers
from lazy import lazy

from probes import protocol
from probes.adapter import ModelError
from probes.wire.shape import Shape

torch = lazy("torch")
by_request = lazy("probes.subjects.by_request")

pytestmark = pytest.mark.stack


def request_for(file: pathlib.Path, batch_size: int) -> protocol.Request:
    return workers.make_request(
        pathlib.Path("x.py"),
        file.parent,
        subject={"kind": "exported", "name": str(file)},
        dtype="own",
        batch_sizes=[batch_size],
        shared_directory=str(file.parent),
    )


def opened(file: pathlib.Path, batch_size: int) -> Any:
    return by_request.open_torch_subject(request_for(file, batch_size))


def refusal(file: pathlib.Path, batch_size: int) -> ModelError:
    with pytest.raises(ModelError) as refused:
        opened(file, batch_size)
    return refused.value


@pytest.fixture
def file(tmp_path: pathlib.Path) -> pathlib.Path:
    return tmp_path / "model.pt2"


@pytest.mark.filterwarnings("ignore:.*treespec:FutureWarning")
def test_nested_inputs_are_taken(file: pathlib.Path) -> None:
    class Nested(torch.nn.Module):  # type: ignore[name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(8, 4)

        def forward(self, x: dict[str, Any], options: dict[str, Any]) -> Any:
            return self.layer(x["a"]) + options["b"][0]

    batch = torch.export.Dim("batch", min=1, max=64)
    program = torch.export.export(
        Nested(),
        ({"a": torch.randn(4, 8)},),
        {"options": {"b": [torch.randn(4, 4)]}},
        dynamic_shapes={"x": {"a": {0: batch}}, "options": {"b": [{0: batch}]}},
    )
    torch.export.save(program, file)
    subject = opened(file, 3)
    with torch.inference_mode():
        inputs = subject.inputs(3, 0)
        name, exact = subject.reference([inputs])
        assert [output.shape for output in subject.run(inputs)] == [(3, 4)]
        assert [output.shape for output in next(exact)] == [(3, 4)]
        assert subject.reference([inputs], quick=True)[0] == "float32"
    assert name == "float64"
    assert all(each.nested for each in subject.describe_inputs())


def test_given_inputs_replace_those_of_a_file(file: pathlib.Path) -> None:
    program = torch.export.export(torch.nn.Linear(8, 4), (torch.zeros(2, 8),))
    torch.export.save(program, file)
    given: Any = np.arange(16, dtype=np.float32).reshape(2, 8)
    np.savez(file.with_name("given.npz"), given)
    request = request_for(file, 2)
    request.subject["inputs"] = str(file.with_name("given.npz"))
    (found,) = by_request.open_torch_subject(request).inputs(2, 0)
    assert (found == given).all()


@pytest.mark.parametrize("batch_size", [5, 2])
def test_inputs_without_a_batch_have_batch_size_one(batch_size: int, file: pathlib.Path) -> None:
    class Edges(torch.nn.Module):  # type: ignore[name-defined]
        def forward(self, x: Any, edges: Any) -> Any:
            return x[edges[0]] - x[edges[1]]

    examples = torch.randn(5, 3), torch.randint(0, 5, (2, 7))
    torch.export.save(torch.export.export(Edges(), examples), file)
    assert "--batch-sizes 1" in refusal(file, batch_size).fix
    subject = by_request.open_torch_subject(request_for(file, 1))
    inputs = subject.inputs(1, 0)
    assert [array.shape for array in inputs] == [(5, 3), (2, 7)]
    with torch.inference_mode():
        assert subject.workload(Shape(1), inputs).has_batch is False


def export_pairs(file: pathlib.Path, dimensions: dict[int, Any]) -> None:
    """Export a module of `(4, 8)` inputs, which adds neighbours of a row's values."""
    module = torch.nn.AvgPool1d(2)
    shapes = {"input": dimensions}
    program = torch.export.export(module, (torch.randn(4, 8),), dynamic_shapes=shapes)
    torch.export.save(program, file)


@pytest.mark.parametrize(
    ("bounds", "taken", "refused", "exported"),
    [
        pytest.param({"max": 64}, [1, 64], [65, 100], "1 to 64", id="largest"),
        pytest.param({"min": 3, "max": 64}, [3, 64], [1, 65], "3 to 64", id="both"),
        pytest.param({"min": 3}, [3, 100], [2], "of 3 or more", id="least"),
        # The program does not check this bound.
        pytest.param({"min": 2, "max": 64}, [1, 64], [65], "1 to 64", id="more than one row"),
    ],
)
def test_batch_sizes_outside_the_exported_range_are_refused_with_it(
    bounds: dict[str, int],
    taken: list[int],
    refused: list[int],
    exported: str,
    file: pathlib.Path,
) -> None:
    export_pairs(file, {0: torch.export.Dim("batch", **bounds)})
    for size in taken:
        subject = opened(file, size)
        assert [each.shape for each in subject.run(subject.inputs(size, 0))] == [(size, 4)]
    for size in refused:
        assert f"batch sizes {exported}, " in str(refusal(file, size))


@pytest.mark.parametrize(
    ("dimension", "size"), [("AUTO", 1), ("AUTO", 100), ("DYNAMIC", 1), ("DYNAMIC", 100)]
)
def test_a_batch_dimension_without_bounds_takes_every_size(
    dimension: str, size: int, file: pathlib.Path
) -> None:
    export_pairs(file, {0: getattr(torch.export.Dim, dimension)})
    subject = opened(file, size)
    assert [each.shape for each in subject.run(subject.inputs(size, 0))] == [(size, 4)]


def test_a_dynamic_length_is_no_dynamic_batch(file: pathlib.Path) -> None:
    length = torch.export.Dim("length", min=1, max=32)
    export_pairs(file, {1: 2 * length})
    opened(file, 4)
    assert "--batch-sizes 4," in refusal(file, 8).fix


def test_a_batch_of_multiples_has_the_range_of_the_multiples(file: pathlib.Path) -> None:
    half = torch.export.Dim("half", min=2, max=32)
    export_pairs(file, {0: 2 * half})
    opened(file, 64)
    assert " to 64, " in str(refusal(file, 66))


@pytest.mark.parametrize(
    "write",
    [
        lambda file: file.write_bytes(b"no archive"),
        lambda file: torch.save({"weight": torch.ones(2)}, file),
        lambda file: torch.jit.script(torch.nn.Linear(2, 2)).save(str(file)),
    ],
)
@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
def test_a_file_that_is_no_exported_program_is_refused_with_how_to_export(
    write: Callable[[pathlib.Path], None], file: pathlib.Path
) -> None:
    write(file)
    assert "torch.export.save(" in refusal(file, 1).fix
