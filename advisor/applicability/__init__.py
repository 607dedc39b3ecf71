"""Stage: question, machine and catalogue -> `Plan`: which arms are measured, and for every other workflow the true reason why not."""

from __future__ import annotations

import msgspec
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from advisor.applicability import memory_estimate
from advisor.domain.catalogue import Catalogue
from advisor.domain.machine import Machine
from advisor.domain.plan import Arm, Excluded, ExclusionStatus, Plan
from advisor.domain.question import OnnxFile, Question
from advisor.domain.workflow import Workflow
from advisor.errors import NoStackError

BASELINE = "pytorch-eager"
DEFAULT = "default"
DUPLICATE_SUFFIX = "#duplicate"


def plan(question: Question, machine: Machine, catalogue: Catalogue) -> Plan:
    """Return the arms in the order of their builds, the baseline and its duplicate first; raise `NoStackError` without a baseline."""
    arms: list[Arm] = []
    excluded: list[Excluded] = []
    for workflow in catalogue.workflows:
        obstacle = find_obstacle(workflow, question, machine)
        if obstacle is not None:
            excluded.append(obstacle)
            continue
        places = arms_of(workflow, python_of(workflow, machine), image_of(workflow, machine))
        asked = [arm for arm in places if is_chosen(arm, question.workflows)]
        chosen = [arm for arm in asked if purpose_missed(workflow, arm, question) is None]
        arms += chosen
        if not asked:
            excluded.append(_exclude(workflow, "excluded", "left out by --workflows", None))
        elif not chosen:
            missed = purpose_missed(workflow, asked[0], question)
            excluded.append(
                _exclude(workflow, "unsupported", f"{asked[0].id} is not for {missed}", None)
            )
    baseline = _find_baseline(question, arms, excluded)
    duplicate = msgspec.structs.replace(
        baseline, id=baseline.id + DUPLICATE_SUFFIX, duplicate_of=baseline.id
    )
    return Plan(
        arms=(baseline, duplicate, *(arm for arm in arms if arm != baseline)),
        excluded=tuple(excluded),
    )


def arms_of(workflow: Workflow, python: str = "", image: str = "") -> list[Arm]:
    """Return the workflow with each of its sets of options."""
    requirements = [Requirement(text) for text in workflow.environment.requirements]
    extras = {each.name: tuple(sorted(each.extras)) for each in requirements if each.extras}
    return [
        Arm(
            id=workflow.id if option == DEFAULT else f"{workflow.id}/{option}",
            workflow=workflow.id,
            option=option,
            options=options,
            python=python,
            image=image,
            extras=extras,
        )
        for option, options in workflow.arms.items()
    ]


def purpose_missed(workflow: Workflow, arm: Arm, question: Question) -> str | None:
    """Return the question's device or task where the arm is not for it."""
    if question.device not in workflow.arm_devices.get(arm.option, workflow.devices):
        return question.device
    return (
        None
        if question.task in workflow.arm_tasks.get(arm.option, workflow.tasks)
        else question.task
    )


def is_chosen(arm: Arm, chosen: tuple[str, ...]) -> bool:
    """Say whether the user's list has the arm or its workflow; the baseline is always measured."""
    return (
        not chosen
        or arm.id == BASELINE
        or bool({arm.id, arm.workflow, f"{arm.workflow}/{arm.option}"} & {*chosen})
    )


def find_obstacle(workflow: Workflow, question: Question, machine: Machine) -> Excluded | None:
    """Return the first thing that keeps the workflow from being measured here: limits first, what can be mended last."""
    limit = find_limit(workflow, question, machine)
    if limit is not None:
        return _exclude(workflow, "unsupported", limit, None)
    if not workflow.has_probe:
        return _exclude(
            workflow,
            "excluded",
            "this release of p3-advisor has no probe for it yet",
            f"by hand: {workflow.how_to_get}",
        )
    missing = missing_packages(workflow.environment.requirements, machine)
    if workflow.environment.kind == "shared" and missing:
        wanted = " ".join(f"'{requirement}'" for requirement in missing)
        reason = f"{machine.software.executable} lacks {', '.join(missing)}"
        return _exclude(
            workflow,
            "not-installed",
            reason,
            f"{machine.software.executable} -m pip install {wanted}",
        )
    if (
        workflow.environment.kind != "shared"
        and not is_served(workflow, machine)
        and not image_of(workflow, machine)
    ):
        made = machine.environments.get(environment_name(workflow))
        if made is None or made.fault:
            return _explain_lack(workflow, machine, made.fault if made else None)
    return None


def _explain_lack(workflow: Workflow, machine: Machine, fault: str | None) -> Excluded:
    """Say what is wrong with the workflow's environment, or that there is none, and how to get it."""
    images = [container.image for container in workflow.containers]
    if workflow.environment.kind == "container":
        return _exclude(
            workflow,
            "not-installed",
            "it runs in a container, and its image is not here",
            workflow.how_to_get,
        )
    reason = (
        f"its environment cannot be used: {fault}"
        if fault
        else "its environment has not been made" + _other_versions(workflow, machine)
    )
    instead = f", or docker pull {images[0]}" if images else ""
    return _exclude(
        workflow,
        "not-installed",
        reason,
        f"p3-advisor env create {environment_name(workflow)}{instead}",
    )


def _other_versions(workflow: Workflow, machine: Machine) -> str:
    """Say which versions keep the interpreter from serving the workflow, where nothing else does."""
    packages = machine.software.packages
    missing = missing_packages(workflow.environment.requirements, machine)
    names = [Requirement(text).name for text in missing]
    if not missing or not all(name in packages for name in names):
        return ""
    there = ", ".join(f"{name} {packages[name]}" for name in names)
    return f", and {machine.software.executable} has {there} where it asks for {', '.join(missing)}"


def image_of(workflow: Workflow, machine: Machine) -> str:
    """Return the first image that is here and holds the workflow; empty where there is none or something else serves it."""
    made = machine.environments.get(environment_name(workflow))
    if is_served(workflow, machine) or (made is not None and made.fault is None):
        return ""
    held = (
        *workflow.containers,
        *([workflow.environment] if workflow.environment.kind == "container" else []),
    )
    return next(
        (
            container.image
            for container in held
            if machine.engine and container.image in machine.images
        ),
        "",
    )


def environment_name(workflow: Workflow) -> str:
    """Return the name of the environment that is made for the workflow."""
    return workflow.environment.name or workflow.id


def is_served(workflow: Workflow, machine: Machine) -> bool:
    """Say whether the interpreter of `--python` has all that the workflow asks for, made by hand or because it is shared."""
    sets = (workflow.environment.requirements, *workflow.accepts)
    return any(
        requirements and not missing_packages(requirements, machine) for requirements in sets
    )


def python_of(workflow: Workflow, machine: Machine) -> str:
    """Return the interpreter that was made for the workflow; empty where that of `--python` serves it."""
    if (
        workflow.environment.kind != "own"
        or is_served(workflow, machine)
        or image_of(workflow, machine)
    ):
        return ""
    return machine.environments[environment_name(workflow)].python


def find_limit(workflow: Workflow, question: Question, machine: Machine) -> str | None:
    """Return why the workflow cannot do what is asked on this device, whatever is installed."""
    if question.task in workflow.refused:
        return str(workflow.refused[question.task].value)
    if question.task not in workflow.tasks:
        return f"it does not do {question.task}, only {' and '.join(workflow.tasks)}"
    if isinstance(question.model, OnnxFile) and "onnx" not in workflow.takes:
        return "it takes PyTorch modules, not ONNX files"
    if question.device in workflow.refused:
        return str(workflow.refused[question.device].value)
    if question.device not in workflow.devices:
        return f"it does not run on {question.device}"
    if question.dtype not in {"native", *workflow.dtypes}:
        return f"it does not run {question.dtype} on {question.device}, only {', '.join(workflow.dtypes)}"
    gpu = machine.find_gpu(question.gpu)
    lowest = workflow.min_compute_capability
    if gpu and lowest and Version(gpu.compute_capability) < Version(lowest):
        return f"it needs compute capability {lowest}; the {gpu.name} has {gpu.compute_capability}"
    generations = workflow.compute_capabilities
    if (
        gpu
        and generations
        and not any(SpecifierSet(each).contains(gpu.compute_capability) for each in generations)
    ):
        return f"it runs on compute capability {' or '.join(generations)} only; the {gpu.name} has {gpu.compute_capability}"
    return memory_estimate.find_shortage(workflow, question, gpu) if gpu else None


def missing_packages(requirements: tuple[str, ...], machine: Machine) -> list[str]:
    """Return the requirements that the interpreter does not meet."""
    packages = machine.software.packages
    return [
        str(requirement)
        for requirement in map(Requirement, requirements)
        if requirement.name not in packages
        or not requirement.specifier.contains(packages[requirement.name], prereleases=True)
    ]


def required_packages(catalogue: Catalogue) -> list[str]:
    """Return the distributions that any workflow asks for or accepts: what to look for in an interpreter."""
    asked = [
        each.requirements for workflow in catalogue.workflows for each in workflow.environments
    ]
    accepted = [
        requirements for workflow in catalogue.workflows for requirements in workflow.accepts
    ]
    return sorted(
        {Requirement(text).name for requirements in [*asked, *accepted] for text in requirements}
    )


def _find_baseline(question: Question, arms: list[Arm], excluded: list[Excluded]) -> Arm:
    if isinstance(question.model, OnnxFile):
        if arms:
            return arms[0]
        raise NoStackError(
            "no workflow that takes ONNX files can run here", "pip install 'p3-advisor[stack]'"
        )
    for arm in arms:
        if arm.id == BASELINE:
            return arm
    reason = next((entry for entry in excluded if entry.workflow == BASELINE), None)
    if reason is None:
        raise NoStackError(
            f"the catalogue has no {BASELINE}, so there is nothing to compare with",
            "restore rubric/workflows.toml",
        )
    raise NoStackError(
        f"there is no baseline to compare with: {reason.reason}",
        reason.fix or "choose another precision or device",
    )


def _exclude(workflow: Workflow, status: ExclusionStatus, reason: str, fix: str | None) -> Excluded:
    return Excluded(workflow=workflow.id, status=status, reason=reason, fix=fix)
