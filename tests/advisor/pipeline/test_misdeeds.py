"""Everything a foreign stack has been seen to do ends as its own status, and the rest of the run completes."""

from __future__ import annotations

from collections.abc import Callable

import psutil

from advisor.context import Context
from advisor.domain.outcome import Completed
from advisor.pipeline.decision import decide
from advisor.pipeline.draft import prepare
from advisor.pipeline.execution import execute
from advisor.question.answers import Answers

EXPECTED = {
    "import-error": ("unsupported", "libmissing.so.1"),
    "model-error": ("model-refused", "of a kind nobody knows"),
    "refuses": ("unsupported", "takes no such model"),
    "raises": ("build-failed", "Could not find an implementation for Gemm(13)"),
    "segfault": ("crashed", "SIGSEGV"),
    "killed": ("crashed", "SIGKILL"),
    "silent-exit": ("crashed", "left with status 0 and no answer"),
    "hangs": ("timed-out", "build"),
    "escapes": ("timed-out", "build"),
    "holds-the-lock": ("timed-out", "build"),
    "out-of-memory": ("out-of-memory", "MemoryError"),
    "device-out-of-memory": ("out-of-memory", "Tried to allocate"),
    "floods": ("completed", ""),
    "garbage": ("crashed", "cannot be read"),
    "wrong": ("incorrect", "above the allowed"),
    "nan": ("incorrect", "NaN or infinity"),
    "memoises": ("incorrect", "same output for every input"),
    "other-shape": ("incorrect", "other shapes"),
    "stale": ("incorrect", "above the allowed"),
    "returns-early": ("incorrect", "return before their work is done"),
    "hands-out-promises": ("incorrect", "return before their work is done"),
    "reads-slowly-at-first": ("completed", ""),
    "stalls-later": ("completed", ""),
    "wrong-later": ("incorrect", "after the measurement"),
    "crash-in-visit": ("crashed", "SIGSEGV"),
    "hang-in-visit": ("timed-out", "measure"),
    "falls-back": ("not-engaged", "Returning GraphModule forward instead"),
}


def leftovers() -> list[str]:
    """Processes that a misdeed started, in its group or out of it, and whatever else is still below the tests."""
    sleepers = (["sleep", "3601"], ["sleep", "3602"])
    forgotten = [
        process
        for process in psutil.process_iter(["cmdline"])
        if process.info["cmdline"] in sleepers
    ]
    return [str(process) for process in forgotten + psutil.Process().children(recursive=True)]


def test_each_misdeed_is_its_own_status(fake_world: Callable[[], Context]) -> None:
    world = fake_world()
    arms = ",".join(f"misbehaving/{name}" for name in EXPECTED)
    answers = Answers(
        batch_sizes="2", budget="20", max_build_seconds=1.0, workflows=f"quick,{arms}"
    )
    run = prepare(answers, world)
    for _ in execute(run, world):
        pass
    decision = decide(run)
    ends = {arm: processes[-1].outcome for arm, processes in decision.state.processes.items()}
    for name, (status, words) in EXPECTED.items():
        end = ends[f"misbehaving/{name}"]
        assert end is not None
        assert str(end.__struct_config__.tag) == status, (name, end)
        if not isinstance(end, Completed):
            assert words in end.reason, (name, end)
    assert isinstance(ends["pytorch-eager"], Completed)
    assert isinstance(ends["quick"], Completed)
    measured = {measurement.arm for measurement in decision.results.measurements}
    assert measured == {
        "pytorch-eager",
        "quick",
        "misbehaving/floods",
        "misbehaving/reads-slowly-at-first",
        "misbehaving/stalls-later",
    }
    stalled = {
        measurement.arm
        for measurement in decision.results.measurements
        if measurement.visits.stalled_calls
    }
    assert stalled == {"misbehaving/stalls-later"}
    assert decision.recommendation is not None
    assert decision.recommendation.arm in measured
    assert any(
        "stalled while they were timed" in reason
        for reason in decision.recommendation.trust_reasons
    )
    assert leftovers() == []
