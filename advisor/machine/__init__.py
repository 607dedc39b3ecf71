"""Stage: detect the processor, the GPUs and the interpreter -> `Machine`; no stack is imported."""
