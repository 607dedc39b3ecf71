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

#: The engine's threads meet several times in each layer. If they spin there and share a processor,
#: as in builds side by side, a call of 0.05 seconds takes 3. The runtime reads this when it loads.
WAIT_POLICY = ("OMP_WAIT_POLICY", "passive")
os.environ.setdefault(*WAIT_POLICY)
import xllamacpp  # noqa: E402

#: Errors and warnings; the next level writes several lines for each prompt.
LOG_LEVEL = 2


def parameters_of(options: dict[str, Any]) -> Any:
    """Return the engine's parameters: continuous batching over the slots, and no prefix caching."""
    parameters = xllamacpp.CommonParams()
    parameters.model.path = options["file"]
    parameters.n_parallel = options["slots"]
    parameters.n_ctx = options["slots"] * options["context"]
    parameters.cont_batching = True
    parameters.fit_params = False
    parameters.cache_ram_mib = 0
    cache_type = getattr(xllamacpp.ggml_type, f"GGML_TYPE_{options['cache']}")
    parameters.cache_type_k = parameters.cache_type_v = cache_type
    if options["cache"] == "F32":
        # On a CPU it computes with float16: log probabilities are off by 6e-4 instead of 2e-6.
        parameters.flash_attn_type = xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED
    for processors in (parameters.cpuparams, parameters.cpuparams_batch):
        processors.n_threads = options["threads"]
    parameters.verbosity = LOG_LEVEL
    return parameters


if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    served = parameters_of(given)
    served.hostnames, served.port = ["127.0.0.1"], given["port"]
    engine = xllamacpp.Server(served)
    signal.pause()
