"""Timing, warm-up detection, profiling and new-shape tests. Takes callables; knows no stack."""
