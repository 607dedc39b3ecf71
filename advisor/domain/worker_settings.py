"""Settings of the workers of a run: environment variables, threads and request fields."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from advisor.domain.accuracy import AccuracyRules
from advisor.domain.machine import Machine
from advisor.domain.plan import Arm
from advisor.domain.question import Question
from advisor.domain.workflow import EngineMemory

#: Variables with the number of threads, so that all libraries use the same number.
THREAD_COUNTS = (
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "NPROC",
    "TVM_NUM_THREADS",
)
#: Without it JAX reserves three quarters of the GPU's memory, which other resident workers need.
MEMORY_ON_DEMAND = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
#: Rules of accuracy that workers do not use.
UNUSED_RULES = {"source", "quantised", "losses"}
#: Wall time of one timed block of calls.
BLOCK_SECONDS = 0.05


def thread_count(machine: Machine) -> int:
    """Return the number of threads of each arm on the CPU: the physical cores."""
    return machine.cpu.physical_cores


def worker_task(question: Question) -> str:
    """Return the task as workers know it: the texts of a server are generated like any other."""
    return "generate" if question.task == "serve" else question.task


def measured_fields(
    question: Question,
    arm: Arm,
    threads: int,
    accuracy: AccuracyRules,
    engine_memory: Mapping[str, EngineMemory],
) -> dict[str, Any]:
    """Return the fields of a worker's request that decide what it measures, as JSON values.

    The names and their order are those of `probes.protocol.Request`. `engine_memory` is by
    workflow.
    """
    return {
        "arm": arm.id,
        "options": arm.options,
        "subject": msgspec.to_builtins(question.model),
        "dtype": question.dtype,
        "device": question.device,
        "batch_sizes": list(question.batch_sizes),
        "input_tokens": question.input_tokens,
        "seed": question.seed,
        "threads": threads,
        "trust_remote_code": question.trust_remote_code,
        "allow_pickle": question.allow_pickle,
        "block_seconds": BLOCK_SECONDS,
        "accuracy": accuracy_thresholds(
            accuracy.with_tolerance(question.accuracy)
            if arm.numerics == "native"
            else accuracy.for_quantised_weights()
        ),
        "task": worker_task(question),
        "output_tokens": question.output_tokens,
        "lengths": [
            list(question.pair_of(each)) for each in question.lengths if len(question.lengths) > 1
        ],
        "engine_memory": _memory_of(engine_memory.get(arm.workflow)),
    }


def _memory_of(memory: EngineMemory | None) -> dict[str, Any]:
    """Return the memory that an engine gets, without its source; empty for no engine."""
    values = msgspec.structs.asdict(memory) if memory else {}
    return {name: value for name, value in values.items() if name != "source"}


def accuracy_thresholds(rules: AccuracyRules) -> dict[str, Any]:
    """Return the thresholds that workers use, as JSON values."""
    values: dict[str, Any] = msgspec.to_builtins(rules)
    return {name: value for name, value in values.items() if name not in UNUSED_RULES}
