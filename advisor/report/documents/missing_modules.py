"""Find the command that gives an environment a module which the model imports."""

from __future__ import annotations

from advisor.domain.outcome import Failure, ModelRefused
from advisor.domain.run import Header

ANOTHER_NAME = "or the package that provides this module under another name"


def find_install_step(header: Header, workflow: str, failure: Failure) -> str | None:
    """Return the next step if the model needs a module that its environment does not have."""
    if not isinstance(failure, ModelRefused) or failure.missing_module is None:
        return None
    module = failure.missing_module
    found = next(entry for entry in header.catalogue.workflows if entry.id == workflow)
    chosen = found.for_question(header.question)
    if chosen.environment.kind == "own":
        name = chosen.environment_name
        return f"p3-advisor env create {name} --with {module}, {ANOTHER_NAME}"
    return f"install {module} where the workflow runs, {ANOTHER_NAME}"
