import json
import pathlib

#: Known flags of each target; IREE refuses an unknown CUDA target.
KNOWN = {
    "llvm-cpu": {"--iree-llvmcpu-target-cpu=host"},
    "cuda": {f"--iree-cuda-target=sm_{each}" for each in (80, 86, 89, 120)},
}


class CompilerToolError(Exception):
    pass


def compile_file(file, *, input_type, target_backends, extra_args):
    (target,) = target_backends
    if not KNOWN[target] & set(extra_args):
        raise CompilerToolError(f"{file}: error: missing GPU target in #hal.executable.target")
    made = {
        "target": target,
        "flags": extra_args,
        "input_type": input_type,
        "parameters": pathlib.Path(file).read_text(),
    }
    return json.dumps(made).encode()
