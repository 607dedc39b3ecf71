"""Write `docs/notebook.ipynb`, executed here: `python tests/stacks/notebook.py [FILE]`.

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
KERNEL = {"name": "python3", "display_name": "Python 3", "language": "python"}
TITLE = """\
# Which way to compile this model?

The cells measure a small model on the processor of this machine. `advisor.recommend` takes a live
module; without it, the name of a model as in `p3-advisor recommend --model`."""
MODEL = """\
import torch

import advisor


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(512, 2048), torch.nn.ReLU(), torch.nn.Linear(2048, 512)
        )

    def forward(self, x):
        return self.layers(x)"""
RUN = """\
run = advisor.recommend(
    Net().eval(),
    inputs=torch.randn(4, 32, 512),
    gpu="cpu",
    batch_sizes=(4,),
    workflows=("pytorch-eager", "onnxruntime-cpu/host"),
)
run"""
FRAME = """\
columns = ["arm", "status", "seconds_median", "seconds_p99", "speedup", "score"]
run.to_dataframe().dropna(subset="rank")[columns]"""
DECIDE = """\
print(run.decide(priorities={"performance": 0, "productivity": 50, "portability": 50}))"""


def make() -> nbformat.NotebookNode:
    """Return the notebook before its execution."""
    cells = [nbformat.v4.new_markdown_cell(TITLE)]
    cells += [nbformat.v4.new_code_cell(source) for source in (MODEL, RUN, FRAME, DECIDE)]
    for number, cell in enumerate(cells):
        cell["id"] = f"cell-{number}"
    return nbformat.v4.new_notebook(
        cells=cells,
        metadata={"kernelspec": KERNEL},
    )


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
    """Execute the notebook and write it."""
    file = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else FILE
    with tempfile.TemporaryDirectory() as home:
        nbformat.write(execute(make(), pathlib.Path(home)), file)


if __name__ == "__main__":
    main()
