"""Measure the device's peak memory bandwidth and arithmetic rate with PyTorch."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import torch

from probes.stacks.pytorch import synchronise
from probes.wire.events import Peaks

#: Size of the copy: far larger than any cache on a GPU, smaller on a CPU to save memory and time.
COPY_BYTES = {"cuda": 2 << 30, "cpu": 256 << 20}
MATRIX_SIZE = {"cuda": 8192, "cpu": 1024}
SECONDS_PER_PEAK = 0.3
MIN_RUNS = 3
#: A copy reads every byte and writes it.
TRAFFIC_PER_BYTE = 2
MATRIX_TYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}


def measure(device: str, dtype: str) -> Peaks:
    """Return the bytes moved and operations done a second, each from the faster half of the runs.

    Products are measured in `dtype` only, because a CPU without instructions for another precision
    takes seconds for each product. `native` has no peak: the model's precision is not known here.
    """
    return Peaks(
        copy_peak(device),
        {dtype: matrix_peak(device, MATRIX_TYPES[dtype])} if dtype in MATRIX_TYPES else {},
    )


def copy_peak(device: str) -> float:
    """Return the bytes a second that a copy within the device's memory moves."""
    source = torch.ones(COPY_BYTES[device], dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    moved: int = TRAFFIC_PER_BYTE * source.numel()
    return moved / median_of_faster_half(lambda: target.copy_(source))


def matrix_peak(device: str, dtype: torch.dtype) -> float:
    """Return the operations a second of a square matrix product in `dtype`.

    The values are random: zeros draw less power, so the device would clock higher.
    """
    size = MATRIX_SIZE[device]
    one, two = (torch.randn(size, size, device=device).to(dtype) for _ in range(2))
    return float(2 * size**3 / median_of_faster_half(lambda: one @ two))


def median_of_faster_half(work: Callable[[], object]) -> float:
    """Repeat `work` for `SECONDS_PER_PEAK`; return the median seconds of the faster half."""
    work()
    synchronise()
    times: list[float] = []
    end = time.perf_counter() + SECONDS_PER_PEAK
    while len(times) < MIN_RUNS or time.perf_counter() < end:
        start = time.perf_counter()
        work()
        synchronise()
        times.append(time.perf_counter() - start)
    return statistics.median(sorted(times)[: max(len(times) // 2, 1)])
