"""Parse the weights of `--priority` and `--preset`."""

from __future__ import annotations

import math

from advisor.ask.answers import Answers
from advisor.domain.catalogue import Catalogue
from advisor.domain.priorities import CRITERIA, FURTHER_CRITERIA, PILLARS, Priorities
from advisor.errors import PriorityError, UnknownPresetError


def choose_priorities(answers: Answers, catalogue: Catalogue) -> Priorities:
    """Return the weights of `--priority`, else those of the preset."""
    if answers.priority and answers.preset:
        raise PriorityError("--priority and --preset both set the weights", "use only one of them")
    if answers.priority:
        return parse_priorities(answers.priority)
    name = answers.preset or catalogue.presets.default_preset
    if name not in catalogue.presets.priorities:
        raise UnknownPresetError(
            f"unknown preset {name!r}", f"use one of {', '.join(catalogue.presets.priorities)}"
        )
    return catalogue.presets.priorities[name].priorities


def parse_priorities(text: str) -> Priorities:
    """Parse weights; those of the three Ps are required and must sum to 100."""
    example = "write it like performance=60,productivity=25,portability=15"
    weights: dict[str, float] = {}
    for part in text.split(","):
        name, equals, number = (word.strip() for word in part.partition("="))
        key = name.replace("-", "_")
        if not equals or key not in CRITERIA or key in weights:
            raise PriorityError(
                f"{part.strip()!r} in --priority is not a weight of a criterion, or is given twice",
                example,
            )
        try:
            weights[key] = float(number)
        except ValueError as problem:
            raise PriorityError(
                f"the weight of {name} is not a number: {number!r}", example
            ) from problem
        if not (math.isfinite(weights[key]) and 0 <= weights[key] <= 100):  # noqa: PLR2004 - percent
            raise PriorityError(f"the weight of {name} is not between 0 and 100: {number}", example)
    missing = [name for name in PILLARS if name not in weights]
    if missing:
        raise PriorityError(f"--priority sets no weight for {', '.join(missing)}", example)
    total = sum(weights[name] for name in PILLARS)
    if abs(total - 100) > 1e-6:  # noqa: PLR2004 - percent, and rounding
        raise PriorityError(
            f"performance, productivity and portability sum to {total:g}, not 100", example
        )
    priorities = Priorities(**weights)
    if sum(getattr(priorities, name) for name in FURTHER_CRITERIA) > 100:  # noqa: PLR2004 - percent
        raise PriorityError(
            f"the weights of {' and '.join(FURTHER_CRITERIA)} exceed 100 together",
            "reduce them to at most 100 together",
        )
    return priorities
