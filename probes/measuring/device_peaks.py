"""Measure the peak rates of the device through PyTorch: of copies and of matrix products."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import torch

from probes.events import Peaks
from probes.measuring.timing import Calls

#: Size of the copy: far larger than any cache on a GPU, smaller on a CPU to save memory and time.
COPY_BYTES = {"cuda": 2 << 30, "cpu": 256 << 20}
MATRIX_SIZE = {"cuda": 8192, "cpu": 1024}
SECONDS_PER_PEAK = 0.3
MIN_RUNS = 3
MATRIX_TYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}


def measure_peaks(device: str, dtype: str) -> Peaks:
    """Return the bytes that a copy moves and the operations that a square matrix product does.

    Products are measured in `dtype` only, because a CPU without instructions for another precision
    takes seconds for each product. `own` has no peak: the model's precision is not known here.
    """
    source = torch.ones(COPY_BYTES[device], dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    moved = 2 * source.numel()  # a copy reads every byte and writes it
    bytes_per_second = moved / median_of_faster_half(lambda: target.copy_(source))
    if dtype not in MATRIX_TYPES:
        return Peaks(bytes_per_second, {})
    size, kind = MATRIX_SIZE[device], MATRIX_TYPES[dtype]
    # Random values: zeros draw less power, so the device would clock higher.
    one, two = (torch.randn(size, size, device=device).to(kind) for _ in range(2))
    operations = 2 * size**3 / median_of_faster_half(lambda: one @ two)
    return Peaks(bytes_per_second, {dtype: operations})


def _synchronise() -> None:
    if torch.cuda.is_initialized():
        torch.cuda.synchronize()


def median_of_faster_half(work: Callable[[], object]) -> float:
    calls = Calls(lambda _: work(), [None], _synchronise)
    calls.time(None)
    times: list[float] = []
    end = time.perf_counter() + SECONDS_PER_PEAK
    while len(times) < MIN_RUNS or time.perf_counter() < end:
        times.append(calls.time(None))
    return statistics.median(sorted(times)[: max(len(times) // 2, 1)])
