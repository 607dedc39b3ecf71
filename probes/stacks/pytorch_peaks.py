"""How fast this device can be: memory bandwidth and matrix products, measured with PyTorch rather than read off a data sheet."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import torch

from probes.protocol import Peaks
from probes.stacks.pytorch import synchronise

#: Bytes of the copy: far beyond any cache on a GPU; less on a processor, where memory and patience
#: are shorter.
COPY_BYTES = {"cuda": 2 << 30, "cpu": 256 << 20}
MATRIX_SIZE = {"cuda": 8192, "cpu": 1024}
SECONDS_EACH = 0.3
FEWEST_RUNS = 3
#: A copy reads every byte and writes it.
TRAFFIC_PER_BYTE = 2
MATRIX_TYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}


def measure(device: str, dtype: str) -> Peaks:
    """Return bytes moved and operations done in a second, each from the fastest of several runs: a peak is a maximum.

    Products are measured in `dtype` alone, as a processor without instructions for it takes seconds
    for each; a model's own precision, which is not known here, has no peak.
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
    return moved / fastest(lambda: target.copy_(source))


def matrix_peak(device: str, dtype: torch.dtype) -> float:
    """Return the operations a second of a square product in `dtype`, on random values: zeros draw less power and clock higher."""
    size = MATRIX_SIZE[device]
    one, two = (torch.randn(size, size, device=device).to(dtype) for _ in range(2))
    return float(2 * size**3 / fastest(lambda: one @ two))


def fastest(work: Callable[[], object]) -> float:
    """Return the median of the faster half of the runs that fit into the time."""
    work()
    synchronise()
    times: list[float] = []
    end = time.perf_counter() + SECONDS_EACH
    while len(times) < FEWEST_RUNS or time.perf_counter() < end:
        start = time.perf_counter()
        work()
        synchronise()
        times.append(time.perf_counter() - start)
    return statistics.median(sorted(times)[: max(len(times) // 2, 1)])
