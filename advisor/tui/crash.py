"""What is said when the program itself is defective: where the traceback is. It holds no values of variables: they may be secrets."""

from __future__ import annotations

import pathlib
import traceback

import advisor


def report(error: BaseException, directory: pathlib.Path, moment: str) -> str:
    """Write what happened into a file of `directory`; return the lines for the terminal."""
    written = "".join(traceback.format_exception(error))
    file = directory / f"crash-{moment}.txt"
    lines = [f"p3-advisor {advisor.__version__} has ended because of a defect of its own: {type(error).__name__}."]
    try:
        directory.mkdir(parents=True, exist_ok=True)
        file.write_text(f"p3-advisor {advisor.__version__}\n\n{written}", encoding="utf-8")
    except OSError:
        return "\n".join([*lines, written])
    return "\n".join([*lines, f"What happened is in {file}", "What was measured is kept: p3-advisor resume goes on."])
