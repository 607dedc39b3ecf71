"""How much of a GPU a workflow takes at least, before anything is started: a model that cannot fit is not built to find that out. Pure."""

from __future__ import annotations

from advisor.domain.machine import Gpu
from advisor.domain.question import Model, Question, Synthetic, Transformers
from advisor.domain.workflow import Workflow

GIBIBYTE = 1 << 30
BYTES_OF = {"float32": 4, "float16": 2, "bfloat16": 2}


def find_shortage(workflow: Workflow, question: Question, gpu: Gpu) -> str | None:
    """Return in words why the weights, as often as the workflow holds them, cannot fit; None where they can or nobody can tell."""
    weights = weight_bytes(question)
    if weights is None:
        return None
    need = workflow.weight_copies
    copies = need.always + need.each_batch_size * len(question.batch_sizes)
    if copies * weights <= gpu.memory_bytes:
        return None
    holds = f"{weights / GIBIBYTE:.1f} GiB of weights, held {copies:.1f} times"
    return f"it cannot fit: {holds}, and the {gpu.name} has {gpu.memory_bytes / GIBIBYTE:.1f} GiB; fewer batch sizes may help"


def weight_bytes(question: Question) -> int | None:
    """Return the bytes of the model's weights where its sizes tell: those of other models are known once it is loaded."""
    parameters = count_parameters(question.model)
    size = BYTES_OF.get(question.dtype)
    return parameters * size if parameters is not None and size is not None else None


def count_parameters(model: Model) -> int | None:
    """Return the model's weights as far as they are known before it is opened."""
    if isinstance(model, Transformers):
        return model.parameters
    return count_in_block(model) if isinstance(model, Synthetic) else None


def count_in_block(model: Synthetic) -> int:
    """Return the weights and biases of a synthetic block."""
    up = model.hidden * model.intermediate + model.intermediate
    down = model.hidden * model.intermediate + model.hidden
    match model.block:
        case "matmul" | "matmul-relu":
            return up
        case "ffn" | "ffn-multilayer":
            return model.layers * (up + down)
        case "encoder":
            attention = 4 * model.hidden * (model.hidden + 1)
            norms = 4 * model.hidden
            return model.layers * (up + down + attention + norms)
