"""Render the question and the machine as pairs of a name and a text."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from advisor.domain.answer import Answer
from advisor.domain.model import ExportedModel, FactoryModel, OnnxModel, TransformersModel
from advisor.domain.question import LoadQuestion
from advisor.domain.text import format_mebibytes, join_names, name_some
from advisor.report.formatting import describe_problem
from probes.facts import InputSpec
from probes.shape import Shape

#: Most shapes of inputs in a line.
MAX_SHAPES = 3


def setup_facts(answer: Answer) -> list[tuple[str, str]]:
    return [*_question_facts(answer), *_machine_facts(answer)]


def describe_lengths(answer: Answer) -> str:
    """Return the length of the inputs with a comma before it, or nothing for a model without one.

    Example inputs have shapes of their own, and so have images and sound. A file may have free
    dimensions, which are not tokens.
    """
    question, model = answer.question, answer.question.model
    inputs = list_numbers(each.input_tokens for each in question.lengths)
    if isinstance(model, (FactoryModel, ExportedModel)):
        return ""
    if isinstance(model, OnnxModel):
        is_free = answer.results.inputs is not None and answer.results.inputs.has_length
        return f", free dimensions of {inputs}" if is_free else ""
    units = {cell.throughput.unit for _, cell in answer.results.cells}
    if isinstance(model, TransformersModel) and units == {"samples/s"}:
        return ""
    outputs = list_numbers(each.output_tokens for each in question.lengths)
    output = f", {outputs} generated tokens" if question.task == "generate" else ""
    return f", {inputs} input tokens{output}"


def list_numbers(numbers: Iterable[int]) -> str:
    """Return the different numbers in ascending order, such as `16 and 64`."""
    return join_names([*map(str, sorted({*numbers}))])


def describe_mix(load: LoadQuestion) -> str:
    sides = (
        {each.input_tokens for each in load.lengths},
        {each.output_tokens for each in load.lengths},
    )
    prompt, text = (
        f"{min(side)}" if len(side) == 1 else f"{min(side)} to {max(side)}" for side in sides
    )
    return f"requests of {prompt} input and {text} generated tokens (mix {load.name})"


def describe_inputs(answer: Answer) -> str:
    """Return the length or the tensors of the inputs with a comma before them, or nothing."""
    inputs, lengths = answer.results.inputs, describe_lengths(answer)
    if lengths or inputs is None or not inputs.shapes:
        return lengths
    known = [describe_tensor(each) for each in inputs.tensors]
    known = known or ["x".join(map(str, shape)) for shape in inputs.shapes]
    return f", input{'s' if len(known) > 1 else ''} {name_some(known, MAX_SHAPES)}"


def describe_tensor(tensor: InputSpec) -> str:
    """Return name, dtype and shape as PyTorch writes them: `mask bool [batch, 16]`."""
    sizes = [*(["batch"] if tensor.batched else []), *map(str, tensor.shape)]
    return f"{tensor.name} {tensor.dtype} [{', '.join(sizes)}]".lstrip()


def own_shapes(answer: Answer) -> str:
    """Return what the shapes of inputs without a batch dimension are called; empty with one."""
    if answer.results.inputs is None or answer.results.inputs.has_batch is not False:
        return ""
    is_file = isinstance(answer.question.model, OnnxModel)
    return "the file's own shapes" if is_file else "the examples' own shapes"


def describe_shapes(answer: Answer, shapes: Sequence[Shape]) -> str:
    """Return the batch sizes and, of some of several lengths, the lengths.

    Inputs without a batch dimension have shapes of their own.
    """
    if own := own_shapes(answer):
        return own
    if len(shapes) == 1:
        return shapes[0].description
    if len(shapes) == len(answer.question.shapes) or not shapes[0].tokens:
        sizes = [*dict.fromkeys(str(each.batch_size) for each in shapes)]
        return f"batch size{'s' if len(sizes) > 1 else ''} {join_names(sizes)}"
    return f"shapes {join_names([*map(str, shapes)])}"


def input_facts(answer: Answer) -> list[tuple[str, str]]:
    inputs = answer.results.inputs
    if inputs is None:
        return []
    why = "because the model fails or returns no numbers for random ones"
    if getattr(answer.question.model, "inputs", ""):
        why = "which --inputs gives"
    facts = [
        (inputs.fixed, f"the values of the examples, {why}"),
        (inputs.reordered, "the layout of the examples, such as channels last"),
    ]
    stated = [
        f"{'one input has' if count == 1 else f'{count} inputs have'} {what}"
        for count, what in facts
        if count
    ]
    return [("inputs", "; ".join(stated))] if stated else []


def _question_facts(answer: Answer) -> list[tuple[str, str]]:
    question = answer.question
    limit = f"{question.budget.measuring_seconds:g} s of measuring"
    if math.isfinite(question.seconds):
        limit = f"at most {question.seconds:g} s"
    inputs = "" if question.serves else describe_inputs(answer)
    sizes, own = ", ".join(map(str, question.batch_sizes)), own_shapes(answer)
    sizes = f"none: {own}, a sample is one call" if own else sizes
    missing = ", ".join(map(str, answer.unmeasured_shapes))
    return [
        ("model", f"{question.model.name}, {question.task}, {question.precision}{inputs}"),
        *input_facts(answer),
        *_served_load_facts(answer),
        ("batch sizes", f"{sizes}; not measured: {missing}" if missing else sizes),
        ("device", answer.device_name),
        ("weights", question.priorities.describe()),
        ("constraints", question.required or "none"),
        ("budget", f"{question.budget.name}, {limit}"),
        ("seed", str(question.seed)),
    ]


def _served_load_facts(answer: Answer) -> list[tuple[str, str]]:
    load = answer.question.load
    if load is None:
        return []
    lengths = ", ".join(f"{each.input_tokens} + {each.output_tokens}" for each in load.lengths[:5])
    more = ", ..." if len(load.lengths) > 5 else ""  # noqa: PLR2004 - enough for a line
    return [
        ("load", f"{load.name}: {lengths}{more} tokens of prompt and text"),
        ("limits", load.limits),
        *([("asked rate", f"{load.rate:g} requests/s")] if load.rate else []),
        *((f"server of {arm}", each.command) for arm, each in answer.served.items()),
    ]


def _machine_facts(answer: Answer) -> list[tuple[str, str]]:
    machine = answer.machine
    gpus = [
        f"{gpu.name}, {format_mebibytes(gpu.memory_bytes)} MiB, driver {gpu.driver}, "
        f"CUDA {gpu.cuda_driver}"
        for gpu in machine.gpus
    ]
    cpu = machine.cpu
    packages = ", ".join(
        f"{name} {version}" for name, version in sorted(machine.software.packages.items())
    )
    return [
        ("GPUs", "; ".join(gpus) or "none: no NVIDIA driver offers one"),
        (
            "processor",
            f"{cpu.model}, {cpu.physical_cores} cores, {format_mebibytes(cpu.memory_bytes)} MiB",
        ),
        *_quiet_facts(answer),
        ("kernel", machine.kernel),
        ("Python", f"{machine.software.version}, {packages}"),
    ]


def _quiet_facts(answer: Answer) -> list[tuple[str, str]]:
    check = answer.quiet_check
    if check is None:
        return []
    problems = [describe_problem(problem, check.activity) for problem in check.problems]
    waited = f", after {check.waited_seconds:.0f} s of waiting" if check.waited_seconds else ""
    return [("other work beforehand", ("; ".join(problems) or "quiet") + waited)]
