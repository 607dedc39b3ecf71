"""What an output is compared with and how, by the task: arrays for one forward pass, tokens and probabilities for generated text."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator, Sequence
from typing import Any

from probes import protocol
from probes.adapter import Program
from probes.checking import correctness, text_correctness

AnyReference = correctness.Reference | text_correctness.TokenReference


def produce(workflow: Any, program: Program, fed: Sequence[Any]) -> Iterator[list[Any]]:
    """Yield the program's outputs for each input set, on the host."""
    for value in fed:
        output = program(value)
        workflow.synchronise()
        yield program.collect(output)


def file_of(request: protocol.Request, batch_size: int) -> pathlib.Path:
    """Return where the reference of a batch size lies."""
    return pathlib.Path(request.shared_directory) / f"reference-{batch_size}.npz"


def make(
    workflow: Any,
    subject: Any,
    program: Any,
    inputs: list[list[Any]],
    file: pathlib.Path,
    task: str,
) -> None:
    """Leave the reference for these inputs in `file` for the workers that are timed."""
    fed = [program.feed(arguments) for arguments in inputs]
    if task == protocol.GENERATE:
        name, runs = subject.reference_runs(program, fed)
        text_correctness.save_reference(file, name, inputs, runs)
        return
    name, exact = subject.reference(inputs)
    reference = correctness.create_reference(name, exact, produce(workflow, program, fed), inputs)
    correctness.save_reference(reference, file)


def demand(
    subject: Any, inputs: list[Any], batch_size: int, request: protocol.Request
) -> protocol.Workload:
    """Return how much work one call is."""
    if request.task == protocol.GENERATE:
        return protocol.Workload(batch_size, subject.flops(inputs), *subject.traffic(batch_size))
    return protocol.Workload(batch_size, subject.flops(inputs))


def load(request: protocol.Request, batch_size: int) -> AnyReference:
    """Read the reference of a batch size."""
    file = file_of(request, batch_size)
    return (
        text_correctness.load_reference(file)
        if request.task == protocol.GENERATE
        else correctness.load_reference(file)
    )


def judge(
    workflow: Any,
    program: Any,
    fed: Sequence[Any],
    reference: AnyReference,
    dtype: str,
    batch_size: int,
    *,
    again: bool = False,
) -> tuple[protocol.Correctness, str | None]:
    """Run the program and compare; a second time without probabilities, which are not what was timed."""
    produced = produce(workflow, program, fed)
    if isinstance(reference, correctness.Reference):
        return correctness.judge(reference, produced, dtype, batch_size)
    score = None if again else getattr(program, "score", None)
    scored = (
        (
            score(value, tokens, reference.rows)
            for value, tokens in zip(fed, reference.tokens, strict=True)
        )
        if score
        else ()
    )
    return text_correctness.judge(reference, produced, scored, dtype, batch_size)


def allowance(reference: AnyReference, dtype: str) -> Any:
    """Return what a comparison with eager PyTorch needs: its largest error for each output, or by how much it may prefer a token."""
    if isinstance(reference, correctness.Reference):
        return [max(errors) for errors in zip(*reference.eager_errors, strict=True)]
    return text_correctness.allowed_gap_to_eager(reference, dtype)
