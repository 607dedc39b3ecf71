"""Load a model that `torch.export.save` has saved as a `.pt2` file."""

from __future__ import annotations

import math
import zipfile
from typing import Any

import torch
from torch.export.graph_signature import InputKind

from probes.adapter import ModelError
from probes.protocol import Request
from probes.subjects.call_inputs import flatten
from probes.subjects.factory import arguments_like, keyword_names, read_given, shared_rows
from probes.subjects.loaded_model import LoadedModel

#: Export states this lower bound for dimensions without one, because it compiles for more than one
#: row. The program does not check it, and takes one row too.
UNCHECKED_LOWER_BOUND = 2


def create(request: Request) -> LoadedModel:
    name = request.subject["name"]
    try:
        program = torch.export.load(name)
    except (OSError, RuntimeError, ValueError, KeyError, zipfile.BadZipFile) as problem:
        raise ModelError(
            f"torch.export.load does not take {name!r}: {str(problem).splitlines()[0]}",
            "save it with torch.export.save(torch.export.export(module, inputs), file) and torch"
            f" {torch.__version__}, where module returns tensors in tuples or dictionaries and no"
            " class of a library; or give the model as file.py:factory",
        ) from problem
    given = request.subject.get("inputs", "")
    arguments, keywords = read_given(given) if given else program.example_inputs or ((), {})
    module, examples = flatten(program.module(), tuple(arguments), dict(keywords))
    if not examples:
        reason = f"{name!r} carries no example inputs with a tensor"
        raise ModelError(reason, "export it again with example inputs, or use --inputs FILE.npz")
    refuse_other_sizes(name, program, examples, request.batch_sizes)
    return LoadedModel(
        module=module,
        arguments=arguments_like(examples, request.batch_sizes, fixed=bool(given)),
        shares_weights=False,
        names=keyword_names(tuple(arguments), dict(keywords)),
    )


def count_rows(file: str, given: str) -> tuple[int, bool]:
    """Return the only batch size of a program and True, or the rows of its inputs and False."""
    program = torch.export.load(file)
    low, high = batch_range(program)
    if low == high:
        return low, True
    arguments, keywords = read_given(given) if given else program.example_inputs or ((), {})
    return shared_rows(tuple(arguments), dict(keywords)), False


def refuse_other_sizes(
    name: str,
    program: torch.export.ExportedProgram,
    examples: tuple[torch.Tensor, ...],
    batch_sizes: list[int],
) -> None:
    """Accept inputs of different first dimensions: `arguments_like` refuses sizes for them."""
    if len({example.shape[0] for example in examples if example.dim()}) != 1:
        return
    low, high = batch_range(program)
    refused = ", ".join(str(size) for size in batch_sizes if not low <= size <= high)
    if not refused:
        return
    if low == high:
        reason = f"{name!r} was exported for batch size {low} only"
        raise ModelError(
            reason, f"use --batch-sizes {low}, or export it with a dynamic batch dimension"
        )
    exported = f"{low} to {high:.0f}" if math.isfinite(high) else f"of {low} or more"
    reason = f"{name!r} was exported for batch sizes {exported}, not for {refused}"
    raise ModelError(
        reason,
        "use --batch-sizes within this range, or export it again with a batch dimension that takes"
        f" {refused}",
    )


def batch_range(program: torch.export.ExportedProgram) -> tuple[int, float]:
    """Return the least and the largest first dimension that all inputs may have."""
    ranges = [bounds[0] for bounds in input_ranges(program) if bounds]
    low = max((low for low, _ in ranges), default=1)
    return low, min((high for _, high in ranges), default=math.inf)


def input_ranges(program: torch.export.ExportedProgram) -> list[list[tuple[int, float]]]:
    """Return the bounds of each dimension of each tensor that the program takes."""
    inputs = {
        spec.arg.name
        for spec in program.graph_signature.input_specs
        if spec.kind is InputKind.USER_INPUT
    }
    nodes = program.graph.find_nodes(op="placeholder")
    values = [node.meta.get("val") for node in nodes if node.name in inputs]
    return [
        [size_range(program, size) for size in value.shape]
        for value in values
        if isinstance(value, torch.Tensor)
    ]


def size_range(program: torch.export.ExportedProgram, size: Any) -> tuple[int, float]:
    """Return the bounds of a dimension; none for an expression that the program has none for."""
    if isinstance(size, int) or size.node.expr.is_number:
        return int(size), int(size)
    bounds = program.range_constraints.get(size.node.expr)
    if bounds is None:
        return 1, math.inf
    low = int(bounds.lower)
    return 1 if low <= UNCHECKED_LOWER_BOUND else low, float(bounds.upper)
