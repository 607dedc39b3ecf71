"""Execute `docs/notebook.ipynb` here and write it: `python tests/stacks/notebook.py [FILE]`.

It measures for less than a minute, on the processor.
"""

from __future__ import annotations

import os
import pathlib
import sys
import tempfile

import nbformat

FILE = pathlib.Path(__file__).parents[2] / "docs" / "notebook.ipynb"
TIMEOUT_SECONDS = 600


def read() -> nbformat.NotebookNode:
    """Return the cells of the notebook without the outputs of their last execution."""
    notebook = nbformat.read(FILE, as_version=4)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.update(outputs=[], execution_count=None)
    return notebook


def execute(notebook: nbformat.NotebookNode, home: pathlib.Path) -> nbformat.NotebookNode:
    """Return the notebook executed in a kernel of this interpreter; its runs are in `home`."""
    from nbclient import NotebookClient  # noqa: PLC0415 - slow, and collecting tests executes none

    environment = {**os.environ, "P3_ADVISOR_HOME": str(home)}
    client = NotebookClient(notebook, timeout=TIMEOUT_SECONDS, kernel_name="python3")
    executed: nbformat.NotebookNode = client.execute(env=environment)
    for cell in executed.cells:
        cell.get("metadata", {}).pop("execution", None)
    return executed


def main() -> None:
    file = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else FILE
    with tempfile.TemporaryDirectory() as home:
        nbformat.write(execute(read(), pathlib.Path(home)), file)


if __name__ == "__main__":
    main()
