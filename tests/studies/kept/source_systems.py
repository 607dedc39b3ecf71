"""List the systems that the paper and the handbook name, with where each has run here."""

from __future__ import annotations

import msgspec
from kept import verified

from advisor.catalogue import rubric_files
from advisor.domain.workflow import Workflow
from advisor.report.formatting import markdown_table

PAPER, PAPER_NAMES, HANDBOOK = "paper: measured", "paper: named", "handbook"


class System(msgspec.Struct, frozen=True):
    """A system of a source, and the workflows that measure it here."""

    name: str
    source: str
    workflows: tuple[str, ...]


SYSTEMS = (
    System("PyTorch eager", PAPER, ("pytorch-eager",)),
    System(
        "torch.compile, Inductor",
        PAPER,
        ("torch-compile-inductor", "torch-compile-inductor-static-cache"),
    ),
    System("torch.compile, Torch-TensorRT", PAPER, ("torch-compile-tensorrt",)),
    System("torch.compile, OpenXLA", PAPER, ("torch-compile-openxla",)),
    System("Torch-TensorRT, ahead of time", PAPER, ("torch-tensorrt",)),
    System("ONNX Runtime, TensorRT", PAPER, ("onnxruntime-tensorrt",)),
    System("TensorRT-LLM", PAPER, ("tensorrt-llm",)),
    System("IREE", PAPER_NAMES, ("iree",)),
    System("Apache TVM", PAPER_NAMES, ("tvm",)),
    System("Modular MAX", PAPER_NAMES, ("max",)),
    System("TensorRT for RTX", PAPER_NAMES, ("tensorrt-rtx", "onnxruntime-tensorrt-rtx")),
    System("PyTorch on AMD GPUs", PAPER_NAMES, ("torch-compile-rocm", "torch-compile-migraphx")),
    System("ONNX Runtime", HANDBOOK, ("onnxruntime-cpu", "onnxruntime-cuda")),
    System("XLA", HANDBOOK, ("openxla-jax",)),
    System("Core ML", HANDBOOK, ("coreml",)),
    System("OpenVINO", HANDBOOK, ("openvino", "torch-compile-openvino")),
    System("vLLM", HANDBOOK, ("vllm",)),
    System("SGLang", HANDBOOK, ("sglang",)),
    System("TensorRT", HANDBOOK, ("tensorrt",)),
)


def systems_section() -> list[str]:
    """Return a table with a row for each workflow of a system."""
    catalogue = {workflow.id: workflow for workflow in rubric_files.load().workflows}
    places = verified.find_places()
    rows = [
        [
            system.name,
            system.source,
            f"`{workflow}`",
            ", ".join(sorted(places.get(workflow, ()))) or _never(catalogue[workflow]),
        ]
        for system in SYSTEMS
        for workflow in system.workflows
    ]
    head = ["system", "source", "workflow", "completed on"]
    return [*markdown_table(head, rows, text_columns={0, 1, 2, 3}), ""]


def _never(workflow: Workflow) -> str:
    reason = workflow.not_measured
    return f"never: {reason.value}" if reason else "never"
