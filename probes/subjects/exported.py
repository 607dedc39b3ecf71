"""Load a model that `torch.export.save` has saved as a `.pt2` file."""

from __future__ import annotations

import torch

from probes.adapter import ModelError
from probes.protocol import Request
from probes.subjects.factory import arguments_like
from probes.subjects.loaded_model import LoadedModel


def create(request: Request) -> LoadedModel:
    """Load the exported program, with arguments like its example inputs."""
    name = request.subject["name"]
    try:
        program = torch.export.load(name)
    except (OSError, RuntimeError, ValueError, KeyError) as problem:
        reason = (
            f"{name!r} is no program saved by torch.export.save: {str(problem).splitlines()[0]}"
        )
        raise ModelError(
            reason,
            f"save it again with torch {torch.__version__}, or give the model as file.py:factory",
        ) from problem
    examples, keywords = program.example_inputs or ((), {})
    if (
        keywords
        or not examples
        or not all(isinstance(example, torch.Tensor) for example in examples)
    ):
        reason = f"{name!r} carries no example inputs that are all positional tensors"
        raise ModelError(reason, "export it with positional tensor arguments")
    if not program.range_constraints and request.batch_sizes != [size := examples[0].shape[0]]:
        reason = f"{name!r} was exported for batch size {size} only"
        raise ModelError(
            reason, f"use --batch-sizes {size}, or export it with a dynamic batch dimension"
        )
    return LoadedModel(
        module=program.module(),
        arguments=arguments_like(tuple(examples), request.batch_sizes),
        weights="from the file",
        shares_weights=False,
    )
