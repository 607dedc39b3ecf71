"""A timed call does the work of the lines that the adapter hands out.

The work is counted, not timed: bound inputs, runs of a session, and calls of the model.
"""

from __future__ import annotations

import collections
import importlib
import pathlib
import shlex
import types
from collections.abc import Iterator
from typing import Any
from unittest import mock

import numpy as np
import pytest
import workers
from lazy import cpp_builder, cuda_graphs, lazy, onnx_export, onnxruntime_session, outputs, torch

from advisor.recipes.snippet import shorten
from advisor.report.text_report import MOST_CODE_LINES
from probes import adapter, protocol
from probes.checking import program_cell

pytorch = lazy("probes.stacks.pytorch")
runtime = lazy("onnxruntime.capi.onnxruntime_inference_collection")

pytestmark = pytest.mark.filterwarnings("ignore")  # those of a stack

#: Methods of ONNX Runtime that bind, run or copy, by class.
COUNTED = {
    "IOBinding": ("bind_cpu_input", "bind_input", "bind_ortvalue_input"),
    "Session": ("run", "run_with_iobinding"),
}
ARMS = {
    "pytorch_eager": {},
    "torch_compile_inductor": {},
    "aotinductor": {},
    "aotinductor/dynamic": {"dynamic": True},
    "onnxruntime_cpu/host": {"feeding": "host"},
    "onnxruntime_cpu/io-binding": {"feeding": "io-binding"},
    "onnxruntime_cpu/one-thread": {"feeding": "host", "threads": 1},
}
#: Compiling for C++ takes a minute.
CASES = [
    pytest.param(arm, marks=pytest.mark.long) if arm == "aotinductor/dynamic" else arm
    for arm in ARMS
]


@pytest.fixture
def counts(monkeypatch: pytest.MonkeyPatch) -> collections.Counter[str]:
    """Count the calls of methods that bind, run or copy."""
    counted: collections.Counter[str] = collections.Counter()

    def wrap(kind: Any, name: str) -> None:
        original = getattr(kind, name)

        def counting(self: Any, *arguments: Any, **keywords: Any) -> Any:
            counted["bind" if name.startswith("bind") else name] += 1
            return original(self, *arguments, **keywords)

        monkeypatch.setattr(kind, name, counting)

    for kind, names in COUNTED.items():
        for name in names:
            wrap(getattr(runtime, kind), name)
    return counted


@pytest.fixture(autouse=True)
def quick_builds(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Compile C++ without precompiled headers, and what the handed-out lines write again once."""
    run_command, made = cpp_builder.run_compile_cmd, dict[str, bytes]()

    def run_once(command: str, cwd: str) -> None:
        words = shlex.split(command)
        file = pathlib.Path(words[words.index("-o") + 1])
        if command in made:
            file.write_bytes(made[command])
        else:
            run_command(command, cwd)
            made[command] = file.read_bytes()

    monkeypatch.setattr("torch._inductor.cpp_builder.run_compile_cmd", run_once)
    quick = {
        "cpp_cache_precompile_headers": False,
        "aot_inductor.precompile_headers": False,
        "aot_inductor.compile_wrapper_opt_level": "O0",
    }
    with torch._inductor.config.patch(quick):
        yield


def request_for(place: pathlib.Path, **changes: Any) -> protocol.Request:
    sizes = {"hidden": 8, "intermediate": 8}
    subject = {"kind": "synthetic", "name": "matmul", "block": "matmul", **sizes}
    return workers.subject_request(subject, place, **changes)


@pytest.mark.parametrize("arm", CASES)
def test_a_timed_call_does_what_the_handed_out_lines_do(
    arm: str, counts: collections.Counter[str], here: pathlib.Path
) -> None:
    module, _, _ = arm.partition("/")
    workflow = adapter.Workflow(importlib.import_module(f"probes.workflows.{module}"))
    request = request_for(here, options=ARMS[arm], batch_sizes=[2], input_tokens=1)
    subject: Any = workflow.open_subject(request)
    arguments = subject.inputs(2, 0)
    with torch.inference_mode():
        program = workflow.build(subject, arguments, request)
        device_inputs = program.feed(arguments)
        (timed,) = program_cell.run_program(workflow, program, [device_inputs])
        assert workflow.engagement(program, device_inputs).share == 1.0
        counts.clear()
        program(device_inputs)
        in_a_timed_call = dict(counts)
    counts.clear()
    names: dict[str, Any] = {"model": subject.module, "inputs": subject.tensors(arguments)}
    exec(workflow.integration(subject, request), names)
    output = names["output"]
    is_array = isinstance(output, list) and isinstance(output[0], np.ndarray)
    handed_out = output if is_array else outputs.collect(output)
    assert dict(counts) == in_a_timed_call
    for one, other in zip(timed, handed_out, strict=True):
        assert np.allclose(one, other, rtol=1e-4, atol=1e-5)


NETWORK = """
import torch

def build():
    layers = [torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU(), torch.nn.Conv2d(8, 4, 3)]
    return torch.nn.Sequential(*layers), (torch.randn(2, 3, 8, 8),)
"""


@pytest.mark.parametrize("module", ["pytorch_eager", "torch_compile_inductor"])
def test_channels_are_last_as_in_the_handed_out_lines(module: str, tmp_path: pathlib.Path) -> None:
    (tmp_path / "network.py").write_text(NETWORK)
    workflow: Any = importlib.import_module(f"probes.workflows.{module}")
    request = workers.make_request(
        tmp_path,
        tmp_path,
        subject={"kind": "factory", "name": f"{tmp_path / 'network.py'}:build"},
        options={"channels_last": True},
        batch_sizes=[2],
    )
    subject = workflow.open_subject(request)
    first, layouts = subject.module[0], list[bool]()
    first.register_forward_pre_hook(
        lambda _, inputs: layouts.append(
            inputs[0].is_contiguous(memory_format=torch.channels_last)
            and first.weight.is_contiguous(memory_format=torch.channels_last)
        )
    )
    arrays = subject.inputs(2, 0)
    plain = subject.run(arrays)
    with torch.inference_mode():
        program = workflow.build(subject, arrays, request)
        timed = program.collect(program(program.feed(arrays)))
    names: dict[str, Any] = {"model": subject.module, "inputs": subject.tensors(arrays)}
    exec(workflow.integration(None, request), names)
    assert layouts[0] is False
    assert set(layouts[1:]) == {True}
    for output in (timed, outputs.collect(names["output"])):
        assert np.allclose(plain[0], output[0], rtol=1e-4, atol=1e-5)


def test_channels_last_is_refused_without_images(tmp_path: pathlib.Path) -> None:
    workflow = importlib.import_module("probes.workflows.pytorch_eager")
    request = request_for(tmp_path, options={"channels_last": True}, batch_sizes=[2])
    subject = workflow.open_subject(request)
    with pytest.raises(adapter.UnsupportedError):
        workflow.build(subject, subject.inputs(2, 0), request)


def test_io_binding_binds_the_inputs_of_each_call(
    counts: collections.Counter[str], tmp_path: pathlib.Path
) -> None:
    workflow = importlib.import_module("probes.workflows.onnxruntime_cpu")
    request = request_for(tmp_path, options={"feeding": "io-binding"})
    subject = workflow.open_subject(request)
    program = workflow.build(subject, subject.inputs(1, 0), request)
    device_inputs = program.feed(subject.inputs(1, 0))
    before = program.collect(program(device_inputs))[0].copy()
    counts.clear()
    # The caller's tensor has new values, and the next call sees them.
    device_inputs[0].mul_(2)
    after = program.collect(program(device_inputs))[0]
    assert counts == {"bind": 1, "run_with_iobinding": 1}
    assert not np.allclose(before, after)


def test_the_handed_out_lines_feed_bfloat16_which_numpy_lacks(here: pathlib.Path) -> None:
    request = request_for(here, dtype="bfloat16", options={"feeding": "host"})
    inputs = (torch.randn(2, 3, 4, dtype=torch.bfloat16),)
    # ONNX Runtime computes nothing in bfloat16 on CPUs, but it reshapes.
    names: dict[str, Any] = {"model": torch.nn.Flatten(), "inputs": inputs}
    subject = types.SimpleNamespace(dtype="bfloat16")
    exec(onnxruntime_session.integration(subject, request, "CPUExecutionProvider"), names)
    (output,) = names["output"]
    assert output.dtype == torch.bfloat16
    assert torch.equal(output, inputs[0].flatten(1))


def test_an_input_of_one_row_is_exported_with_a_free_batch() -> None:
    names: dict[str, Any] = {"torch": torch, "inputs": (torch.randn(1, 3),)}
    exec(onnx_export.EXPORT_LINES, names)
    exported = torch.export.export(
        torch.nn.Linear(3, 4), names["example"], dynamic_shapes=names["shapes"], strict=False
    )
    assert exported.module()(torch.randn(5, 3)).shape == (5, 4)


def test_the_lines_of_a_cuda_graph_are_all_shown() -> None:
    lines = cuda_graphs.integration("model(*inputs)")
    assert shorten(lines, MOST_CODE_LINES, part=0) == lines.splitlines()


def test_a_replayed_graph_reads_the_present_inputs() -> None:
    captured, graph = (torch.zeros(2),), mock.Mock()
    lines = cuda_graphs.integration("model(*inputs)")
    pytorch.compile_call(lines, captured=captured, graph=graph, output=None)(torch.ones(2))
    assert captured[0].tolist() == [1, 1]
    graph.replay.assert_called_once_with()
