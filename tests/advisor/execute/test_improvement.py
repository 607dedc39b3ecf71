"""Code in lower precisions: what is tried on which device, what it gains, and what is kept."""

from __future__ import annotations

import os
import pathlib
import shutil
import types
from typing import TYPE_CHECKING, Any, cast

import builders
import built_answers
import pytest
from recorded_runs import make_run

from advisor.ask.context import Context
from advisor.domain.answer import Answer
from advisor.domain.errors import VerificationError
from advisor.domain.measurement import Interval, Variant
from advisor.domain.model import OnnxModel
from advisor.domain.run_state import RunState
from advisor.domain.snippet import Snippet, SnippetPair
from advisor.execute import improvement
from advisor.probing.snippets import PairedCalls
from advisor.report import text_report
from advisor.report.answer_files import answer_of_run
from advisor.report.answer_lines import short_answer_lines
from advisor.report.snippet_results import render_breaks
from advisor.store.store import Store
from probes.events import Opened

if TYPE_CHECKING:
    from advisor.probing.run_config import RunConfig

EAGER = builders.BASELINE
FLOAT32 = Opened(parameters=10, parameter_bytes=40, unit="samples", units_per_sample=1)
GAIN = Interval(value=3.9, low=3.8, high=4.0)


@pytest.fixture(autouse=True)
def no_flags(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(improvement, "detect_cpu_flags", lambda: frozenset({"avx2"}))


def state(loaded: Opened = FLOAT32) -> RunState:
    return builders.run_state({EAGER: builders.process(opened=loaded)})


def titles(run: RunState | None = None, *, capability: str = "", **question: Any) -> list[str]:
    """Return the titles of what is tried, on a GPU of this capability."""
    gpu = builders.gpu(compute_capability=capability)
    on_gpu = {"device": "cuda", "gpu": gpu.uuid} if capability else {}
    answer = built_answers.answer(
        question=builders.question(**{"dtype": "float32", **on_gpu, **question}),
        machine=builders.gpu_machine(gpu) if capability else builders.machine(),
    )
    found = improvement.find_variants(answer, run or state())
    assert {arm for arm, _ in found} <= {EAGER}
    return [variant.title for _, variant in found]


def test_a_device_is_asked_in_the_precisions_that_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    assert titles(capability="9.0") == ["TF32", "bfloat16"]
    assert titles(capability="10.0") == ["TF32", "bfloat16"]
    assert titles(capability="7.5") == []
    assert titles() == []
    for flag in ("avx512_bf16", "amx_bf16", "bf16"):
        monkeypatch.setattr(improvement, "detect_cpu_flags", lambda f=flag: frozenset({f}))
        assert titles() == ["bfloat16"]
        assert titles(capability="7.5") == []


def test_only_code_that_computes_in_float32_is_tried() -> None:
    ask: Any = {"capability": "9.0"}
    assert titles(**ask, dtype="bfloat16") == []
    assert titles(**ask, dtype="own") == ["TF32", "bfloat16"]
    half = builders.replace(FLOAT32, parameter_bytes=20)
    packed = builders.replace(FLOAT32, parameters=0, parameter_bytes=0)
    assert [titles(state(each), **ask, dtype="own") for each in (half, packed)] == [[], []]
    assert titles(**ask, task="generate") == []
    assert titles(**ask, model=OnnxModel(name="/a/model.onnx")) == []


BREAKS = {
    "net.py:12: Dynamo does not support tracing `Tensor.item()` with config.x=False": 3,
    "net.py:14: Detected data-dependent branching (e.g. `if x.sum() > 0:`)": 1,
    "net.py:20: Dynamo does not know this": 1,
}


def with_breaks(*breaks: str) -> Answer:
    facts = {"graph_breaks": {each: BREAKS[each] for each in breaks}}
    return built_answers.with_measurement(built_answers.answer(), "compiled", facts=facts)


def test_settings_are_tried_against_the_breaks_that_they_mend() -> None:
    _, branch, unknown = BREAKS
    ((arm, variant),) = improvement.find_variants(with_breaks(*BREAKS), state())
    assert arm == "compiled"
    assert variant.lines == "torch._dynamo.config.capture_scalar_outputs = True"
    assert improvement.find_variants(with_breaks(branch, unknown), state()) == []
    assert not improvement.lines_against(BREAKS, variant.lines)
    told = render_breaks("compiled", improvement.find_breaks(with_breaks(*BREAKS))[1]).splitlines()
    assert "net.py:12: the value of a tensor" in told[1]
    assert "torch.cond" in told[2]
    assert unknown in told[3]
    assert improvement.find_breaks(built_answers.answer()) == ("", {})
    both = built_answers.with_measurement(with_breaks(), facts={"graph_breaks": BREAKS})
    assert improvement.find_breaks(both)[0] == "compiled", "the fastest arm"
    assert not render_breaks("compiled", {})
    short = " ".join(text_report.render_summary(with_breaks(*BREAKS), 80).split())
    assert "breaks at net.py:12: Dynamo does not" in short
    assert "; 2 more breaks; p3-advisor improve tries what mends it." in short
    assert "improve" not in text_report.render_summary(with_breaks(branch, unknown), 80)
    limit = built_answers.with_measurement(
        with_breaks(), facts={"graph_breaks": {"the limit of compilations was reached": 1}}
    )
    assert "breaks: the limit" in " ".join(text_report.render_summary(limit, 80).split())
    unanswered = builders.replace(with_breaks(*BREAKS), recommendation=None)
    assert "breaks at net.py:12" in " ".join(text_report.render_summary(unanswered, 80).split())


def test_settings_against_breaks_that_others_hid_are_tried_with_them(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def measure(variant: Variant, *_: object) -> Variant:
        hidden = {"x: Dynamo does not know how to trace builtin operator `print`": 1, **BREAKS}
        left = {} if "(print)" in variant.lines else hidden
        return builders.replace(variant, graph_breaks=left)

    monkeypatch.setattr(improvement, "measure", measure)
    compose: Any = lambda *_: types.SimpleNamespace(own=Snippet(text="".join(_[3:])))  # noqa: E731
    monkeypatch.setattr(improvement, "compose_pair", compose)
    context = Context(environment={}, store=Store(tmp_path))
    run, answer = make_run(context.store, finished=True), with_breaks(*BREAKS)
    (tried,) = improvement.improve(answer, run, seconds=0.1, context=context)
    settings = [line.rpartition(".")[2] for line in tried.variant.lines.splitlines()]
    assert settings == ["capture_scalar_outputs = True", "add(print)"]


def test_what_was_tried_is_not_named_as_a_next_step_again() -> None:
    answer = with_breaks(*BREAKS)
    assert improvement.name_untried(answer, state()) == "settings against graph breaks"
    assert "improve tries" in " ".join(short_answer_lines(answer))
    ((arm, variant),) = improvement.find_variants(answer, state())
    failed = builders.replace(variant, failure="wrong outputs")
    tried = built_answers.with_measurement(answer, arm, variants=(failed,))
    assert improvement.name_untried(tried, state()) == ""
    assert "improve tries" not in " ".join(short_answer_lines(tried))


def test_a_variant_is_compared_with_the_other_code(monkeypatch: pytest.MonkeyPatch) -> None:
    other, changed = (
        SnippetPair(
            planned=builders.arm("compiled"),
            own=Snippet(text=name),
            baseline=Snippet(text="baseline"),
            allowed=[1e-7],
            cell=built_answers.timed_cell(),
        )
        for name in ("other", "changed")
    )
    asked: list[SnippetPair] = []

    def run_pair(pair: SnippetPair, *_: object) -> PairedCalls:
        asked[:] = [pair]
        return PairedCalls(
            problem=None,
            error=4e-3,
            graph_breaks={"net.py:14: x": 1},
            rounds=(((0.4,), (0.1,)),) * 5,
            versions={},
        )

    def measure(variant: Variant, changed: SnippetPair = changed) -> Variant:
        config = types.SimpleNamespace(header=built_answers.finished_header())
        return improvement.measure(variant, other, changed, cast("RunConfig", config), 1.0)

    monkeypatch.setattr(improvement, "run_pair", run_pair)
    precision = Variant(name="bfloat16", title="bfloat16", lines="x")
    found = measure(precision)
    assert (asked[0].own.text, asked[0].baseline.text) == ("other", "changed")
    assert asked[0].allowed == [improvement.ANY_ERROR]
    assert builders.known(found.speedup).value == pytest.approx(4.0)
    assert found.error == 4e-3
    assert found.graph_breaks is None
    against = builders.replace(precision, graph_breaks={})
    found = measure(against)
    assert asked[0].allowed == [1e-7]
    assert found.graph_breaks == {"net.py:14: x": 1}
    unchecked = builders.replace(changed, allowed=None)
    assert measure(against, unchecked).failure
    assert measure(precision, unchecked).failure is None


@pytest.mark.stack
def test_the_code_of_a_run_is_run_in_bfloat16_and_the_result_is_kept(
    recorded_home: pathlib.Path, home: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(recorded_home, home)
    context = Context(environment=dict(os.environ), store=Store(home))
    run = context.store.find("latest")
    with pytest.raises(VerificationError, match="nothing to try"):
        next(improvement.improve(answer_of_run(run), run, seconds=0.1, context=context))
    monkeypatch.setattr(improvement, "detect_cpu_flags", lambda: frozenset({"amx_bf16"}))
    ended = run.state().at
    (tried,) = improvement.improve(answer_of_run(run), run, seconds=0.1, context=context)
    assert tried.variant.failure is None
    assert tried.variant.speedup is not None
    assert 1e-4 < (tried.variant.error or 0.0) < 1e-1
    added = [line[1:] for line in tried.diff.splitlines() if line.startswith("+")]
    assert [line for line in added if line] == tried.variant.lines.splitlines()
    assert answer_of_run(run).results.by_arm[EAGER].variants == (tried.variant,)
    assert (run.state().finished, run.state().at) == (True, ended)
