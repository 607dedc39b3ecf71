"""Why the trust in an answer is not higher, and its next steps, in words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

import builders
import built_answers
import built_measurements
import pytest
from built_answers import with_advice, with_decision, with_measurement, with_results
from golden_files import Expect
from kept.runs import decide_run

from advisor.ask import planning
from advisor.domain.answer import UnmeasuredArm
from advisor.domain.measurement import VisitCounts
from advisor.domain.plan import PLAIN_COMPILE
from advisor.domain.recommendation import TrustFault
from advisor.domain.results import Results, StoppedBuild
from advisor.domain.run_state import Header
from advisor.domain.workflow import Environment
from advisor.report.advice_lines import describe_steps, trust_reasons
from probes.accuracy import Accuracy

FASTEST, CONSTANT = built_measurements.interval(1.1), Accuracy(fault="constant-output")


def test_what_lowers_the_trust_is_told_with_its_figures(expect: Expect) -> None:
    cells = (built_measurements.cell(1.5, processes=1, shift=0.1, fastest_calls=FASTEST),)
    checks = (builders.checked(accuracy_class="unchecked", accuracy=CONSTANT),)
    asked = builders.question(batch_sizes=(1, 16))
    made = built_answers.answer(question=asked, provenance="measured elsewhere")
    made = with_results(
        with_measurement(made, cells=cells, correctness=checks, steady=False),
        sustained=built_measurements.sustained(burst_ratio=1.5, sustained_ratio=0.9),
        noise_floor=0.06,
        visits=VisitCounts(made=100, discarded=6, unfit=9, stalled_calls=1),
    )
    quiet = VisitCounts(made=9, discarded=0, unfit=0, stalled_calls=2)
    calm = with_results(made, noise_floor=0.0, visits=quiet, duplicates=0)
    likely = with_decision(calm, word="LIKELY")
    answers = (with_decision(made, word="CLEAR"), likely, with_advice(made, arm=builders.BASELINE))
    all_faults = {"trust_faults": get_args(TrustFault), "gain": 1.5}
    expect("trust-reasons", [trust_reasons(with_advice(each, **all_faults)) for each in answers])


def steps_for(
    results: Results, head: Header | None = None, excluded: Sequence[UnmeasuredArm] = ()
) -> list[str]:
    """Return the steps of an answer in which the last of the arms is alone."""
    scored = [builders.scored_arm(results.measurements[-1].arm)]
    return describe_steps(built_answers.answer_for(results, scored, head, excluded=excluded))


def test_builds_are_kept_and_more_time_is_asked_for_those_that_ended(expect: Expect) -> None:
    measured = builders.measurement("compiled", versions={"triton": "3.6.0", "torch": "2.12.0"})
    head = builders.header_of(
        builders.workflow("other", deployment_steps=("another",)),
        builders.workflow("compiled", deployment_steps=("keep the cache",)),
    )
    stopped = (
        StoppedBuild(arm="engine", fix="allow more with --max-build-times"),
        StoppedBuild(arm="exported", started=False, fix="ask for more with --requests"),
    )
    results = builders.results(measured)
    expect("next-steps", steps_for(builders.replace(results, stopped_builds=stopped), head))


def test_one_command_creates_all_missing_environments() -> None:
    own = Environment(kind="own", name="shared-by-two")
    head = builders.header_of(
        builders.workflow("one"),
        builders.workflow("first", environment=own),
        builders.workflow("second", environment=own),
        builders.workflow("third", environment=Environment(kind="own")),
    )
    missing = [builders.unmeasured(name, fix="a command") for name in ("first", "second", "third")]
    missing += [builders.unmeasured("first", arm=f"first/{each}", fix="again") for each in "ab"]
    results = builders.results(builders.measurement("compiled", versions={}))
    of_arms, step = steps_for(results, head, missing)
    assert of_arms == "to measure first/a, first/b too: again"
    assert step.partition("p3-advisor ")[2].split() == ["env", "create", "shared-by-two", "third"]


@pytest.mark.parametrize(
    ("run", "name"),
    [("h100-resnet-50-float32", "liger"), ("h200-generate-demo-llama", "torch.compile, Inductor")],
)
def test_what_is_not_measured_any_more_or_advised_in_another_form_is_no_step(
    run: str, name: str
) -> None:
    steps = describe_steps(decide_run(run))
    named = [step.partition(" too: ")[0] for step in steps if step.startswith("to measure ")]
    assert steps
    assert not any(name in each for each in named)


@pytest.mark.parametrize("left_out", [(), (PLAIN_COMPILE,)])
def test_what_the_user_left_out_is_no_step(left_out: tuple[str, ...]) -> None:
    question = builders.question(workflows=("one",), leave_out=left_out)
    known = builders.catalogue(builders.workflow("one"), builders.workflow(PLAIN_COMPILE))
    made = planning.plan(question, builders.machine(), known)
    missing = [UnmeasuredArm.of(each, each.workflow) for each in made.excluded]
    results = builders.results(builders.measurement("one"))
    steps = steps_for(results, builders.header(question=question), missing)
    assert any(f"to measure {PLAIN_COMPILE} too" in step for step in steps) == (not left_out)
