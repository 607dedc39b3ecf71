"""Find the first obstacle that keeps a workflow from running: its limits, memory, installation."""

from __future__ import annotations

import math

from packaging.requirements import Requirement
from packaging.version import Version

from advisor.domain.catalogue import Catalogue
from advisor.domain.machine import Gpu, Machine, describe_gpus
from advisor.domain.model import OnnxModel, SyntheticModel, TransformersModel
from advisor.domain.plan import Excluded
from advisor.domain.question import Question
from advisor.domain.text import GIBIBYTE
from advisor.domain.workflow import Workflow

BYTES_PER_PARAMETER = {"float32": 4, "float16": 2, "bfloat16": 2}


def find_obstacle(workflow: Workflow, question: Question, machine: Machine) -> Excluded | None:
    """Return the first obstacle: a missing probe, then limits, then what can be installed."""
    if not workflow.has_probe:
        why = workflow.not_measured
        reason = str(why.value) if why else "p3-advisor has no probe for it"
        instead = f"to use it without p3-advisor: {workflow.how_to_get}"
        return Excluded(workflow.id, "not-covered", reason, instead)
    gpu = machine.find_gpu(question.gpu)
    limit = _find_limit(workflow, question, gpu)
    if limit is not None:
        return Excluded(workflow.id, "unsupported", limit)
    if gpu and (shortage := find_shortage(workflow, question, gpu)):
        return Excluded(workflow.id, "unsupported", shortage, advise_more_gpus(question, gpu))
    if workflow.environment.kind == "shared":
        return _missing_requirements(workflow, machine)
    return _missing_environment(workflow, machine)


def _find_limit(workflow: Workflow, question: Question, gpu: Gpu | None) -> str | None:
    """Return why it cannot run here, whatever is installed and however large the model."""
    if question.task in workflow.refused:
        return str(workflow.refused[question.task].value)
    if question.serves and "serve" not in workflow.tasks:
        return "p3-advisor starts no server of it"
    if question.task not in workflow.tasks:
        return f"it does not support the task {question.task}, only {' and '.join(workflow.tasks)}"
    if isinstance(question.model, OnnxModel) and "onnx" not in workflow.input_formats:
        return "it accepts PyTorch modules, not ONNX files"
    if question.device in workflow.refused:
        return str(workflow.refused[question.device].value)
    if question.device not in workflow.devices:
        return f"it does not run on {question.device}"
    if question.dtype not in {"own", *workflow.dtypes}:
        return (
            f"it does not support {question.dtype} on {question.device}, "
            f"only {', '.join(workflow.dtypes)}"
        )
    if question.further_gpus and workflow.tensor_parallel is None:
        return "it cannot split a model over several GPUs"
    lowest = workflow.min_compute_capability
    if gpu and lowest and Version(gpu.compute_capability) < Version(lowest):
        return f"it needs compute capability {lowest}; the {gpu.name} has {gpu.compute_capability}"
    return None


def _missing_requirements(workflow: Workflow, machine: Machine) -> Excluded | None:
    missing = missing_packages(workflow.environment.requirements, machine)
    if not missing:
        return None
    python = machine.software.executable
    quoted = " ".join(f"'{requirement}'" for requirement in missing)
    reason = f"{python} does not have {', '.join(missing)}"
    return Excluded(workflow.id, "not-installed", reason, f"{python} -m pip install {quoted}")


def _missing_environment(workflow: Workflow, machine: Machine) -> Excluded | None:
    name = workflow.environment_name
    problem = environment_problem(name, machine)
    if problem is None or has_stack_in_interpreter(workflow, machine):
        return None
    mismatch = "" if name in machine.environments else version_mismatch(workflow, machine)
    reason = f"its environment {problem}{mismatch}"
    return Excluded(workflow.id, "not-installed", reason, f"p3-advisor env create {name}")


def environment_problem(name: str, machine: Machine) -> str | None:
    created = machine.environments.get(name)
    if created is None:
        return "has not been created"
    return f"does not work: {created.fault}" if created.fault else None


def find_shortage(workflow: Workflow, question: Question, gpu: Gpu) -> str | None:
    """Return why the weights do not fit into the GPU; None if they fit or are unknown."""
    weights = weight_bytes(question)
    if weights is None:
        return None
    held = workflow.weight_copies
    copies = held.always + held.each_batch_size * len(question.batch_sizes)
    memory_bytes = gpu.memory_bytes * question.devices_per_model
    if copies * weights <= memory_bytes:
        return None
    hint = "; measure fewer --batch-sizes" if held.each_batch_size else ""
    return (
        f"it needs at least {copies * weights / GIBIBYTE:.1f} GiB for {copies:.1f} copies of the "
        f"weights, and the {describe_gpus(gpu.name, question.devices_per_model)} has "
        f"{memory_bytes / GIBIBYTE:.1f} GiB{hint}"
    )


def advise_more_gpus(question: Question, gpu: Gpu) -> str | None:
    """Return how many GPUs hold the weights of a language model.

    None where they fit, for other models, and where their number is unknown.
    """
    weights, memory_bytes = weight_bytes(question), gpu.memory_bytes * question.devices_per_model
    if weights is None or weights <= memory_bytes or question.task == "forward":
        return None
    # Engines split attention heads evenly, and most models have a power of two of them.
    count = 2 ** math.ceil(math.log2(weights / gpu.memory_bytes))
    return (
        f"{count} of these GPUs hold the weights: --task serve --gpus-per-model {count} measures "
        "the servers that split the model"
    )


def weight_bytes(question: Question) -> int | None:
    """Return the bytes of the model's weights; None if they are unknown until it is loaded."""
    model, size = question.model, BYTES_PER_PARAMETER.get(question.dtype)
    parameters = model.parameters if isinstance(model, TransformersModel) else None
    if isinstance(model, SyntheticModel):
        parameters = count_in_block(model)
    return parameters * size if parameters is not None and size is not None else None


def count_in_block(model: SyntheticModel) -> int:
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


def has_stack_in_interpreter(workflow: Workflow, machine: Machine) -> bool:
    requirement_sets = (workflow.environment.requirements, *workflow.accepts)
    return any(
        requirements and not missing_packages(requirements, machine)
        for requirements in requirement_sets
    )


def environment_interpreter(workflow: Workflow, machine: Machine) -> str:
    """Return the interpreter of the workflow's environment; empty if `--python` serves it."""
    if workflow.environment.kind != "own" or has_stack_in_interpreter(workflow, machine):
        return ""
    return machine.environments[workflow.environment_name].python


def missing_packages(requirements: tuple[str, ...], machine: Machine) -> list[str]:
    packages = machine.software.packages
    return [
        str(requirement)
        for requirement in map(Requirement, requirements)
        if requirement.name not in packages
        or not requirement.specifier.contains(packages[requirement.name], prereleases=True)
    ]


def version_mismatch(workflow: Workflow, machine: Machine) -> str:
    """Return the versions that do not match, if the interpreter has all required packages."""
    packages = machine.software.packages
    missing = missing_packages(workflow.environment.requirements, machine)
    names = [Requirement(text).name for text in missing]
    if not missing or not all(name in packages for name in names):
        return ""
    installed = ", ".join(f"{name} {packages[name]}" for name in names)
    return (
        f", and {machine.software.executable} has {installed}, but {', '.join(missing)} is required"
    )


def required_packages(catalogue: Catalogue) -> list[str]:
    return sorted(
        {
            Requirement(text).name
            for workflow in catalogue.workflows
            for texts in (*(each.requirements for each in workflow.environments), *workflow.accepts)
            for text in texts
        }
    )
