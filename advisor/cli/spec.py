"""`--spec`: a description of the program for other programs."""

from __future__ import annotations

import inspect

import msgspec

from advisor import errors, schemas
from advisor.catalogue.rubric_files import load
from advisor.version import __version__


def render() -> str:
    """Return options, workflows, criteria, errors and schemas as one JSON document."""
    catalogue = load()
    kinds = [
        kind
        for _, kind in inspect.getmembers(errors, inspect.isclass)
        if kind is not errors.UserError and issubclass(kind, errors.UserError)
    ]
    specification = {
        "schema": "p3-advisor/spec/1",
        "version": __version__,
        "exit_codes": {
            "0": "recommendation",
            "1": "no recommendation, a regression, or a throughput that was not reproduced",
            "2": "usage",
            "3": "environment",
            "4": "no answer: the budget was spent, the machine unfit, a length of a mix not "
            "measured, or the comparison undecided",
            "129": "hang-up",
            "130": "interrupted",
            "143": "terminated",
        },
        "errors": {
            kind.name: {"exit_code": kind.exit_code, "meaning": inspect.getdoc(kind)}
            for kind in kinds
        },
        "workflows": catalogue.workflows,
        "rubric": catalogue.rubric,
        "presets": catalogue.presets,
        "models": catalogue.models,
        "schemas": {name: schemas.generate(name) for name in schemas.SHIPPED},
    }
    return msgspec.json.format(msgspec.json.encode(specification), indent=2).decode() + "\n"
