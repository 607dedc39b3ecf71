"""What is built in one process serves in another, on an NVIDIA GPU, as JSON: `python tests/stacks/gpu_artefacts.py`.

Not collected by pytest: it needs the GPU, TensorRT for RTX and Torch-TensorRT.
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


def artefact(step: str, workflow: str, place: str) -> None:
    """In a process of its own: build and save, or load, the small model of one workflow; write its output."""
    import importlib  # noqa: PLC0415 - only this process needs these

    import numpy as np  # noqa: PLC0415
    import workers  # type: ignore[import-not-found, unused-ignore]  # noqa: PLC0415

    module = importlib.import_module(f"probes.workflows.{workflow}")
    folder = pathlib.Path(place)
    subject = {
        "kind": "synthetic",
        "block": "ffn",
        "hidden": 256,
        "intermediate": 512,
        "layers": 1,
        "heads": 1,
    }
    request = workers.make_request(
        folder / "none.py",
        folder,
        subject=subject,
        batch_sizes=[4],
        dtype="bfloat16",
        device="cuda",
        scratch_directory=place,
    )
    module.settings(request)
    opened = module.open_subject(request)
    inputs = opened.inputs(4, 0)
    file = folder / "saved.pt2"
    if workflow == "torch_tensorrt" and step == "load":
        fed = opened.tensors(inputs)
        loaded = module.TorchProgram(opened, module.load(file))
        arrays = loaded.collect(loaded(fed))
    else:
        # TensorRT's own adapter saves every engine, and loads one that lies there.
        program = module.build(opened, inputs, request)
        fed = program.feed(inputs)
        output = program(fed)
        module.synchronise()
        arrays = program.collect(output)
        if workflow == "torch_tensorrt":
            module.save(program.call, fed, file)
    np.save(folder / f"{step}.npy", arrays[0])


def saved() -> dict[str, Any]:
    """Build and save in one process, load in another; return how far the outputs are from each other."""
    import numpy as np  # noqa: PLC0415 - only this needs it

    found = {}
    places = {name: tempfile.mkdtemp() for name in ("tensorrt_rtx", "torch_tensorrt")}
    for step in ("save", "load"):
        running = [
            subprocess.Popen([sys.executable, __file__, step, *each]) for each in places.items()
        ]
        assert [process.wait() for process in running] == [0, 0]
    for name, place in places.items():
        one, other = (np.load(pathlib.Path(place) / f"{step}.npy") for step in ("save", "load"))
        found[name] = {
            "largest": float(abs(one).max()),
            "largest_difference": float(abs(one - other).max()),
        }
    return found


if __name__ == "__main__":
    if sys.argv[1:]:
        artefact(*sys.argv[1:])
    else:
        print(json.dumps(saved(), indent=1))  # noqa: T201
