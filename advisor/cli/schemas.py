"""The JSON Schemas in `rubric/schema`, which `tests/generate.py` writes, and `--spec`."""

from __future__ import annotations

import inspect
from typing import Any

import msgspec

from advisor.ask.catalogue_files import GpusFile, GuidelinesFile, load
from advisor.ask.run_options import RunOptions
from advisor.decide.comparison import Comparison
from advisor.domain import errors
from advisor.domain.accuracy import AccuracyRules
from advisor.domain.answer import encode
from advisor.domain.catalogue import Models, Presets
from advisor.domain.rubric import Rubric
from advisor.domain.run_events import LoggedEvent
from advisor.domain.run_state import Header
from advisor.domain.serving import ServingRules
from advisor.domain.snippet import Verification
from advisor.domain.version import __version__
from advisor.domain.wire import EVENTS_BY_TAG, describe_event
from advisor.domain.workflow import Workflow
from advisor.report.headline import AnswerDocument
from advisor.store.runs import HistoryEntry

#: Schema name -> the type it describes.
SHIPPED: dict[str, Any] = {
    "run": AnswerDocument,
    "comparison": Comparison,
    "verification": Verification,
    "history": list[HistoryEntry],
    "run-header": Header,
    "event": LoggedEvent,
    "options": RunOptions,
    "criteria": Rubric,
    "workflow": Workflow,
    "models": Models,
    "presets": Presets,
    "gpus": GpusFile,
    "guidelines": GuidelinesFile,
    "accuracy": AccuracyRules,
    "serving": ServingRules,
}
#: What the program writes. In the others, which a user may write, an unknown field is an error.
DOCUMENTS = {"run", "comparison", "verification", "history", "run-header", "event"}
#: Exit codes and their meanings, as in the table of `docs/ci.md`.
EXIT_CODES = {
    "0": "success; after measuring: there is a recommendation, which may be OPEN; `verify`: the "
    "outputs are right, and the code is as fast as measured, or faster",
    "1": "no workflow is viable, a comparison with `--fail-on-regression` or `--fail-on-undecided` "
    "found a regression, `verify` found other outputs or a lower speed-up than measured, or the "
    "program has a defect",
    "2": "usage error (an option, a name, a file or the model), or two runs that are not "
    "comparable",
    "3": "the machine or an environment lacks something, such as a GPU or torch",
    "4": "no answer: the budget was spent before another arm than eager PyTorch was measured, the "
    "machine was not fit to measure on, a figure may or may not meet `--require`, a length of a "
    "mix was not measured, `verify` is undecided, or a comparison is with `--fail-on-undecided`",
    "129": "ended by a hang-up",
    "130": "ended by an interrupt",
    "141": "the reader of the output closed the pipe, as `head` does",
    "143": "ended by a termination signal",
}


def generate(name: str) -> dict[str, Any]:
    reported = EVENTS_BY_TAG.values() if name == "event" else ()
    (schema, *_), definitions = msgspec.json.schema_components(
        [SHIPPED[name], *reported], schema_hook=describe_event
    )
    if name not in DOCUMENTS:
        for each in definitions.values():
            if "properties" in each:
                each["additionalProperties"] = False
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:p3-advisor:schema:{name}",
        **schema,
        "$defs": definitions,
    }


def render(name: str) -> bytes:
    return (
        msgspec.json.format(msgspec.json.encode(generate(name), order="sorted"), indent=2) + b"\n"
    )


def describe_program() -> str:
    """Return, for `--spec`, workflows, criteria, errors and schemas as one JSON document."""
    catalogue = load()
    kinds = [
        kind
        for _, kind in inspect.getmembers(errors, inspect.isclass)
        if kind is not errors.UserError and issubclass(kind, errors.UserError)
    ]
    specification = {
        "schema": "p3-advisor/spec/1",
        "version": __version__,
        "exit_codes": EXIT_CODES,
        "errors": {
            kind.name: {"exit_code": kind.exit_code, "meaning": inspect.getdoc(kind)}
            for kind in kinds
        },
        "workflows": catalogue.workflows,
        "rubric": catalogue.rubric,
        "presets": catalogue.presets,
        "models": catalogue.models,
        "schemas": {name: generate(name) for name in SHIPPED},
    }
    return encode(specification)
