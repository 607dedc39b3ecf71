"""Lengths that a program was not built for, with eager PyTorch as the reference."""

from __future__ import annotations

import pathlib
from typing import Any

import numpy as np
import pytest
import workers
from forks import ForkServer

from probes.measuring import new_length

EAGER = pathlib.Path(new_length.__file__).parents[1] / "workflows" / "pytorch_eager.py"
ENCODER = {
    "kind": "synthetic",
    "block": "encoder",
    "hidden": 16,
    "intermediate": 32,
    "heads": 2,
    "layers": 1,
}


@pytest.mark.parametrize("built", [1, 2, 3, 4, 31, 32, 128])
def test_the_new_length_is_another_one_and_never_1(built: int) -> None:
    length = new_length.new_input_tokens(built)
    assert length != built
    assert length > 1
    assert length < built or built <= 2


def test_only_the_dimension_with_the_length_is_resized() -> None:
    tokens, mask, image = (np.zeros(shape) for shape in ((2, 8), (2, 8, 3), (2, 3, 8)))
    loaded_model = pytest.importorskip("probes.subjects.loaded_model")
    resized = loaded_model.resize([tokens, mask, image], 8, 5)
    assert [array.shape for array in resized] == [(2, 5), (2, 5, 3), (2, 3, 8)]


def run(
    server: ForkServer, place: pathlib.Path, subject: dict[str, Any], *, new_shapes: bool = True
) -> list[Any]:
    """Return the events of an eager worker that tries new shapes after its reference is made."""
    pytest.importorskip("torch")
    asked = {"subject": subject, "batch_sizes": [1, 2], "input_tokens": 8, "new_shapes": new_shapes}
    reference = workers.make_request(EAGER, place, role="reference", **asked)
    made = workers.fork_worker(server, reference, place / "reference", "build\npeaks\noutputs\n")
    assert made.failure is None, made.log
    answer = workers.fork_worker(
        server,
        workers.make_request(EAGER, place, **asked),
        place / "measure",
        "build\nnew-shapes short\n",
    )
    assert answer.failure is None, answer.log
    return [entry for entry in answer.events if entry["event"] == "new_shape_result"]


@pytest.mark.stack
def test_eager_serves_one_batch_size_and_one_length_in_the_short_form(
    stack_server: ForkServer, tmp_path: pathlib.Path
) -> None:
    tried = run(stack_server, tmp_path, ENCODER)
    shapes = [(*each["shape"].values(), each["outcome"]) for each in tried]
    assert shapes == [(3, None, None, "served"), (1, 5, None, "served")]


@pytest.mark.stack
def test_a_request_without_new_shapes_has_no_reference_of_another_length(
    stack_server: ForkServer, tmp_path: pathlib.Path
) -> None:
    tried = run(stack_server, tmp_path, ENCODER, new_shapes=False)
    assert [each["shape"]["input_tokens"] for each in tried] == [None]
    assert not (tmp_path / new_length.DIRECTORY).exists()
