"""Write a report of an unexpected exception.

The report contains no values of variables, because they could be secrets.
"""

from __future__ import annotations

import pathlib
import traceback

from advisor.errors import DefectError
from advisor.version import __version__


def write_crash_report(
    error: BaseException, directory: pathlib.Path, timestamp: str
) -> DefectError:
    """Write the traceback to `crash-TIMESTAMP.txt` and return the error to show to the user."""
    file = directory / f"crash-{timestamp}.txt"
    what = f"p3-advisor has crashed because of an internal error, {type(error).__name__}"
    try:
        directory.mkdir(parents=True, exist_ok=True)
        file.write_text(
            f"p3-advisor {__version__}\n\n{''.join(traceback.format_exception(error))}",
            encoding="utf-8",
        )
    except OSError as problem:
        return DefectError(
            f"{what}; the report could not be written to {file}: {problem.strerror}",
            "p3-advisor resume continues the run",
        )
    return DefectError(
        f"{what}; the traceback is in {file}",
        "report it with that file; p3-advisor resume continues the run",
    )
