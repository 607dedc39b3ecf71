"""The import path of the Python processes that the advisor starts.

`python -c` and `python -m` import from the current directory first, and so does an empty entry in
`PYTHONPATH`. A cloned model repository may contain a `json.py` or a `torch` directory.
"""

from __future__ import annotations

import os
import pathlib
import sys
from collections.abc import Mapping

PYTHON_PATH = "PYTHONPATH"
#: Makes Python 3.11 and later leave the current directory and the script's out of the path.
SAFE_PATH = {"PYTHONSAFEPATH": "1"}
#: First line of a program for `python -c`; before Python 3.11 nothing else removes the directory.
WITHOUT_CURRENT_DIRECTORY = "import sys; sys.path = [*filter(None, sys.path)]\n"
_START = f"""{WITHOUT_CURRENT_DIRECTORY}
sys.path.insert(0, sys.argv.pop(1))
from advisor.cli.command_line import main
main()
"""
#: Starts this program in a process of its own, with the directory of this installation first in the
#: path; its environment is `without_current_directory`.
ADVISOR_COMMAND = (sys.executable, "-c", _START, str(pathlib.Path(__file__).parents[2]))


def without_current_directory(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables with `SAFE_PATH`, and with a `PYTHONPATH` of absolute paths.

    An empty entry of `PYTHONPATH`, which a leading or trailing colon makes, is dropped. A directory
    that the user named stays.
    """
    entries = [each for each in environment.get(PYTHON_PATH, "").split(os.pathsep) if each]
    absolute = os.pathsep.join(str(pathlib.Path(each).absolute()) for each in entries)
    others = {name: value for name, value in environment.items() if name != PYTHON_PATH}
    return {**others, **({PYTHON_PATH: absolute} if absolute else {}), **SAFE_PATH}
