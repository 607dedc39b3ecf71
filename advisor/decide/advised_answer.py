"""What the lines of the headline are written from: an answer with a recommendation. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from advisor.domain.answer import Answer
from advisor.domain.machine import describe_device
from advisor.domain.measurement import Measurement
from advisor.domain.model import short_name
from advisor.domain.recommendation import Certainty, Recommendation
from advisor.domain.scores import ScoredArm


class AdvisedAnswer(NamedTuple):
    """A measured answer with its recommendation, and the advised arm."""

    answer: Answer
    advice: Recommendation
    certainty: Certainty
    scored: ScoredArm
    measured: Measurement

    @classmethod
    def of(cls, answer: Answer) -> AdvisedAnswer | None:
        """Return None for an answer without a recommendation or without measurements."""
        advice, advised = answer.recommendation, answer.advised
        if advice is None or advised is None:
            return None
        if advice.certainty is None or advised.measured is None:
            return None
        return cls(answer, advice, advice.certainty, advised.scored, advised.measured)

    @property
    def arms(self) -> dict[str, ScoredArm]:
        """The scores by arm."""
        return {arm.arm: arm for arm in self.answer.scores}

    @property
    def titles(self) -> dict[str, str]:
        return self.answer.titles

    @property
    def baseline_title(self) -> str:
        baseline = self.answer.results.baseline
        return self.titles.get(baseline, baseline)

    @property
    def noise_floor(self) -> float:
        """Largest difference between two equal workers; 0 if it is not known."""
        return self.answer.results.noise_floor or 0.0

    @property
    def subject(self) -> str:
        """What the headline is about: `demo on AMD EPYC, 2 cores`."""
        question, machine = self.answer.question, self.answer.machine
        gpu = machine.find_gpu(question.gpu)
        device = describe_device(machine.cpu, gpu, question.devices_per_model)
        return f"{short_name(question.model)} on {device}"


def join_names(names: Sequence[str], conjunction: str = "and") -> str:
    """Return the names as a list, with semicolons where a name has a comma."""
    *others, last = names
    if not others:
        return last
    if len(others) > 1 and any("," in name for name in names):
        return f"{'; '.join(others)}; {conjunction} {last}"
    return f"{', '.join(others)} {conjunction} {last}"
