"""Find the environment of the program that sends requests to servers."""

from __future__ import annotations

from advisor.domain.catalogue import Catalogue
from advisor.domain.machine import Machine
from advisor.errors import EnvironmentNotUsableError, NoStackError


def find_interpreter(catalogue: Catalogue, machine: Machine) -> str:
    """Return the interpreter of the load generator.

    Raise `EnvironmentNotUsableError` where its environment is missing or does not work.
    """
    names = [each.load_generator.name for each in catalogue.workflows if each.load_generator]
    if not names:
        raise NoStackError(
            "the catalogue has no workflow with a load generator", "restore rubric/workflows.toml"
        )
    created = machine.environments.get(names[0])
    if created is None or created.fault:
        problem = created.fault if created else "it has not been created"
        raise EnvironmentNotUsableError(
            f"the environment {names[0]}, which sends the requests, cannot be used: {problem}",
            f"p3-advisor env create {names[0]}",
        )
    return created.python
