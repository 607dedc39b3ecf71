"""What is verified, what is refused, and the verdict on a snippet."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Callable
from typing import Any

import builders
import built_answers
import built_measurements
import msgspec
import pytest
from recorded_runs import UnstoredRun

from advisor.ask.context import Context
from advisor.domain.answer import encode
from advisor.domain.errors import ForeignRunError, NoRecipeError, UserError, VerificationError
from advisor.domain.machine import MachineActivity, QuietCheck, QuietProblem
from advisor.domain.measurement import Interval
from advisor.domain.model import TransformersModel
from advisor.domain.run_state import ProcessState
from advisor.domain.snippet import Result, SnippetPair, Verification, bounds
from advisor.execute import verification
from advisor.probing.snippets import PairedCalls
from advisor.recipes.arm_recipe import compose_pair
from advisor.report.recipe_text import choose_recipe, render_snippet
from advisor.report.snippet_results import RESULT_TEXTS, render_verification
from advisor.store.store import Store
from probes.events import Imported
from probes.shape import Shape

LINES = "import torch\n\n# Each call:\noutput = model(*inputs)\n"
SPEEDUP = Interval(value=2.0, low=1.8, high=2.2)
ONE = Interval(value=1.0, low=1.0, high=1.0)
LOAD = built_measurements.load()


@dataclasses.dataclass
class Machine:
    """Stands for the processes: keeps what it is asked, and returns these times and outputs."""

    #: Seconds of the one call of both, by round.
    rounds: tuple[tuple[float, float], ...] = ((0.1, 0.2),) * 5
    problem: str | None = None
    busy: bool = False
    asked: list[SnippetPair] = dataclasses.field(default_factory=list)

    def run_pair(self, pair: SnippetPair, *_: object) -> PairedCalls:
        self.asked = [pair]
        rounds = () if self.problem else tuple(((one,), (other,)) for one, other in self.rounds)
        return PairedCalls(
            problem=self.problem, rounds=rounds, busy=self.busy, versions={"torch": "2.14.0"}
        )


def run_of(
    lines: str = LINES, *, arm_changes: Any = None, foreign: bool = False, **question: Any
) -> UnstoredRun:
    """Return a run of two arms, each with an interpreter of its own."""

    def process(interpreter: str) -> ProcessState:
        own = builders.interpreter_facts({"torch": "2.13.0+cpu"}, interpreter=interpreter)
        imported = Imported(versions={}, settings={}, environment=own)
        facts = builders.snippet_facts(integration=lines)
        return builders.process(imported=imported, snippet_facts=facts)

    arms = (builders.arm(builders.BASELINE), builders.arm("compiled", **(arm_changes or {})))
    processes = {builders.BASELINE: process("/eager/python"), "compiled": process("/own/python")}
    header = builders.replace(
        built_answers.finished_header(), question=builders.question(**question), foreign=foreign
    )
    return UnstoredRun(header, arms, processes)


Verify = Callable[..., Verification]


@pytest.fixture
def verify(monkeypatch: pytest.MonkeyPatch, home: pathlib.Path) -> Verify:
    def verify(
        run: UnstoredRun | None = None,
        machine: Machine | None = None,
        problems: tuple[QuietProblem, ...] = (),
    ) -> Verification:
        monkeypatch.setattr(verification, "run_pair", (machine or Machine()).run_pair)
        activity = MachineActivity(seconds=1.0, usable_processors=2, idle_processors=0.0)
        check = QuietCheck(activity=activity, problems=problems)
        monkeypatch.setattr(verification, "check_now", lambda *_: check)
        run = run or run_of()
        cells = (built_answers.timed_cell(shape=Shape(1), speedup=SPEEDUP),)
        answer = builders.replace(
            built_answers.with_measurement(built_answers.answer(), "compiled", cells=cells),
            question=run.header().question,
        )
        context = Context(environment={}, store=Store(home))
        ranked = next(each for each in answer.ranking if each.arm == "compiled")
        return verification.verify(
            answer, run, ranked, tolerance=0.05, seconds=1.0, context=context
        )

    return verify


@pytest.mark.parametrize(
    ("seconds", "problem", "result", "holds"),
    [
        (0.1, None, "holds", True),
        (0.115, None, "holds", True),
        (0.08, None, "faster", True),
        (0.125, None, "slower", False),
        (0.1, "its outputs differ", "wrong", False),
    ],
)
def test_outputs_and_the_speed_up_are_judged(
    seconds: float, problem: str | None, result: Result, holds: bool, verify: Verify
) -> None:
    found = verify(machine=Machine(((seconds, 0.2),) * 5, problem))
    assert (found.result, found.holds, found.problem) == (result, holds, problem)
    reached = found.speedup_reached and found.speedup_reached.value
    assert reached == (None if problem else pytest.approx(0.2 / seconds))
    assert found.changed_versions == {"torch": "2.14.0"}
    text = render_verification(found)
    assert RESULT_TEXTS[result] in text.splitlines()[0]
    assert "2.14.0" in text
    assert problem is None or problem in text
    assert ("\nNext: install the measured versions" in text) == (not holds)
    assert msgspec.json.decode(encode(found), type=Verification) == found
    wide = builders.replace(found.speedup, low=0.5, high=600.0)
    text = render_verification(builders.replace(found, speedup=wide))
    assert (RESULT_TEXTS[result] in text.splitlines()[0]) == (result != "holds")


def test_the_load_of_a_busy_machine_stands_by_the_result(verify: Verify) -> None:
    faster = Machine(((0.08, 0.2),) * 5)
    texts = [render_verification(verify(None, faster, each)) for each in ((), ("cpu-busy",))]
    assert ["0.0 of 2 usable processors" in text for text in texts] == [False, True]


@pytest.mark.parametrize(
    ("rounds", "busy", "result"),
    [
        (((0.1, 0.1),) * 9 + ((0.05, 0.1),), False, "undecided"),
        (((0.1, 0.1),) * 5, False, "slower"),
        # A change of speed of the machine cancels.
        (((0.1, 0.2), (0.3, 0.6), (0.1, 0.2), (0.2, 0.4), (0.5, 1.0)), False, "holds"),
        (((0.1, 0.1),) * 5, True, "undecided"),
        (((0.1, 0.2),) * 5, True, "holds"),
        (((0.08, 0.2),) * 5, True, "undecided"),
    ],
)
def test_a_gain_that_may_be_none_or_another_one_on_a_busy_machine_is_undecided(
    rounds: Any, busy: bool, result: str, verify: Verify
) -> None:
    found = verify(None, Machine(rounds), ("cpu-busy",) if busy else ())
    assert found.result == result
    assert found.holds == (result == "holds")


#: A range that shows nothing.
ANY_SPEED = Interval(value=0.3, low=0.02, high=3.3)


@pytest.mark.parametrize(
    ("measured", "reached", "result"),
    [
        (Interval(value=1.5, low=0.9, high=2.5), ONE, "undecided"),
        (ANY_SPEED, Interval(value=2, low=2, high=2), "undecided"),
        # No gain was promised.
        (ONE, ONE, "holds"),
    ],
)
def test_a_run_that_may_have_shown_no_gain_decides_nothing(
    measured: Interval, reached: Interval, result: Result
) -> None:
    assert verification.classify(measured, reached, 0.05) == result


def test_ranges_that_show_nothing_are_not_printed_and_are_measured_again(verify: Verify) -> None:
    found = verify()
    open_run = builders.replace(found, holds=False, speedup=ANY_SPEED, changed_versions={})
    assert f"p3-advisor resume {found.run_id} --wait" in render_verification(open_run)
    lost = Interval(value=1.0, low=0.0017, high=601494.0)
    assert "601" not in render_verification(builders.replace(found, speedup_reached=lost))


def test_the_times_of_a_line_have_the_ratio_of_the_line(verify: Verify) -> None:
    found = verify(machine=Machine(((0.1, 0.2), (0.1, 0.3), (0.3, 0.6))))
    line = render_verification(found).splitlines()[1]
    assert all(each in line for each in ("2.29x", "1.28", "4.10", "131 ms", "300 ms"))


@pytest.mark.parametrize(
    ("rounds", "busy", "result", "doubt"),
    [
        (((0.1, 1.8),) * 9 + ((0.1, 0.2),), False, "undecided", "contradictory"),
        (((0.1, 1.8),) * 9 + ((0.1, 0.2),), True, "undecided", "busy"),
        (((0.1, 0.3),) * 9 + ((0.1, 0.2),), True, "undecided", "busy"),
        (((0.1, 0.25), (0.1, 0.22)) * 5, True, "holds", "busy"),
        (((0.1, 0.1),) * 10, True, "undecided", "busy"),
        (((0.1, 0.1),) * 10, False, "slower", None),
    ],
)
def test_the_speed_on_a_busy_machine_is_a_range_of_both_estimates(
    rounds: Any, busy: bool, result: str, doubt: str | None, verify: Verify
) -> None:
    found = verify(machine=Machine(rounds, busy=busy))
    assert (found.result, found.doubt) == (result, doubt)
    low, high = bounds(builders.known(found.speedup_reached))
    typical, fastest = rounds[0][1] / rounds[0][0], min(each for _, each in rounds) / 0.1
    assert low <= min(typical, fastest) * (1 + 1e-9)
    assert high >= max(typical, fastest) * (1 - 1e-9)
    text = render_verification(found)
    assert ("between" in text, "ms a call" in text) == (bool(doubt), not doubt)
    assert ("the machine was busy" in text) == busy


def test_each_snippet_runs_as_recipe_prints_it_where_its_arm_was_measured(verify: Verify) -> None:
    machine = Machine()
    own = {"python": "/own/python", "quantiser": "/quantise/bin/python"}
    verify(run_of(arm_changes=own), machine)
    (pair,) = machine.asked
    assert (pair.own.python, pair.baseline.python) == ("/own/python", "")
    assert str(pair.own.folders["llm-compressor"]) == "/quantise"
    assert pair.own.text.endswith("# Each call:\noutput = model(*inputs)\n")
    assert pair.allowed == (1e-7,)


def test_a_batch_size_that_was_measured_can_be_asked_for() -> None:
    cells = [built_answers.timed_cell(shape=Shape(each)) for each in (1, 8)]
    made = built_answers.with_measurement(built_answers.answer(), "compiled", cells=tuple(cells))
    run = run_of()
    found = [choose_recipe(made, run, "compiled", each) for each in (1, 8)]
    pairs = [compose_pair(made, run, ranked) for ranked, _ in found]
    assert [each.cell.shape for each in pairs] == [Shape(1), Shape(8)]
    assert ["randn(8, " in each.baseline.text for each in pairs] == [False, True]
    assert render_snippet(made, *found[1]).endswith(pairs[1].own.text)
    with pytest.raises(NoRecipeError) as refused:
        choose_recipe(made, run, "compiled", 4)
    assert "1, 8" in refused.value.next_step


def test_the_baseline_is_not_compared_with_itself() -> None:
    answer = built_answers.answer()
    by_arm = {each.arm: each for each in answer.ranking}
    with pytest.raises(VerificationError) as refused:
        verification.refuse_baseline(answer, by_arm[builders.BASELINE])
    assert " compiled " in refused.value.next_step
    verification.refuse_baseline(answer, by_arm["compiled"])


def test_random_weights_are_made_by_one_version_of_the_library(verify: Verify) -> None:
    model = TransformersModel(name="org/llama", weights="random")
    lines = LINES.replace("output = model(*inputs)", "tokens = model.generate(prompts)")
    machine = Machine()
    run = run_of(lines, arm_changes={"python": "/own/python"}, model=model, task="generate")
    verify(run, machine)
    (pair,) = machine.asked
    assert {pair.own.python, pair.baseline.python} == {"/own/python"}


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_an_engine_that_takes_the_memory_of_a_gpu_runs_alone(device: str, verify: Verify) -> None:
    model = TransformersModel(name="org/llama", weights="hub")
    lines = "import engine\n\n# Each call:\ntokens = engine.run(CHECKPOINT, prompts)\n"
    machine = Machine()
    verify(run_of(lines, model=model, task="generate", device=device), machine)
    assert machine.asked[0].one_by_one == (device == "cuda")


@pytest.mark.parametrize(
    ("run", "error"),
    [
        (run_of(load=LOAD, task="serve"), UserError),
        (run_of(gpu="GPU-elsewhere", device="cuda"), VerificationError),
        (run_of("import subprocess\n\nsubprocess.run(['serve'])\n"), VerificationError),
        (run_of(foreign=True), ForeignRunError),
    ],
    ids=["server under load", "no such GPU", "only serves", "imported"],
)
def test_what_no_snippet_repeats_here_is_a_user_error(
    run: UnstoredRun, error: type[UserError], verify: Verify
) -> None:
    machine = Machine()
    with pytest.raises(error) as problem:
        verify(run, machine)
    assert problem.value.next_step
    assert not machine.asked
