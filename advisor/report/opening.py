"""Open answers by name: of a stored run, or of a file that `--json` wrote."""

from __future__ import annotations

import os
import pathlib
import shlex

import msgspec

from advisor.ask import rubric_files
from advisor.decide.decision import decide, decide_again
from advisor.domain.answer import PUBLISHED, SCHEMA, Answer
from advisor.domain.constraints import Constraint
from advisor.domain.priorities import Priorities
from advisor.domain.wire import check_bounds
from advisor.errors import ExportFileError
from advisor.store.decoders import DECODING, refuse_newer
from advisor.store.store import Store

SUFFIX = ".json"


def is_file(name: str) -> bool:
    """Check whether `name` is a file with an answer rather than a stored run."""
    return name.endswith(SUFFIX) and os.path.isfile(name)  # noqa: PTH113 - too long a name is none


def open_answer(
    name: str,
    store: Store,
    *,
    priorities: Priorities | None = None,
    constraints: tuple[Constraint, ...] | None = None,
    rubric: pathlib.Path | None = None,
) -> Answer:
    """Return the answer of a stored run or of a file, decided with the present rubric.

    An answer from published figures is returned as it is; it has no measurements to decide on.
    Raise `ExportFileError` for a file that is not an answer.
    """
    if not is_file(name):
        return decide(
            store.find(name), priorities=priorities, constraints=constraints, rubric=rubric
        )
    answer = read_answer(name)
    if answer.run_id == PUBLISHED and (priorities, constraints, rubric) == (None, None, None):
        return answer
    again = decide_again(
        answer,
        rubric_files.load(rubric=rubric),
        priorities=priorities,
        constraints=constraints,
    )
    # The run need not be stored here, so its id may open nothing.
    command = again.rerun_command or f"p3-advisor show {shlex.quote(name)} --json"
    return msgspec.structs.replace(again, rerun_command=command)


def read_answer(name: str) -> Answer:
    """Read an answer from a file; raise `ExportFileError` or `NewerVersionError`."""
    next_step = "name a file that p3-advisor --json or show --json wrote"
    try:
        content = pathlib.Path(name).read_bytes()
        refuse_newer(content, SCHEMA, name)
        with DECODING:
            answer = msgspec.json.decode(content, type=Answer)
        check_bounds(answer)
    except OSError as problem:
        raise ExportFileError(f"{name} cannot be read: {problem.strerror}", next_step) from problem
    except (msgspec.DecodeError, ValueError, RecursionError) as problem:
        raise ExportFileError(
            f"{name} is not the answer of a run: {problem}", next_step
        ) from problem
    return answer
