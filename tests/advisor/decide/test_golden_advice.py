"""Golden files of whole results: plans, tiers and recommendations with all their texts.

`--update-goldens` writes the golden files again; review the difference before you commit it.
"""

from __future__ import annotations

import functools
from typing import Any

import builders
import built_answers
import built_measurements
import msgspec
import pytest
from golden_files import Expect

from advisor.domain.constraints import Constraint
from advisor.domain.measurement import (
    BuildSeconds,
    CallSeconds,
    Interval,
    Measurement,
    MemoryBytes,
    Throughput,
)
from advisor.domain.workflow import Environment

OWN = Environment(kind="own", requirements=("elsewhere==1.0",))


def measured(
    arm: str,
    speedup: float,
    *,
    build: float = 3.0,
    warm: float | None = None,
    peak: int = 60,
    **changes: Any,
) -> Measurement:
    seconds = 0.08 / speedup
    cells = tuple(
        built_measurements.cell(
            size=size,
            seconds=CallSeconds(median=seconds * size, low=None, high=None, samples=9),
            throughput=Throughput(value=1 / seconds, unit="tokens/s"),
            speedup=Interval(value=speedup, low=speedup * 0.95, high=speedup * 1.05),
        )
        for size in (1, 4)
    )
    return builders.measurement(
        arm,
        speedup=speedup,
        low=speedup * 0.95,
        cells=cells,
        build_seconds=BuildSeconds(cold=build, warm=warm),
        memory_bytes=MemoryBytes(peak=peak, source="a test"),
        **changes,
    )


KNOWN = builders.catalogue(
    builders.workflow(
        "compiled",
        deployment_steps=("keep the cache",),
        declared=builders.declared(new_shapes="recompiles", lines_changed=2),
    ),
    builders.workflow(
        "alike", declared=builders.declared(new_shapes="recompiles", lines_changed=2)
    ),
    builders.workflow(
        "engine",
        environment=OWN,
        declared=builders.declared(
            lines_changed=40,
            export_step=True,
            vendors=1,
            artefact_scope="gpu-model",
            architectures="listed",
        ),
    ),
)
GPU_MACHINE = builders.gpu_machine(builders.gpu(memory_bytes=100))
MEASURED = (
    measured(builders.BASELINE, 1.0, build=0.5),
    measured("compiled", 1.5, build=30.0, warm=2.0, peak=90),
    measured("alike", 1.5, build=40.0, new_shapes="served"),
    measured("engine", 3.0, build=1000.0, peak=95),
)
CHECK = built_measurements.sustained(
    arms=("compiled", "engine"),
    burst_ratio=0.5,
    sustained_ratio=0.6,
    agrees=False,
    joules_per_call={"compiled": 14.4, "engine": None},
)


@functools.cache
def question_of(case: str) -> Any:
    cases: dict[str, dict[str, Any]] = {
        "balanced": {"requests": 5000, "price_per_hour": 3.6},
        "serving": {"priorities": builders.priorities(80, 10, 10), "task": "generate"},
        "bound": {
            "priorities": builders.priorities(80, 10, 10),
            "constraints": (
                Constraint(criterion="portability", at_least=2),
                Constraint(criterion="productivity", at_least=3),
            ),
        },
    }
    return builders.question(
        **{"device": "cuda", "gpu": "GPU-0000", "batch_sizes": (1, 4), **cases[case]}
    )


@pytest.mark.parametrize("case", ["balanced", "serving", "bound"])
@pytest.mark.parametrize("noise", [0.03, 0.4], ids=["steady", "noisy"])
def test_tiers_and_recommendations_match_their_golden_files(
    case: str, noise: float, expect: Expect
) -> None:
    results = built_measurements.raced(*MEASURED, noise_floor=noise, sustained=CHECK)
    asked = question_of(case)
    head = builders.header(question=asked, machine=GPU_MACHINE, catalogue=KNOWN)
    left_out = [
        builders.unmeasured("absent", fix="make it"),
        builders.unmeasured("vllm", status="unsupported", reason="no", fix=None),
        builders.unmeasured("unfixed", fix=None),
    ]
    answer = built_answers.answer_of(results, head, unmeasured=tuple(left_out))
    if noise == 0.03:
        expect(f"tiers-{case}", answer.scores)
    advice = msgspec.to_builtins(answer.recommendation)
    headline = {"headline": built_answers.headline(answer)}
    expect(f"advice-{case}-{noise:g}", headline | advice)
