"""Open runs and run documents by name: a stored run, or a file that `--json` wrote."""

from __future__ import annotations

import pathlib
import shlex

import msgspec

from advisor.catalogue import rubric_files
from advisor.domain.constraints import Constraint
from advisor.domain.priorities import Priorities
from advisor.errors import ExportFileError
from advisor.pipeline.decision import decide
from advisor.report.documents import measured_document, reopened
from advisor.report.documents.document import PUBLISHED, RunDocument
from advisor.store.decoders import DECODING
from advisor.store.store import Store

SUFFIX = ".json"


def is_document(name: str) -> bool:
    """Check whether `name` is a file with a run document rather than a stored run."""
    return name.endswith(SUFFIX) and pathlib.Path(name).is_file()


def open_document(
    name: str,
    store: Store,
    *,
    priorities: Priorities | None = None,
    constraints: tuple[Constraint, ...] | None = None,
    rubric: pathlib.Path | None = None,
) -> RunDocument:
    """Return the document of a stored run or of a file, decided with the present rubric.

    An answer from published figures is returned as it is; it has no measurements to decide on.
    Raise `ExportFileError` for a file that is not a run document.
    """
    if not is_document(name):
        decision = decide(
            store.find(name), priorities=priorities, constraints=constraints, rubric=rubric
        )
        return measured_document.compose(decision)
    document = read_document(name)
    if document.run_id == PUBLISHED and (priorities, constraints, rubric) == (None, None, None):
        return document
    again = reopened.decide_again(
        document,
        rubric_files.load(rubric=rubric),
        priorities=priorities,
        constraints=constraints,
    )
    # The run need not be stored here, so its id may open nothing.
    command = again.rerun_command or f"p3-advisor show {shlex.quote(name)} --json"
    return msgspec.structs.replace(again, rerun_command=command)


def read_document(name: str) -> RunDocument:
    """Read a run document from a file."""
    next_step = "name a file that p3-advisor --json or show --json wrote"
    try:
        with DECODING:
            return msgspec.json.decode(pathlib.Path(name).read_bytes(), type=RunDocument)
    except OSError as problem:
        raise ExportFileError(f"{name} cannot be read: {problem.strerror}", next_step) from problem
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as problem:
        raise ExportFileError(f"{name} is not a run document: {problem}", next_step) from problem
