"""What is said when the program itself is defective: where the traceback is.

It holds no values of variables: they may be secrets.
"""

from __future__ import annotations

import pathlib
import traceback

import advisor
from advisor.errors import DefectError


def report(error: BaseException, directory: pathlib.Path, moment: str) -> DefectError:
    """Write what happened into a file of `directory`; return what to tell the user."""
    file = directory / f"crash-{moment}.txt"
    what = f"it has ended because of a defect of its own, {type(error).__name__}"
    try:
        directory.mkdir(parents=True, exist_ok=True)
        file.write_text(
            f"p3-advisor {advisor.__version__}\n\n{''.join(traceback.format_exception(error))}",
            encoding="utf-8",
        )
    except OSError as problem:
        return DefectError(
            f"{what}; no report could be written to {file}: {problem.strerror}",
            "p3-advisor resume goes on with a run",
        )
    return DefectError(
        f"{what}; what happened is in {file}",
        "report it with that file; p3-advisor resume goes on with a run",
    )
