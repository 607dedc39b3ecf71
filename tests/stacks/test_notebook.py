from __future__ import annotations

import pathlib

import nbformat
from stacks import notebook

ONNXRUNTIME = '"onnxruntime-cpu/host"'
#: Makes the interface use simulated workflows.
SIMULATE = """
import dataclasses, pathlib
from advisor import api

context = dataclasses.replace(
    api.Context.of_process(),
    probes=pathlib.Path({probes!r}),
    catalogue_directory=pathlib.Path({catalogue!r}),
)
api.Context.of_process = lambda: context
"""


def outputs(cell: nbformat.NotebookNode) -> list[str]:
    return [output["data"].get("text/html", "") for output in cell["outputs"] if "data" in output]


def test_the_notebook_runs_in_a_kernel(
    tmp_path: pathlib.Path, fake_probes: pathlib.Path, fake_catalogue: pathlib.Path
) -> None:
    made = notebook.read()
    question = made.cells[2]
    assert ONNXRUNTIME in question.source
    # One worker process of a second.
    asked = {ONNXRUNTIME: "", "batch_sizes=(4,)": "budget='1s', all_arms=True, batch_sizes=(1, 4)"}
    for old, new in asked.items():
        question.source = question.source.replace(old, new)
    simulate = SIMULATE.format(probes=str(fake_probes), catalogue=str(fake_catalogue))
    made.cells.insert(1, nbformat.v4.new_code_cell(simulate))
    _, _, _, run, frame, decided = notebook.execute(made, tmp_path).cells
    progress, summary = outputs(run)
    assert "<progress" in progress
    assert "pytorch-eager" in summary
    assert "<table" in summary
    assert "pytorch-eager" in outputs(frame)[0]
    assert decided["outputs"]


def test_the_shipped_notebook_was_executed() -> None:
    shipped = nbformat.read(notebook.FILE, as_version=4)
    assert all(cell.get("outputs", True) for cell in shipped.cells[2:])
    assert str(pathlib.Path.home()) not in notebook.FILE.read_text(encoding="utf-8")
