"""Choose the arm to advise, and say how certain the choice is.

The choice is made on the measured scores. Draws of the speed-ups from their uncertainty are scored
like the measurement itself; the word of the decision follows from the score that is lost if
another workflow is really the best.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Collection, Mapping, Sequence

from advisor.decide.grades import BAND_STARTS, grade_of, grades_at
from advisor.decide.intervals import Array, np
from advisor.decide.scoring import best_scored, candidates_of, may_be_advised
from advisor.decide.speedup_draws import SpeedupErrors, draw_log_speedups, speedup_errors
from advisor.domain.catalogue import Catalogue
from advisor.domain.question import Question
from advisor.domain.recommendation import ChosenFor, Decision, DecisionWord, SpeedRegret
from advisor.domain.results import EQUIVALENCE_MARGIN, Results, ScoredArm
from advisor.domain.rubric import DecisionRule, GradeRule

#: The fact that the draws are about, and its criterion.
SPEEDUP, PERFORMANCE = "speedup", "performance"
#: Share of the draws above which an arm is about as good, and not only perhaps.
MOSTLY = 0.5
#: Digits of a figure of the draws; further ones mean nothing.
DIGITS = 4
#: Numbers of further repetitions that are tried; the smallest that is enough is named.
REPETITIONS_TO_TRY = (1, 2, 4, 8, 16)
#: Steps that halve an interval of gains, and the most that a gain is looked for.
HALVINGS, MOST_GAIN = 40, 1000.0


@dataclasses.dataclass(frozen=True)
class Contest:
    """What is decided on: the results with their scores, and draws of the speed-ups."""

    results: Results
    #: Scores of all measured arms, best first, also of arms that fail a constraint.
    scores: tuple[ScoredArm, ...]
    question: Question
    catalogue: Catalogue
    #: Whether more rounds and processes may follow, which may settle what is open where equal
    #: workers differ.
    while_running: bool = False

    @property
    def rule(self) -> DecisionRule:
        return self.catalogue.rubric.decision

    @property
    def fit(self) -> bool:
        """Whether the machine was fit to measure on."""
        return not (self.results.is_busy if self.while_running else self.results.is_unfit)

    @functools.cached_property
    def viable(self) -> list[ScoredArm]:
        """The arms that meet all constraints; figures of an unfit machine exclude none that may."""
        figures, fit = self.results.by_arm, self.fit
        return [one for one in self.scores if may_be_advised(one, figures[one.arm], fit=fit)]

    @functools.cached_property
    def candidates(self) -> list[ScoredArm]:
        return candidates_of(self.viable, self.results.baseline)

    @functools.cached_property
    def advised(self) -> ScoredArm:
        return best_scored(self.candidates)

    @functools.cached_property
    def _speed_rule(self) -> GradeRule | None:
        rules = self.catalogue.rubric.criteria
        return next((each for one in rules for each in one.grades if each.fact == SPEEDUP), None)

    @functools.cached_property
    def _errors(self) -> SpeedupErrors:
        # Ranks depend on the weights, and the draws must not.
        return speedup_errors(self.results, sorted(each.arm for each in self.scores))

    def log_speedups(
        self, arms: Sequence[ScoredArm], scale: float = 1.0, exact: str | None = None
    ) -> Array:
        """Return `(draws, arms) float64`; `scale` and `exact` are those of `draw_log_speedups`."""
        columns = [self._errors.arms.index(each.arm) for each in arms]
        return draw_log_speedups(self._errors, self.question.seed, scale, exact)[:, columns]

    def lost_scores(
        self, arms: Sequence[ScoredArm], scale: float = 1.0, exact: str | None = None
    ) -> Array:
        """Return how far each of the arms is below the best in each draw, `(draws, arms)`."""
        logs, shares = self.log_speedups(arms, scale, exact), self.question.priorities.shares()
        fixed_part, moving_part = np.zeros(len(arms)), np.zeros(logs.shape)
        for criterion in self.catalogue.rubric.criteria:
            rule = next((each for each in criterion.grades if each.fact == SPEEDUP), None)
            ratings = [each.ratings[criterion.id] for each in arms]
            fixed = np.array([rating.grade for rating in ratings])
            if rule is None:
                fixed_part += shares[criterion.id] * fixed
                continue
            limits = np.where([rating.fact != SPEEDUP for rating in ratings], fixed, np.inf)
            moving_part += shares[criterion.id] * np.minimum(_grades(rule, logs), limits)
        scores = fixed_part + moving_part
        lost: Array = scores.max(axis=1, keepdims=True) - scores
        return lost

    def own_losses(self, scale: float = 1.0) -> dict[str | None, Array]:
        """Return the advised arm's lost scores in two sets of draws; the worse one counts.

        In the second one its speed-up is exact. An error of its own makes the errors of the other
        arms look alike, so without the second set a larger error could make the answer look more
        certain.
        """
        column = self.candidates.index(self.advised)
        return {
            exact: self.lost_scores(self.candidates, scale, exact)[:, column]
            for exact in (None, self.advised.arm)
        }

    def shares_and_as_good(self) -> tuple[dict[str, float], list[str]]:
        """Return the share of draws in which each arm loses nothing, and the rivals as good.

        The advised arm comes first, then the largest share.
        """
        rule, lost = self.rule, self.lost_scores(self.candidates)
        own = lost[:, [self.candidates.index(self.advised)]]
        shares = [
            round(float(share), DIGITS) for share in (lost <= rule.negligible_loss).mean(axis=0)
        ]
        columns = zip(self.candidates, shares, (lost < own).mean(axis=0), strict=True)
        ordered = sorted(columns, key=lambda each: (each[0] is not self.advised, -each[1]))
        rivals = ordered[1:]
        named = [
            place
            for place, (scored, share, ahead) in enumerate(rivals, 1)
            if share > rule.named_share
            and (ahead > rule.named_share or _is_alternative(scored, self.advised))
        ]
        # Before one that is named, those with a larger share are named, too.
        as_good = [scored.arm for scored, *_ in rivals[: max(named, default=0)]]
        return {scored.arm: share for scored, share, _ in ordered}, as_good

    def options_as_good(self) -> list[str]:
        """Return the other arms of the advised workflow that lose nothing to it in most draws."""
        rule, advised, found = self.rule, self.advised, []
        for each in self.viable:
            is_sibling = each.workflow == advised.workflow and not each.unproven
            if not is_sibling or each in self.candidates or not _is_alternative(each, advised):
                continue
            lost = self.lost_scores([advised, each])[:, 1]
            if (lost <= rule.negligible_loss).mean() >= MOSTLY:
                found.append(each.arm)
        return found

    def needed_repetitions(self, processes: int) -> int | None:
        """Return the further repetitions in fresh processes after which the word would be CLEAR.

        The errors fall with the square root of the number of processes. None where the largest of
        `REPETITIONS_TO_TRY` is not enough, and for servers, which have no cells.
        """
        for repetitions in REPETITIONS_TO_TRY if processes else ():
            own = self.own_losses(math.sqrt(processes / (processes + repetitions)))
            if _word(*_share_and_quantile(own.values(), self.rule), self.rule) == "CLEAR":
                return repetitions
        return None

    def lost_speed(self, own: Mapping[str | None, Array]) -> float | None:
        """Convert the advised arm's lost score into an equivalent share of speed.

        An arm that is faster by this share would make up for the loss. None if performance has no
        weight, if another fact than the speed-up limits its grade, or if no rival can be so much
        faster: then more than speed is lost.
        """
        weight, rule = self.question.priorities.shares()[PERFORMANCE], self._speed_rule
        if weight <= 0 or rule is None or self.advised.ratings[PERFORMANCE].fact != SPEEDUP:
            return None
        most = min(self._most_gain(self.candidates), MOST_GAIN) + 10**-DIGITS
        gains = []
        for exact, lost in own.items():
            logs = self.log_speedups([self.advised], exact=exact)[:, 0]
            needed = _grades(rule, logs) + lost / weight
            # The least gain that reaches the grade lies between these two. A grade that
            # no gain reaches leaves the larger one at a gain that no rival has.
            low, high = np.zeros_like(logs), np.full_like(logs, math.log1p(most))
            for _ in range(HALVINGS):
                middle = (low + high) / 2
                is_enough = _grades(rule, logs + middle) >= needed
                low, high = np.where(is_enough, low, middle), np.where(is_enough, middle, high)
            gains.append(_quantile(np.expm1(high), self.rule.clear_share))
        lost_speed = round(max(gains), DIGITS)
        return None if 1 + lost_speed > most else lost_speed

    def _most_gain(self, rivals: Sequence[ScoredArm]) -> float:
        """Return how many times as fast as the advised arm a rival is by their intervals."""
        measured = self.results.by_arm
        own = measured[self.advised.arm].speedup.low
        highs = [measured[each.arm].speedup.high for each in rivals if each is not self.advised]
        if own is None:
            return math.inf
        return max([1.0, *(math.inf if high is None else high / own for high in highs)])

    def gains_little(self, baseline_share: float) -> bool:
        """Return whether the advised arm may gain nothing, or too little to matter.

        The latter is a speed-up with the letter of no gain, where the baseline is about as good.
        """
        low, rule = self.results.by_arm[self.advised.arm].speedup.low, self._speed_rule
        if rule is None or low is None or self.advised.arm == self.results.baseline:
            return False
        is_too_little = baseline_share >= MOSTLY and grade_of(rule, low) < BAND_STARTS[2]
        return is_too_little or low <= 1 + EQUIVALENCE_MARGIN

    def speed_regret(self) -> SpeedRegret:
        gains = (self.log_speedups(self.scores) - self.log_speedups([self.advised])).max(axis=1)
        fastest = max(self.scores, key=lambda each: (each.speedup, -each.rank))
        value = fastest.speedup / self.advised.speedup
        drawn = math.exp(_quantile(gains, self.rule.clear_share))
        high = max(min(drawn, self._most_gain(self.scores)), value)
        return SpeedRegret(
            arm=fastest.arm if fastest.arm != self.advised.arm else None,
            value=round(value, DIGITS),
            high=round(high, DIGITS),
        )


def judge_certainty(
    contest: Contest, *, outstanding: Mapping[str, float] | None = None
) -> Decision:
    """Say how certain it is that the advised arm is the best one.

    `outstanding` has the highest possible points of each arm that may still be measured.
    """
    advised, results, rule = contest.advised, contest.results, contest.rule
    shares, as_good = contest.shares_and_as_good()
    own = contest.own_losses()
    share, high = _share_and_quantile(own.values(), rule)
    counts = _processes(results, contest.candidates, shares, rule)
    processes = min(counts.values(), default=0)
    shares[advised.arm] = round(share, DIGITS)
    least = advised.score + advised.bonus + rule.negligible_loss
    may_lead = tuple(arm for arm, score in (outstanding or {}).items() if score > least)
    needs_speed = contest.question.priorities.shares()[PERFORMANCE] > 0
    # Those of the baseline are what the user has now.
    is_checked = advised.arm == results.baseline or all(
        checked.accuracy_class != "unchecked" for checked in results.by_arm[advised.arm].correctness
    )
    is_limited = (
        bool(may_lead) or (needs_speed and (not contest.fit or processes == 1)) or not is_checked
    )
    drawn_word = _word(share, high, rule)
    has_rivals = contest.candidates[1:] or (may_lead and contest.scores[1:])
    word: DecisionWord | None = drawn_word if has_rivals else None
    if word == "CLEAR" and is_limited:
        word = "LIKELY"
    may_improve = word is not None and (drawn_word != "CLEAR" or processes == 1)
    return Decision(
        word=word,
        certainty=shares[advised.arm],
        certain=word is not None and shares[advised.arm] >= rule.clear_share,
        seed=contest.question.seed,
        chosen_for=_chosen_for(advised, contest.viable, results),
        fit=contest.fit,
        timed_once=tuple(arm for arm, count in counts.items() if count == 1),
        checked=is_checked,
        gains_little=contest.gains_little(shares.get(results.baseline, 0.0)),
        outstanding=may_lead,
        contenders={
            arm: each
            for arm, each in shares.items()
            if arm == advised.arm or each > rule.contender_share
        },
        as_good=tuple(as_good[: rule.most_named]),
        options_as_good=tuple(contest.options_as_good()[: rule.most_named]),
        lost_score=round(high, DIGITS),
        lost_speed=contest.lost_speed(own),
        speed_regret=contest.speed_regret(),
        needed_repetitions=contest.needed_repetitions(processes) if may_improve else None,
    )


def is_settled(contest: Contest, decision: Decision) -> bool:
    """Return whether the advice may be given: on an unfit machine, only if no error changes it."""
    figures, bounds = contest.results.by_arm[contest.advised.arm], contest.question.constraints
    is_met = not any(each.crossed_by(figures) for each in bounds)
    return contest.fit or (is_met and decision.word != "OPEN")


def _is_alternative(rival: ScoredArm, advised: ScoredArm) -> bool:
    """Return whether the rival is as fast, or a criterion speaks for it."""
    return rival.speedup * (1 + EQUIVALENCE_MARGIN) >= advised.speedup or any(
        rating.grade > advised.ratings[name].grade for name, rating in rival.ratings.items()
    )


def _chosen_for(advised: ScoredArm, viable: Sequence[ScoredArm], results: Results) -> ChosenFor:
    first = max(viable, key=lambda each: each.score)
    if advised.score >= first.score:
        return "score"
    if advised.arm == results.baseline:
        return "no-change"
    return "speed" if advised.speedup > first.speedup else "exactness"


def _share_and_quantile(own: Collection[Array], rule: DecisionRule) -> tuple[float, float]:
    """Return the share of draws in which nothing is lost, and the loss that few draws exceed."""
    share = min(float((lost <= rule.negligible_loss).mean()) for lost in own)
    return share, max(_quantile(lost, rule.clear_share) for lost in own)


def _grades(rule: GradeRule, log_speedups: Array) -> Array:
    return grades_at(rule, log_speedups if rule.between == "log" else np.exp(log_speedups))


def _quantile(values: Array, share: float) -> float:
    return float(np.quantile(values, share))


def _word(share: float, high: float, rule: DecisionRule) -> DecisionWord:
    if share >= rule.clear_share:
        return "CLEAR"
    if high <= rule.likely_loss or (share >= rule.likely_share and high <= rule.doubtful_loss):
        return "LIKELY"
    return "OPEN"


def _processes(
    results: Results, candidates: Sequence[ScoredArm], shares: dict[str, float], rule: DecisionRule
) -> dict[str, int]:
    """Return in how many processes each arm that may lead was timed.

    The baseline counts where it alone may lead: all others are compared with it.
    """
    leading = [each.arm for each in candidates if shares[each.arm] > rule.contender_share]
    compared = [arm for arm in leading if arm != results.baseline] or leading
    counts: dict[str, int] = {}
    for arm, cell in results.cells if candidates[1:] else ():
        if arm in compared:
            counts[arm] = min(cell.processes, counts.get(arm, cell.processes))
    return counts
