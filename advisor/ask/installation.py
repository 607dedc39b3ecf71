"""Find out which packages or environment a workflow has on this machine."""

from __future__ import annotations

from packaging.requirements import Requirement

from advisor.domain.catalogue import Catalogue
from advisor.domain.machine import Machine
from advisor.domain.workflow import Workflow


def has_stack_in_interpreter(workflow: Workflow, machine: Machine) -> bool:
    """Return whether the interpreter of `--python` has the packages of the workflow."""
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
    """Return the requirements that the interpreter does not satisfy."""
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
    """Return the distributions that any workflow requires or accepts."""
    required = [
        each.requirements for workflow in catalogue.workflows for each in workflow.environments
    ]
    accepted = [
        requirements for workflow in catalogue.workflows for requirements in workflow.accepts
    ]
    return sorted(
        {Requirement(text).name for requirements in [*required, *accepted] for text in requirements}
    )
