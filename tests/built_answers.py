"""Whole answers that are decided from the values of `builders`, and changed ones."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import builders
import built_measurements
from builders import replace

from advisor.decide.answers import answer_from_results
from advisor.decide.certainty import Contest
from advisor.decide.recommend import recommend
from advisor.decide.results import collect_results
from advisor.decide.unmeasured import list_unmeasured
from advisor.domain import measurement
from advisor.domain.answer import AdvisedAnswer, Answer, Problem, UnmeasuredArm
from advisor.domain.errors import UserError
from advisor.domain.recommendation import Recommendation
from advisor.domain.results import Results, ScoredArm
from advisor.domain.run_state import Header, RunState
from advisor.domain.workflow import Workflow
from advisor.report.headline import HeadlinePart, write_headline
from probes.accuracy import Accuracy
from probes.outcome import Failure, Outcome
from probes.shape import Shape


def answer_of(measured: Results, head: Header | None = None, **changes: Any) -> Answer:
    """Return the answer that these results give with the catalogue of the header."""
    head = head or builders.header()
    return answer_from_results(_answer(measured, head, **changes), head.catalogue)


def header_for(measured: Results, *workflows: Workflow, **asked: Any) -> Header:
    """Return the header of a run of these workflows, and of ordinary ones of the other arms."""
    given = {builders.BASELINE, *(each.id for each in workflows)}
    others = sorted({each.workflow for each in measured.measurements} - given)
    return builders.header_of(*workflows, *map(builders.workflow, others), **asked)


def recommend_for(*decided: Any, **context: Any) -> Recommendation:
    """Return the recommendation of `answer_for`."""
    return advice_of(answer_for(*decided, **context))


def answer_for(
    measured: Results,
    scored: Sequence[ScoredArm],
    head: Header | None = None,
    *,
    excluded: Sequence[UnmeasuredArm] = (),
    **context: Any,
) -> Answer:
    """Return the answer with the recommendation for these scores, which are not computed."""
    head = head or builders.header()
    contest = Contest(measured, tuple(scored), head.question, head.catalogue, **context)
    advice = recommend(contest, head.machine, excluded)
    decided = {"scores": contest.scores, "recommendation": advice}
    return _answer(measured, head, unmeasured=tuple(excluded), **decided)


def advised(answer: Answer) -> AdvisedAnswer:
    """Return an answer that has a recommendation and measurements."""
    return builders.known(AdvisedAnswer.of(answer))


def headline(answer: Answer, *parts: HeadlinePart) -> list[str]:
    """Return the texts of the headline, or of these parts of it."""
    return [line.text for line in write_headline(answer) if not parts or line.part in parts]


def finished_header() -> Header:
    """Return the header of the run of `answer`."""
    compiled = builders.workflow("compiled", verified=("cpu 2026-11",))
    return builders.header_of(compiled, *map(builders.workflow, ("broken", "absent")))


def answer(**changes: Any) -> Answer:
    """Return the answer of a run in which `compiled` wins and `broken` crashes.

    The workflow `absent` is excluded. Keywords change its fields, not what was decided.
    """
    return replace(_decided_answer(), **changes)


def decided_state(**changes: Any) -> RunState:
    """Return a finished run in which `compiled` is four times as fast as the baseline."""
    seconds = {builders.BASELINE: 0.4, builders.DUPLICATE: 0.4, "compiled": 0.1}
    return builders.run_state(
        {
            arm: builders.process(*builders.visits([each] * 4), outcome=Outcome())
            for arm, each in seconds.items()
        },
        last_groups={1: tuple(seconds)},
        closed={1: "decided"},
        **{"finished": True, **changes},
    )


@functools.cache
def _decided_answer() -> Answer:
    head = finished_header()
    crash = Failure(
        "crashed", phase="build", signal="SIGSEGV", reason="it crashed", fix="update it"
    )
    state = decided_state(plan=builders.plan("compiled", "broken", excluded=[builders.excluded()]))
    broken = builders.process(ready=False, outcome=Outcome(crash))
    state = replace(state, processes={**state.processes, "broken": (broken,)})
    measured = collect_results(
        state,
        {Shape(1): builders.race_result(1, best="compiled", eliminated={builders.BASELINE: 4})},
        head.question,
        builders.NOISE,
    )
    return answer_of(measured, head, unmeasured=list_unmeasured(head, state, measured, None))


def _answer(measured: Results, head: Header, **changes: Any) -> Answer:
    made = Answer(
        run_id=head.run_id,
        created=head.created,
        advisor_version=head.advisor_version,
        rubric=head.catalogue.rubric.name,
        finished=True,
        question=head.question,
        machine=head.machine,
        results=measured,
        scores=(),
        unmeasured=(),
        recommendation=None,
        problem=None,
    )
    return replace(made, **changes)


def timed_cell(seconds: float = 0.1, spread: float = 1.01, **changes: Any) -> measurement.Cell:
    """Return a cell whose interval extends by the factor `spread` to both sides."""
    return built_measurements.cell(
        2.0,
        0.05,
        seconds=measurement.CallSeconds(
            median=seconds, low=seconds / spread, high=seconds * spread, samples=9
        ),
        **{"throughput": measurement.Throughput(value=1 / seconds, unit="samples/s"), **changes},
    )


def run_answer(seconds: float = 0.1, spread: float = 1.01, **changes: Any) -> Answer:
    """Return a run without noise in which a call of `compiled` takes `seconds`."""
    made = with_measurement(answer(**changes), "compiled", cells=(timed_cell(seconds, spread),))
    return with_results(made, noise_floor=0.0)


def with_results(answer: Answer, **changes: Any) -> Answer:
    return replace(answer, results=replace(answer.results, **changes))


def with_measurement(answer: Answer, *arms: str, **changes: Any) -> Answer:
    """Return the answer with changed measurements of these arms, by default of all."""
    measurements = tuple(
        replace(each, **changes) if not arms or each.arm in arms else each
        for each in answer.results.measurements
    )
    return with_results(answer, measurements=measurements)


def with_cells(answer: Answer, arm: str, **changes: Any) -> Answer:
    cells = answer.results.by_arm[arm].cells
    return with_measurement(answer, arm, cells=tuple(replace(each, **changes) for each in cells))


def with_speedup(value: float, spread: float = 1.01, **changes: Any) -> Answer:
    """Return a run without noise in which `compiled` has this speed-up."""
    made = run_answer(**changes)
    interval = measurement.Interval(value=value, low=value / spread, high=value * spread)
    return with_cells(made, "compiled", speedup=interval)


def with_costs(answer: Answer) -> Answer:
    """Return the run with a long build, little memory and close outputs of `compiled`."""
    close = builders.checked(accuracy_class="close", accuracy=Accuracy(relative_error=2e-3))
    return with_measurement(
        answer,
        "compiled",
        build_seconds=measurement.BuildSeconds(cold=80.0, warm=None),
        memory_bytes=measurement.MemoryBytes(peak=3 << 20, source="process"),
        correctness=(close,),
    )


def served_run(goodputs: dict[str, float], *, spread: float, itl: float = 0.05) -> Answer:
    arms = tuple(
        built_measurements.served_arm(
            arm, goodput=built_measurements.interval(value, spread - 1), tokens_per_second=4 * value
        )
        for arm, value in goodputs.items()
    )
    question = builders.question(load=replace(built_measurements.load(), itl_seconds=itl))
    answer = with_measurement(run_answer(question=question), cells=())
    return with_results(answer, serving=built_measurements.serving(*arms))


def with_score(answer: Answer, *arms: str, **changes: Any) -> Answer:
    """Return the answer with changed scores of these arms, by default of all."""
    scores = tuple(
        replace(each, **changes) if not arms or each.arm in arms else each for each in answer.scores
    )
    return replace(answer, scores=scores)


def with_question(answer: Answer, **changes: Any) -> Answer:
    return replace(answer, question=replace(answer.question, **changes))


def with_decision(answer: Answer, **changes: Any) -> Answer:
    return with_advice(answer, decision=replace(advice_of(answer).decision, **changes))


def with_advice(answer: Answer, **changes: Any) -> Answer:
    return replace(answer, recommendation=replace(advice_of(answer), **changes))


def advice_of(answer: Answer) -> Recommendation:
    return builders.known(answer.recommendation)


def without_advice(answer: Answer, error: UserError) -> Answer:
    """Return the answer with the problem of an error instead of its recommendation."""
    return replace(answer, recommendation=None, problem=Problem.of(error))
