"""The error of a run that gives no advice says what is nearest to one."""

from __future__ import annotations

import builders
import msgspec
from golden_files import Expect

from advisor.domain.answer import RankedArm
from advisor.domain.constraints import Constraint
from advisor.domain.interval import Interval
from advisor.domain.measurement import MemoryBytes
from advisor.recommendation.no_answer import machine_unfit, nothing_viable


def test_the_value_nearest_to_each_constraint_is_named_when_nothing_is_left(
    expect: Expect,
) -> None:
    question = builders.question(
        constraints=(
            Constraint(criterion="speedup", at_least=50),
            Constraint(criterion="memory", at_most=2**20),
            Constraint(criterion="ttft", at_most=0.1),
        )
    )
    results = builders.results(
        *(
            builders.measurement(
                name, speedup=speedup, memory_bytes=MemoryBytes(peak=peak << 20, source="a test")
            )
            for name, speedup, peak in (("one", 1.2, 300), ("two", 1.9, 200), ("three", 1.0, 400))
        )
    )
    known = builders.catalogue(*map(builders.workflow, ("one", "two", "three")))
    arms = builders.score_arms(results, question, known)
    problem = nothing_viable(arms, question.constraints, results.measurements)
    expect("nothing-viable", [problem.what, problem.next_step])


def test_a_run_without_an_answer_names_the_budget_of_a_further_run(expect: Expect) -> None:
    noisy = builders.results(builders.measurement("one"), noise_floor=3.0)
    budget = builders.question().budget
    (arm,) = noisy.measurements
    ends = Interval(value=2.0, low=1.4, high=4.0)
    leader = RankedArm(builders.scored_arm("one"), msgspec.structs.replace(arm, speedup=ends))
    further, last = (machine_unfit(noisy, each, leader) for each in (budget, None))
    assert "1.4x and 4x" in further.what
    assert f"--budget {budget.name}" in further.next_step
    assert "--budget" not in last.next_step
    expect("machine-unfit", [further.next_step, last.next_step])
