"""Runs and run documents by name: a stored run, or a file that `--json` wrote."""

from __future__ import annotations

import pathlib
from typing import TYPE_CHECKING

from advisor.cli.context import open_store

if TYPE_CHECKING:
    from advisor.domain.constraints import Constraint
    from advisor.domain.priorities import Priorities
    from advisor.report.documents.document import RunDocument


def is_document(name: str) -> bool:
    """Check whether `name` is a file with a run document rather than a stored run."""
    from advisor.report.documents import opening

    return opening.is_document(name)


def open_document(
    name: str,
    *,
    priorities: Priorities | None = None,
    constraints: tuple[Constraint, ...] | None = None,
    rubric: pathlib.Path | None = None,
) -> RunDocument:
    """Return the document of a stored run of this user, or of a file."""
    from advisor.report.documents import opening

    return opening.open_document(
        name, open_store(), priorities=priorities, constraints=constraints, rubric=rubric
    )
