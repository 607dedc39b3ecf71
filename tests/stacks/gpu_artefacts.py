"""Build engines in one process, load them in another, and print the difference of the outputs.

Run `python tests/stacks/gpu_artefacts.py`; it needs a GPU, TensorRT for RTX and Torch-TensorRT.
"""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys
import tempfile
from typing import Any

HERE = pathlib.Path(__file__).parent
sys.path[:0] = [str(HERE.parents[1]), str(HERE.parent)]


def save_or_load(step: str, workflow: str, directory: str) -> None:
    """Build and save, or load, a small model with one workflow; write its output.

    It runs in its own process.
    """
    import importlib  # noqa: PLC0415 - only this process needs it

    import numpy as np  # noqa: PLC0415

    module = importlib.import_module(f"probes.workflows.{workflow}")
    folder = pathlib.Path(directory)
    request = make_request(folder)
    module.settings(request)
    opened = module.open_subject(request)
    inputs = opened.inputs(4, 0)
    file = folder / "saved.pt2"
    if workflow == "torch_tensorrt" and step == "load":
        device_inputs = opened.tensors(inputs)
        loaded = module.TorchProgram(opened, module.load(file))
        arrays = loaded.collect(loaded(device_inputs))
    else:
        # The adapter of TensorRT saves every engine, and loads a saved one.
        program = module.build(opened, inputs, request)
        device_inputs = program.feed(inputs)
        output = program(device_inputs)
        module.synchronise()
        arrays = program.collect(output)
        if workflow == "torch_tensorrt":
            module.save(program.call, device_inputs, file)
    np.save(folder / f"{step}.npy", arrays[0])


def make_request(folder: pathlib.Path) -> Any:
    """Return a request for a small feed-forward block on a GPU."""
    import workers  # type: ignore[import-not-found, unused-ignore]  # noqa: PLC0415

    return workers.make_request(
        folder / "none.py",
        folder,
        subject={
            "kind": "synthetic",
            "block": "ffn",
            "hidden": 256,
            "intermediate": 512,
            "layers": 1,
            "heads": 1,
        },
        batch_sizes=[4],
        dtype="bfloat16",
        device="cuda",
        scratch_directory=str(folder),
    )


def compare_outputs() -> dict[str, Any]:
    """Return the largest output and the largest difference after loading, by workflow."""
    import numpy as np  # noqa: PLC0415 - only this needs it

    found = {}
    directories = {name: tempfile.mkdtemp() for name in ("tensorrt_rtx", "torch_tensorrt")}
    for step in ("save", "load"):
        running = [
            subprocess.Popen([sys.executable, __file__, step, *each])
            for each in directories.items()
        ]
        assert [process.wait() for process in running] == [0, 0]
    for name, directory in directories.items():
        one, other = (np.load(pathlib.Path(directory) / f"{step}.npy") for step in ("save", "load"))
        found[name] = {
            "largest": float(abs(one).max()),
            "largest_difference": float(abs(one - other).max()),
        }
    return found


if __name__ == "__main__":
    if sys.argv[1:]:
        save_or_load(*sys.argv[1:])
    else:
        print(json.dumps(compare_outputs(), indent=1))  # noqa: T201
