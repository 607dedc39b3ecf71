"""Serve a GGUF file over HTTP with the server inside llama.cpp's bindings, until it is killed.

Usage: `python llama_cpp_server.py '{"file": ..., "port": ..., "slots": ..., "context": ...,
"threads": ..., "cache": "F32"}'`. It runs in a process of its own and imports only the bindings.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from typing import Any

#: As in `probes.workflows.llama_cpp`, before the import.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
import xllamacpp

LOG_LEVEL = 2


def parameters_of(options: dict[str, Any]) -> Any:
    """Return the parameters: continuous batching over the slots, and no prefix caching."""
    parameters = xllamacpp.CommonParams()
    parameters.model.path = options["file"]
    parameters.hostnames, parameters.port = ["127.0.0.1"], options["port"]
    parameters.n_parallel = options["slots"]
    parameters.n_ctx = options["slots"] * options["context"]
    parameters.cont_batching = True
    parameters.fit_params = False
    parameters.cache_ram_mib = 0
    cache_type = getattr(xllamacpp.ggml_type, f"GGML_TYPE_{options['cache']}")
    parameters.cache_type_k = parameters.cache_type_v = cache_type
    if options["cache"] == "F32":
        # On a CPU it computes with float16.
        parameters.flash_attn_type = xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED
    for processors in (parameters.cpuparams, parameters.cpuparams_batch):
        processors.n_threads = options["threads"]
    parameters.verbosity = LOG_LEVEL
    return parameters


if __name__ == "__main__":
    engine = xllamacpp.Server(parameters_of(json.loads(sys.argv[1])))
    signal.pause()
