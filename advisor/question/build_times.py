"""`--max-build-times`: time limits for the builds of single workflows."""

from __future__ import annotations

from advisor.domain.catalogue import Catalogue
from advisor.errors import SizeError, UnknownWorkflowError
from advisor.question.constraints import parse_duration


def parse_build_times(text: str, catalogue: Catalogue) -> dict[str, float]:
    """Return the limits in seconds by workflow; raise `UnknownWorkflowError` or `SizeError`."""
    known = {workflow.id for workflow in catalogue.workflows}
    limits = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, separator, duration = (each.strip() for each in part.partition("="))
        if name not in known:
            raise UnknownWorkflowError(f"unknown workflow {name!r}", "see p3-advisor workflows")
        if name in limits or not separator:
            message = f"--max-build-times {text!r} is not one time for each workflow"
            raise SizeError(message, f"write it like {name}=30min")
        limits[name] = parse_duration("--max-build-times", duration)
    return limits
