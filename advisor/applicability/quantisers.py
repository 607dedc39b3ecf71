"""Find the interpreter that writes the quantised checkpoint of an arm."""

from __future__ import annotations

import msgspec

from advisor.applicability.installation import missing_packages
from advisor.domain.environment import Environment
from advisor.domain.machine import Machine
from advisor.domain.plan import Arm, Excluded
from advisor.domain.workflow import Workflow


def with_quantiser(workflow: Workflow, arm: Arm, machine: Machine) -> Arm | None:
    """Return the arm with the interpreter that writes its checkpoint; None if it is missing."""
    environment = workflow.arm_quantiser.get(arm.option)
    if environment is None:
        return arm
    python = quantiser_interpreter(environment, machine)
    return msgspec.structs.replace(arm, quantiser=python) if python else None


def quantiser_interpreter(environment: Environment, machine: Machine) -> str:
    """Return an interpreter with the packages that write checkpoints; empty for none.

    It is the interpreter of `--python` if that has them, else the one of the created environment.
    """
    if not missing_packages(environment.requirements, machine):
        return machine.software.executable
    created = machine.environments.get(environment.name)
    return created.python if created is not None and created.fault is None else ""


def missing_quantiser(workflow: Workflow, arm: Arm, machine: Machine) -> Excluded:
    """Return why nothing writes the arm's checkpoint, and the command that creates what does."""
    name = workflow.arm_quantiser[arm.option].name
    created = machine.environments.get(name)
    problem = (
        f"does not work: {created.fault}"
        if created is not None and created.fault
        else "has not been created"
    )
    return Excluded(
        workflow=arm.id,
        status="not-installed",
        reason=f"the environment {name}, which writes its checkpoint, {problem}",
        fix=f"p3-advisor env create {name}",
    )
