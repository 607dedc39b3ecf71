"""Load a model that `torch.export.save` has saved as a `.pt2` file."""

from __future__ import annotations

import zipfile

import torch

from probes.adapter import ModelError
from probes.protocol import Request
from probes.subjects.call_inputs import flatten
from probes.subjects.factory import arguments_like, keyword_names
from probes.subjects.loaded_model import LoadedModel


def create(request: Request) -> LoadedModel:
    """Load the exported program, with arguments like its example inputs."""
    name = request.subject["name"]
    try:
        program = torch.export.load(name)
    except (OSError, RuntimeError, ValueError, KeyError, zipfile.BadZipFile) as problem:
        reason = (
            f"{name!r} is not a program saved by torch.export.save: {str(problem).splitlines()[0]}"
        )
        raise ModelError(
            reason,
            "save it with torch.export.save(torch.export.export(module, inputs), file) and torch"
            f" {torch.__version__}, or give the model as file.py:factory",
        ) from problem
    arguments, keywords = program.example_inputs or ((), {})
    module, examples = flatten(program.module(), tuple(arguments), dict(keywords))
    if not examples:
        reason = f"{name!r} carries no example inputs with a tensor"
        raise ModelError(reason, "export it again with example inputs")
    if not program.range_constraints:
        refuse_other_sizes(name, examples, request.batch_sizes)
    return LoadedModel(
        module=module,
        arguments=arguments_like(examples, request.batch_sizes),
        weights="from the file",
        shares_weights=False,
        names=keyword_names(tuple(arguments), dict(keywords)),
    )


def refuse_other_sizes(
    name: str, examples: tuple[torch.Tensor, ...], batch_sizes: list[int]
) -> None:
    """Raise `ModelError` unless the batch size is that of the example inputs.

    Inputs of different first dimensions have no batch, and 1 stands for their shapes.
    """
    first = {example.shape[0] for example in examples if example.dim()}
    size = next(iter(first)) if len(first) == 1 else 1
    if batch_sizes != [size]:
        reason = f"{name!r} was exported for batch size {size} only"
        raise ModelError(
            reason, f"use --batch-sizes {size}, or export it with a dynamic batch dimension"
        )
