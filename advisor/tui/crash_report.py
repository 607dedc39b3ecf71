"""Write a report of an unexpected exception.

The report contains no values of variables, because they could be secrets.
"""

from __future__ import annotations

import traceback

from advisor.context import Context
from advisor.errors import DefectError
from advisor.store.store import default_home
from advisor.version import __version__


def write_crash_report(error: BaseException, context: Context) -> DefectError:
    """Write the traceback to a file in the user's directory; return the error to show."""
    directory = default_home(context.environment)
    file = directory / f"crash-{context.now():%Y%m%d-%H%M%S}.txt"
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
