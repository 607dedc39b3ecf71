"""The answer of a run: what is printed as JSON, shown, compared and opened again.

Its public JSON is an `AnswerDocument`, with the headline: see `rubric/schema/run.schema.json`.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal, NamedTuple

import msgspec

from advisor.domain import errors
from advisor.domain.machine import Machine, QuietCheck
from advisor.domain.measurement import Cell, Interval, Measurement
from advisor.domain.plan import Excluded, ExclusionStatus
from advisor.domain.question import Question
from advisor.domain.recommendation import Decision, DecisionWord, Recommendation, Trust
from advisor.domain.results import Evidence, Instant, Results, RunId, ScoredArm
from advisor.domain.serving import ServedArm
from probes.accuracy import Checked
from probes.outcome import Failure, FailureStatus, SkipCause
from probes.shape import Shape

SCHEMA: Final = "p3-advisor/run/1"

#: Why an arm or a workflow has no measurement.
Status = Literal[FailureStatus, "not-reached", ExclusionStatus]


class UnmeasuredArm(msgspec.Struct, frozen=True, kw_only=True):
    """An arm that failed or was not reached, or a workflow that was not tried."""

    #: The id of the arm, or of the workflow if the reason applies to all its arms.
    arm: str
    workflow: str
    title: str
    #: Null where no arm was planned.
    option: str | None = None
    status: Status
    reason: str
    fix: str | None = None
    #: Why the arm was skipped; null if it was not.
    skip_cause: SkipCause | None = None
    #: The comparisons of its outputs that were made before it failed.
    checks: tuple[Checked, ...] = ()

    @classmethod
    def of(cls, excluded: Excluded, title: str) -> UnmeasuredArm:
        return cls(
            arm=str(excluded.name),
            workflow=excluded.workflow,
            title=title,
            status=excluded.status,
            reason=excluded.reason,
            fix=excluded.fix,
        )

    @property
    def was_planned(self) -> bool:
        return self.option is not None

    @property
    def is_cut_off(self) -> bool:
        """Whether the run, its budget or the limit of the build ended before its measurement."""
        return self.status in {"timed-out", "not-reached"} or is_out_of_time(self)


def is_out_of_time(left_out: UnmeasuredArm | Failure) -> bool:
    """Return whether only the time of the run was missing.

    Such an arm is outstanding if it could lead, and its next step is a longer budget.
    """
    return left_out.skip_cause == "out-of-time"


class RankedArm(NamedTuple):
    """An arm with a score, and its figures."""

    scored: ScoredArm
    measured: Measurement

    @property
    def arm(self) -> str:
        return self.scored.arm

    @property
    def workflow(self) -> str:
        return self.scored.workflow

    @property
    def speedup(self) -> Interval:
        return self.measured.speedup

    @property
    def cells(self) -> tuple[Cell, ...]:
        """The figures of each shape; empty for servers."""
        return self.measured.cells

    def at(self, batch_size: int) -> RankedArm:
        """Return the arm with its figures at one batch size; raise `NoRecipeError` without any."""
        cells = tuple(each for each in self.cells if each.shape.batch_size == batch_size)
        if not cells:
            sizes = sorted({each.shape.batch_size for each in self.cells})
            raise errors.NoRecipeError(
                f"{self.arm} has no figures at batch size {batch_size}",
                f"name one that was measured: {', '.join(map(str, sizes)) or 'none'}",
            )
        return self._replace(measured=msgspec.structs.replace(self.measured, cells=cells))


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """Why there is no recommendation."""

    name: str
    what: str
    next_step: str
    #: Exit status of the command.
    exit_code: int

    @classmethod
    def of(cls, error: errors.UserError | None) -> Problem | None:
        return None if error is None else msgspec.convert(error, cls, from_attributes=True)


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """A run: the question, the machine, the results, their scores and the recommendation."""

    schema: Literal["p3-advisor/run/1"] = SCHEMA
    run_id: RunId
    created: Instant
    advisor_version: str
    rubric: str
    finished: Annotated[
        bool, msgspec.Meta(description="whether the run has measured everything that it planned")
    ]
    in_progress: Annotated[
        bool,
        msgspec.Meta(
            description="whether a process still measures the run; an unfinished run that is not in"
            " progress was stopped"
        ),
    ] = False
    #: Whether more of the run can be executed; false where the model or the baseline fails again
    #: until the model or its environment changes, or where the builds of a finished run are gone.
    #: Null for a finished run that has them.
    resumable: bool | None = None
    #: How often its leaders were measured again after it had finished.
    times_remeasured: int = 0
    #: Whether the run was imported, its directory is outside the store, or a file has the answer.
    foreign: bool = False
    question: Question
    machine: Machine
    #: What else ran on the machine before the measurement; null if it was not checked.
    quiet_check: QuietCheck | None = None
    results: Results
    #: Up to which relative error, or divergence of text, outputs are close; null without scores.
    tolerance: float | None = None
    #: The best arm first.
    scores: tuple[ScoredArm, ...]
    unmeasured: tuple[UnmeasuredArm, ...]
    recommendation: Recommendation | None
    problem: Problem | None
    #: Place and time of the measurement, for a question about a GPU that is not attached.
    provenance: str = ""
    #: The command that prints this answer; null for a stored run.
    rerun_command: str | None = None

    @property
    def has_unfit_problem(self) -> bool:
        return self.problem is not None and self.problem.name == errors.MachineUnfitError.name

    @property
    def is_stored_here(self) -> bool:
        """Whether the run that was asked for is in the store; another one may answer for it."""
        return not (self.foreign or self.provenance)

    @property
    def evidence(self) -> Evidence:
        return "measured" if self.is_stored_here else "imported"

    @property
    def titles(self) -> dict[str, str]:
        arms: tuple[ScoredArm | UnmeasuredArm, ...] = (*self.unmeasured, *self.scores)
        return {each.arm: each.title for each in arms}

    @property
    def baseline_title(self) -> str:
        return self.titles.get(self.results.baseline, self.results.baseline)

    @property
    def excluded(self) -> tuple[UnmeasuredArm, ...]:
        """The workflows and the single arms that were not planned."""
        return tuple(each for each in self.unmeasured if not each.was_planned)

    @property
    def served(self) -> dict[str, ServedArm]:
        serving = self.results.serving
        return {each.arm: each for each in (serving.arms if serving else ())}

    @property
    def ranking(self) -> tuple[RankedArm, ...]:
        """The arms with a score, best first; without those whose figures a file lacks."""
        by_arm = self.results.by_arm
        return tuple(RankedArm(one, by_arm[one.arm]) for one in self.scores if one.arm in by_arm)

    @property
    def advised(self) -> RankedArm | None:
        """The recommended arm; None without a recommendation, or where a file lacks its score."""
        advice = self.recommendation
        return next((each for each in self.ranking if advice and each.arm == advice.arm), None)

    @property
    def baseline(self) -> Measurement | None:
        """The measurement that speed-ups are relative to; None if it has none."""
        return self.results.by_arm.get(self.results.baseline)

    def code_shape(self, ranked: RankedArm) -> Shape:
        """Return what code is printed for: the longest lengths, at the size that gains most."""
        cells = [
            each for each in ranked.cells if each.shape.tokens == ranked.cells[-1].shape.tokens
        ]
        best = max(cells, key=lambda cell: cell.speedup.value, default=None)
        return best.shape if best else self.question.shapes[0]

    @property
    def unmeasured_shapes(self) -> tuple[Shape, ...]:
        """The shapes of the question that no arm was timed at; empty for servers."""
        return self.results.untimed(self.question.shapes)

    @property
    def device_name(self) -> str:
        return self.question.name_device(self.machine)


def encode(document: object) -> str:
    """Return indented JSON with a final line break."""
    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode() + "\n"


class AnswerSummary(msgspec.Struct, frozen=True, kw_only=True):
    """An answer in a few fields, for lists of runs and runs in progress."""

    #: Null without a recommendation, like the next four.
    arm: str | None = None
    decision_word: DecisionWord | None = None
    certainty: float | None = None
    trust: Trust | None = None
    #: Speed-up of the recommended arm.
    speedup: Interval | None = None
    #: False where the machine was busy or unsteady, so that the speed-up is a range.
    fit: bool = True
    #: Why there is no recommendation.
    problem: Problem | None = None

    @property
    def label(self) -> str:
        """The recommended arm, or why a list has none: another version may have stored the run."""
        name = self.problem.name if self.problem is not None else ""
        is_unread = name in {errors.RunFileError.name, errors.NewerVersionError.name}
        return self.arm or ("cannot be read" if is_unread else "no answer")

    @classmethod
    def of(cls, answer: Answer) -> AnswerSummary:
        advice, advised = answer.recommendation, answer.advised
        if advice is None or advised is None:
            return cls(problem=answer.problem)
        return cls(
            arm=advice.arm,
            decision_word=advice.decision.word,
            certainty=advice.decision.certainty,
            trust=advice.trust,
            speedup=advised.speedup,
            fit=advice.decision.fit,
        )


class AdvisedAnswer(NamedTuple):
    """A measured answer with its recommendation, and the advised arm."""

    answer: Answer
    advice: Recommendation
    advised: RankedArm

    @classmethod
    def of(cls, answer: Answer) -> AdvisedAnswer | None:
        """Return the answer with its advice; None without a recommendation."""
        advice, advised = answer.recommendation, answer.advised
        return cls(answer, advice, advised) if advice and advised else None

    @property
    def decision(self) -> Decision:
        return self.advice.decision

    @property
    def is_baseline(self) -> bool:
        return self.advised.arm == self.answer.results.baseline

    @property
    def arms(self) -> dict[str, ScoredArm]:
        return {each.arm: each for each in self.answer.scores}
