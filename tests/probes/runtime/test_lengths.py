"""Several lengths in one worker: references, checks and blocks at each."""

from __future__ import annotations

import pathlib
import tempfile
from typing import Any

import numpy as np
import pytest
import workers
from forks import ForkServer

from probes import protocol
from probes.checking import program_cell
from probes.checking.text_reference import TokenReference
from probes.shape import Shape

WORKFLOWS = pathlib.Path(protocol.__file__).parent / "workflows"
BLOCK = {
    "kind": "synthetic",
    "block": "encoder",
    "hidden": 16,
    "intermediate": 32,
    "heads": 2,
    "layers": 1,
}


def make_reference(server: ForkServer, place: pathlib.Path, **asked: Any) -> workers.WorkerResult:
    pytest.importorskip("torch")
    eager = WORKFLOWS / "pytorch_eager.py"
    request = workers.make_request(eager, place, role="reference", **asked)
    return workers.fork_worker(server, request, place / "reference", "build\noutputs\n")


def measure(
    server: ForkServer, workflow: str, place: pathlib.Path, tokens: str, **asked: Any
) -> tuple[protocol.Request, workers.WorkerResult]:
    """Run a worker of `workflow` with these tokens, after the references were made."""
    request = workers.make_request(WORKFLOWS / f"{workflow}.py", place, **asked)
    control = pathlib.Path(tempfile.mkdtemp(dir=place)) / "measure"
    answer = workers.fork_worker(server, request, control, tokens)
    assert answer.failure is None, answer.log
    return request, answer


def measure_eager(
    server: ForkServer, place: pathlib.Path, tokens: str, **asked: Any
) -> tuple[protocol.Request, workers.WorkerResult]:
    made = make_reference(server, place, **asked)
    assert made.failure is None, made.log
    return measure(server, "pytorch_eager", place, tokens, **asked)


PASSES: dict[str, Any] = {
    "subject": BLOCK,
    "batch_sizes": [1, 2],
    "input_tokens": 9,
    "lengths": [[4, None], [9, None]],
}


@pytest.fixture(scope="module")
def passes(stack_server: ForkServer, tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """Return the place of the references of `PASSES`."""
    place = tmp_path_factory.mktemp("passes")
    made = make_reference(stack_server, place, **PASSES)
    assert made.failure is None, made.log
    return place


def shapes_of(answer: workers.WorkerResult, event: str) -> list[Shape]:
    return [Shape(**each["shape"]) for each in answer.events_of(event)]


@pytest.mark.stack
@pytest.mark.parametrize(
    ("workflow", "options"),
    [
        ("pytorch_eager", {}),
        ("onnxruntime_cpu", {"feeding": "host"}),
        ("onnxruntime_cpu", {"feeding": "host", "dynamic": True}),
    ],
)
def test_a_pass_is_checked_and_timed_at_each_length(
    workflow: str, options: dict[str, Any], stack_server: ForkServer, passes: pathlib.Path
) -> None:
    if workflow == "onnxruntime_cpu":
        pytest.importorskip("onnxruntime")
    tokens = "build\nvisit 1x4 1\nvisit 2x9 1\nstop\n"
    request, answer = measure(stack_server, workflow, passes, tokens, options=options, **PASSES)
    expected = [Shape(1, 4), Shape(2, 4), Shape(1, 9), Shape(2, 9)]
    assert request.shapes == expected
    for event in ("built", "checked", "warmed_up"):
        assert shapes_of(answer, event) == expected
    assert shapes_of(answer, "visited") == [Shape(1, 4), Shape(2, 9)]
    assert all(each["accuracy_class"] == "exact" for each in answer.events_of("checked"))
    inputs = [program_cell.load_reference(request, shape).inputs[0][0] for shape in expected]
    assert [array.shape[:2] for array in inputs] == [(1, 4), (2, 4), (1, 9), (2, 9)]


@pytest.mark.stack
@pytest.mark.parametrize("task", [protocol.FORWARD, protocol.GENERATE])
def test_a_batch_size_and_a_length_that_were_not_built_are_served(
    task: str, stack_server: ForkServer, tmp_path: pathlib.Path
) -> None:
    _, answer = measure_eager(
        stack_server,
        tmp_path,
        "build\nnew-shapes short\nstop\n",
        subject=workers.random_weights(workers.LLAMA, tmp_path)
        if task == protocol.GENERATE
        else BLOCK,
        task=task,
        batch_sizes=[1],
        input_tokens=8,
        output_tokens=5,
        new_shapes=True,
    )
    tried = answer.events_of("new_shape_result")
    assert [(Shape(**each["shape"]), each["reason"]) for each in tried] == [
        (Shape(2), None),
        (Shape(1, 5), None),
    ]
    # On a busy machine the first call may take long.
    assert {each["outcome"] for each in tried} <= {"served", "stalled"}


@pytest.mark.stack
def test_text_is_generated_at_each_pair_of_lengths(
    stack_server: ForkServer, tmp_path: pathlib.Path
) -> None:
    lengths: list[list[int | None]] = [[4, 3], [8, 3], [8, 5]]
    request, answer = measure_eager(
        stack_server,
        tmp_path,
        "build\nvisit 2x4+3 1\nvisit 2x8+5 1\nstop\n",
        subject=workers.random_weights(workers.LLAMA, tmp_path),
        task=protocol.GENERATE,
        batch_sizes=[2],
        input_tokens=8,
        output_tokens=5,
        lengths=lengths,
    )
    expected = [Shape(2, *pair) for pair in lengths]
    assert shapes_of(answer, "checked") == expected
    references = [program_cell.load_reference(request, shape) for shape in expected]
    texts = [each for each in references if isinstance(each, TokenReference)]
    produced = [(each.inputs[0][0], each.tokens[0]) for each in texts]
    assert [(len(prompts[0]), len(new[0])) for prompts, new in produced] == [(4, 3), (8, 3), (8, 5)]
    (short, _), (long, _), _ = produced
    assert not np.array_equal(short, long[:, :4]), "an engine's prefix cache would be of use"


@pytest.mark.stack
def test_what_follows_the_reference_outputs_is_a_phase_of_its_own(
    stack_server: ForkServer, tmp_path: pathlib.Path
) -> None:
    made = make_reference(stack_server, tmp_path, subject=BLOCK, batch_sizes=[1, 2])
    assert made.failure is None, made.log
    kinds = [each["event"] for each in made.events]
    last = len(kinds) - 1 - kinds[::-1].index("workload")
    phase = next(each for each in made.events[last:] if each["event"] == "phase_started")
    assert (phase["phase"], phase["shape"]) == ("correctness", None)


@pytest.mark.stack
def test_code_of_a_model_that_asks_for_input_gets_none(
    stack_server: ForkServer, tmp_path: pathlib.Path
) -> None:
    (tmp_path / "asks.py").write_text(
        "import os\ndef build():\n    raise ValueError(os.readlink('/proc/self/fd/0'))\n"
    )
    subject = {"kind": "factory", "name": f"{tmp_path / 'asks.py'}:build"}
    made = make_reference(stack_server, tmp_path, subject=subject)
    assert made.failure is not None
    assert "/dev/null" in made.failure["reason"]


@pytest.mark.stack
def test_a_model_without_a_length_is_refused(
    stack_server: ForkServer, tmp_path: pathlib.Path
) -> None:
    (tmp_path / "images.py").write_text(
        "import torch\n"
        "def build():\n"
        "    return torch.nn.Conv2d(3, 4, 3), (torch.zeros(1, 3, 8, 8),)\n"
    )
    made = make_reference(
        stack_server,
        tmp_path,
        subject={"kind": "factory", "name": f"{tmp_path / 'images.py'}:build"},
        input_tokens=9,
        lengths=[[4, None], [9, None]],
    )
    assert made.failure is not None
    assert made.failure["status"] == "model-refused"
    assert made.failure["fix"]
    (loaded,) = made.events_of("opened")
    assert loaded["convolutions"] == 1
