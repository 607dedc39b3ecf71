"""Torch-TensorRT's RTX build 2.11, which leaves what it cannot build to PyTorch and logs a line.

`P3_FAKE` chooses the result for a graph: `engine`, `fails` (as for a named precision) or `eager`
(eager code without an error).
"""

import importlib.machinery
import logging
import os
import sys
import types

import torch
import torch._dynamo

__version__ = "2.11.0"
ENABLED_FEATURES = types.SimpleNamespace(tensorrt_rtx=True)
engines = types.ModuleType("tensorrt")
engines.__spec__ = importlib.machinery.ModuleSpec("tensorrt", None)
engines.__version__ = "1.4.0.76"
sys.modules["tensorrt"] = engines


@torch._dynamo.register_backend(name="tensorrt")
def backend(module, inputs, **keywords):
    options = keywords.get("options") or {}
    assert options["disable_tf32"], "float32 products would be rounded"
    if os.environ["P3_FAKE"] == "eager":
        return module
    if os.environ["P3_FAKE"] == "fails" or "enabled_precisions" in options:
        if options.get("pass_through_build_failures"):
            raise RuntimeError("TensorRT-RTX does not support bfloat16!")
        logging.getLogger(__name__).warning(
            "TRT conversion failed on the subgraph. See trace above. "
            "Returning GraphModule forward instead."
        )
        return module

    def run(*arguments):
        with torch.profiler.record_function("tensorrt::execute_engine"):
            return module(*arguments)

    return run
