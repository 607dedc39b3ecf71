"""Render the question and the machine as pairs of a name and a text."""

from __future__ import annotations

from advisor.domain.model import ExportedModel, FactoryModel, TransformersModel
from advisor.domain.priorities import CRITERIA
from advisor.report.documents.document import RunDocument
from advisor.report.formatting.machine_load import describe_problem
from advisor.system.number_format import format_mebibytes


def setup_facts(document: RunDocument) -> list[tuple[str, str]]:
    """Return the facts of the question, then those of the machine."""
    return [*_question_facts(document), *_machine_facts(document)]


def takes_tokens(document: RunDocument) -> bool:
    """Return whether the length of the question applies to the inputs.

    Example inputs have shapes of their own, and so have images and sound.
    """
    model = document.question.model
    if isinstance(model, (FactoryModel, ExportedModel)):
        return False
    units = {cell.throughput.unit for entry in document.workflows for cell in entry.cells}
    return not isinstance(model, TransformersModel) or units != {"samples/s"}


def _question_facts(document: RunDocument) -> list[tuple[str, str]]:
    question = document.question
    weights = (f"{name} {getattr(question.priorities, name):g}%" for name in CRITERIA)
    constraints = (constraint.text for constraint in question.constraints)
    tokens = f", {question.input_tokens} input tokens" if takes_tokens(document) else ""
    return [
        ("model", f"{question.model.name}, {question.task}, {question.dtype}{tokens}"),
        *_served_load_facts(document),
        ("batch sizes", _batch_sizes(document)),
        ("device", document.device_name),
        ("weights", ", ".join(weights)),
        ("constraints", ", ".join(constraints) or "none"),
        ("budget", f"{question.budget.name}, {question.budget.measuring_seconds:g} s of measuring"),
        ("seed", str(question.seed)),
    ]


def _served_load_facts(document: RunDocument) -> list[tuple[str, str]]:
    """Return the load on servers and the command of each; nothing for other tasks."""
    load, serving = document.question.load, document.serving
    if load is None:
        return []
    lengths = ", ".join(f"{each.input_tokens} + {each.output_tokens}" for each in load.lengths[:5])
    more = ", ..." if len(load.lengths) > 5 else ""  # noqa: PLR2004 - enough for a line
    return [
        ("load", f"{load.name}: {lengths}{more} tokens of prompt and text"),
        ("limits", load.limits),
        *([("asked rate", f"{load.rate:g} requests/s")] if load.rate else []),
        *((f"server of {arm.arm}", arm.command) for arm in (serving.arms if serving else ())),
    ]


def _machine_facts(document: RunDocument) -> list[tuple[str, str]]:
    machine = document.machine
    gpus = [
        f"{gpu.name}, {format_mebibytes(gpu.memory_bytes)} MiB, driver {gpu.driver}, "
        f"CUDA {gpu.cuda_driver}"
        for gpu in machine.gpu
    ]
    cpu = machine.cpu
    packages = ", ".join(
        f"{name} {version}" for name, version in sorted(machine.software.packages.items())
    )
    return [
        ("GPUs", "; ".join(gpus) or machine.gpu_problem or "none"),
        (
            "processor",
            f"{cpu.model}, {cpu.physical_cores} cores, {format_mebibytes(cpu.memory_bytes)} MiB",
        ),
        *_load_facts(document),
        ("kernel", machine.kernel),
        ("Python", f"{machine.software.version}, {packages}"),
    ]


def _load_facts(document: RunDocument) -> list[tuple[str, str]]:
    check = document.load_check
    if check is None:
        return []
    problems = [describe_problem(problem, check.load) for problem in check.problems]
    waited = f", after {check.waited_seconds:.0f} s of waiting" if check.waited_seconds else ""
    return [("load before measuring", ("; ".join(problems) or "quiet") + waited)]


def _batch_sizes(document: RunDocument) -> str:
    sizes = document.question.batch_sizes
    raced = (
        {race.batch_size for race in document.race.by_batch_size} if document.race else set(sizes)
    )
    missing = [str(size) for size in sizes if size not in raced]
    return ", ".join(map(str, sizes)) + (f"; not measured: {', '.join(missing)}" if missing else "")
