"""Write a quantised copy of the run's checkpoint with llm-compressor, in an interpreter of its own.

llm-compressor and vLLM each pin one version of compressed-tensors, so they are rarely in the same
environment. The checkpoint is only files. The other interpreter gets the source of the functions
that it runs, so that scripts for users need no second file.
"""

from __future__ import annotations

import inspect
import json
import os
import pathlib
import subprocess
import sys
from typing import Any

from probes.adapter import Request, UnsupportedError
from probes.files import replace_when_complete
from probes.subjects.checkpoint import EngineSubject

#: Variables with import paths of this worker's interpreter, which are not the other one's.
IMPORT_PATHS = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "CONDA_PREFIX")
#: The weights are rounded on the CPU: other arms may be building on the GPU. All files are local.
VARIABLES = {"CUDA_VISIBLE_DEVICES": "", "HF_HUB_OFFLINE": "1"}
#: Weights of a row that share one scale; in other schemes it is the whole row.
GROUP_SIZES = {"W4A16": 128}
#: The layer before the logits stays as it is.
KEPT_LAYER = "lm_head"
#: Types that an engine may store the weights of each scheme in. Four bits are packed in integers.
STORED_TYPES = {
    "W8A8": ("int8",),
    "W4A16": ("int32", "uint8"),
    "FP8_DYNAMIC": ("float8_e4m3fn", "float8_e4m3fnuz"),
}


def quantised_folder(subject: EngineSubject, request: Request) -> pathlib.Path:
    """Write the checkpoint once; raise `UnsupportedError` if model or GPU do not fit the scheme."""
    scheme = request.options["scheme"]
    if scheme == "FP8_DYNAMIC" and request.device == "cuda":
        import torch  # noqa: PLC0415

        major, minor = torch.cuda.get_device_capability()
        if (major, minor) < (8, 9):
            message = f"float8 needs compute capability 8.9, and this GPU has {major}.{minor}"
            raise UnsupportedError(message)
    folder = pathlib.Path(request.scratch_directory) / f"checkpoint-{scheme.lower()}"
    if not folder.exists():
        with replace_when_complete(folder) as partial:
            write_checkpoint(subject.folder, partial, request)
    return folder


def write_checkpoint(source: pathlib.Path, target: pathlib.Path, request: Request) -> None:
    """Quantise in the other interpreter; it ends with this process's group, as at a deadline."""
    scheme = request.options["scheme"]
    task = {
        "source": str(source),
        "target": str(target),
        "scheme": scheme,
        "group": GROUP_SIZES.get(scheme, 1),
        "kept": KEPT_LAYER,
        "trust_remote_code": request.trust_remote_code,
    }
    functions = (read_row_lengths, quantise, answer_task)
    sources = "\n\n".join(inspect.getsource(function) for function in functions)
    program = f"from __future__ import annotations\n\n{sources}\n\n{answer_task.__name__}()\n"
    # Another interpreter does not get the import paths of this one.
    inherited = {
        name: value
        for name, value in os.environ.items()
        if request.quantiser == sys.executable or name not in IMPORT_PATHS
    }
    # Its standard output is the answer; all other output goes to this worker's log.
    process = subprocess.run(  # noqa: S603 - an argument list, no shell
        [request.quantiser, "-c", program, json.dumps(task)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        env={**inherited, **VARIABLES},
        check=False,
    )
    answer = json.loads(process.stdout or "{}")
    if answer.get("unsupported"):
        raise UnsupportedError(answer["unsupported"])
    if process.returncode or "written" not in answer:
        reason = answer.get("failed", f"it ended with status {process.returncode}")
        raise RuntimeError(f"llm-compressor wrote no checkpoint: {reason}")


def answer_task() -> None:
    import json  # noqa: PLC0415 - the other interpreter has only the source of this function
    import os  # noqa: PLC0415
    import sys  # noqa: PLC0415

    stdout = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def report_failure(kind: Any, problem: Any, trace: Any) -> None:
        sys.__excepthook__(kind, problem, trace)
        stdout.write(json.dumps({"failed": " ".join(f"{kind.__name__}: {problem}".split())[:400]}))
        stdout.flush()

    sys.excepthook = report_failure
    stdout.write(json.dumps(quantise(json.loads(sys.argv[1]))))
    stdout.flush()


def quantise(task: dict[str, Any]) -> dict[str, Any]:
    """Write the quantised checkpoint, unless the scheme does not fit the shapes of the model."""
    for name, length in read_row_lengths(task) if task["group"] > 1 else ():
        if length % task["group"]:
            reason = (
                f"{task['scheme']} has one scale for {task['group']} weights of a row, "
                f"and the rows of {name} have {length}, which is not a multiple of that"
            )
            return {"unsupported": reason}
    from llmcompressor import oneshot  # noqa: PLC0415 - only the other interpreter has it
    from llmcompressor.modifiers.quantization import QuantizationModifier  # noqa: PLC0415

    oneshot(
        model=task["source"],
        recipe=QuantizationModifier(targets="Linear", scheme=task["scheme"], ignore=[task["kept"]]),
        output_dir=task["target"],
        trust_remote_code_model=task["trust_remote_code"],
    )
    return {"written": task["target"]}


def read_row_lengths(task: dict[str, Any]) -> list[tuple[str, int]]:
    """Return each linear layer that is quantised with its inputs; no weights are read."""
    import torch  # noqa: PLC0415 - as above
    import transformers  # noqa: PLC0415

    trusted = {"trust_remote_code": task["trust_remote_code"]}
    config = transformers.AutoConfig.from_pretrained(task["source"], **trusted)
    with torch.device("meta"):
        model = transformers.AutoModelForCausalLM.from_config(config, **trusted)
    return [
        (name, module.in_features)
        for name, module in model.named_modules()
        if isinstance(module, torch.nn.Linear) and name != task["kept"]
    ]


def integration_lines(scheme: str) -> str:
    return f'''\
import subprocess

QUANTISE = """
import sys

from llmcompressor import oneshot
from llmcompressor.modifiers.quantization import QuantizationModifier

scheme = QuantizationModifier(targets="Linear", scheme="{scheme}", ignore=["{KEPT_LAYER}"])
oneshot(model=sys.argv[1], recipe=scheme, output_dir="quantised")
"""
subprocess.run(["llm-compressor/bin/python", "-c", QUANTISE, CHECKPOINT], check=True)  # once, in an environment with llmcompressor
'''  # noqa: E501 - the lines are counted, so they are not wrapped
