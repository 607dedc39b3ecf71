"""Find the first obstacle that keeps a workflow from running: its limits, memory, installation."""

from __future__ import annotations

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from advisor.applicability import memory_estimate
from advisor.applicability.installation import (
    has_stack_in_interpreter,
    missing_packages,
    version_mismatch,
)
from advisor.domain.machine import Gpu, Machine
from advisor.domain.model import OnnxModel
from advisor.domain.plan import Excluded
from advisor.domain.question import Question
from advisor.domain.workflow import Workflow


def find_obstacle(workflow: Workflow, question: Question, machine: Machine) -> Excluded | None:
    """Return the first obstacle: a missing probe, then limits, then what can be installed."""
    if not workflow.has_probe:
        why = workflow.not_measured
        return Excluded(
            workflow=workflow.id,
            status="not-covered",
            reason=str(why.value) if why else "p3-advisor has no probe for it",
            fix=f"to use it without p3-advisor: {workflow.how_to_get}",
        )
    gpu = machine.find_gpu(question.gpu)
    limit = _find_limit(workflow, question, gpu)
    if limit is not None:
        return Excluded(workflow=workflow.id, status="unsupported", reason=limit, fix=None)
    if gpu and (shortage := memory_estimate.find_shortage(workflow, question, gpu)):
        return Excluded(
            workflow=workflow.id,
            status="unsupported",
            reason=shortage,
            fix=memory_estimate.advise_on_shortage(question, gpu),
        )
    if workflow.environment.kind == "shared":
        return _missing_requirements(workflow, machine)
    return _missing_environment(workflow, machine)


def _find_limit(workflow: Workflow, question: Question, gpu: Gpu | None) -> str | None:
    """Return why the workflow cannot run here, whatever is installed and however large the model.

    None if it can.
    """
    if question.task in workflow.refused:
        return str(workflow.refused[question.task].value)
    if question.task == "serve" and "serve" not in workflow.tasks:
        return "p3-advisor starts no server of it"
    if question.task not in workflow.tasks:
        return f"it does not support the task {question.task}, only {' and '.join(workflow.tasks)}"
    if isinstance(question.model, OnnxModel) and "onnx" not in workflow.input_formats:
        return "it accepts PyTorch modules, not ONNX files"
    if question.device in workflow.refused:
        return str(workflow.refused[question.device].value)
    if question.device not in workflow.devices:
        return f"it does not run on {question.device}"
    if question.dtype not in {"native", *workflow.dtypes}:
        return (
            f"it does not support {question.dtype} on {question.device}, "
            f"only {', '.join(workflow.dtypes)}"
        )
    if question.further_gpus and workflow.tensor_parallel is None:
        return "it cannot split a model over several GPUs"
    return _find_gpu_limit(workflow, gpu) if gpu else None


def _find_gpu_limit(workflow: Workflow, gpu: Gpu) -> str | None:
    """Return which compute capability the workflow needs; None if the GPU has it."""
    lowest = workflow.min_compute_capability
    if lowest and Version(gpu.compute_capability) < Version(lowest):
        return f"it needs compute capability {lowest}; the {gpu.name} has {gpu.compute_capability}"
    supported = workflow.compute_capabilities
    if supported and not any(
        SpecifierSet(each).contains(gpu.compute_capability) for each in supported
    ):
        return (
            f"it runs on compute capability {' or '.join(supported)} only; "
            f"the {gpu.name} has {gpu.compute_capability}"
        )
    return None


def _missing_requirements(workflow: Workflow, machine: Machine) -> Excluded | None:
    """Return which packages the interpreter lacks, and the command that installs them."""
    missing = missing_packages(workflow.environment.requirements, machine)
    if not missing:
        return None
    python = machine.software.executable
    quoted = " ".join(f"'{requirement}'" for requirement in missing)
    return Excluded(
        workflow=workflow.id,
        status="not-installed",
        reason=f"{python} does not have {', '.join(missing)}",
        fix=f"{python} -m pip install {quoted}",
    )


def _missing_environment(workflow: Workflow, machine: Machine) -> Excluded | None:
    """Return why the workflow's environment cannot be used, and the command that creates it."""
    if has_stack_in_interpreter(workflow, machine):
        return None
    created = machine.environments.get(workflow.environment_name)
    if created is not None and not created.fault:
        return None
    return Excluded(
        workflow=workflow.id,
        status="not-installed",
        reason=f"its environment does not work: {created.fault}"
        if created is not None
        else "its environment has not been created" + version_mismatch(workflow, machine),
        fix=f"p3-advisor env create {workflow.environment_name}",
    )
