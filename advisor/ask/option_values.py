"""Parse the values of options: weights, constraints, tolerances, formats of weights and files."""

from __future__ import annotations

import math
import pathlib
import re
from collections.abc import Callable, Mapping, Sequence
from typing import get_args

from advisor.ask.model_files import check_factory, check_function
from advisor.ask.run_options import RunOptions
from advisor.domain.arm_figures import ARM_FIGURES, CLASSIFIED, FROM_ZERO, UNITS, Dimension, Unit
from advisor.domain.catalogue import Catalogue
from advisor.domain.constraints import (
    CRITERIA,
    CRITERION_HEADS,
    EXAMPLES,
    FURTHER_CRITERIA,
    PILLARS,
    TIERS,
    Constraint,
    Priorities,
)
from advisor.domain.errors import OptionValueError, choose_among
from advisor.domain.question import WeightFormat

EXACT = "exact"
BYTES: tuple[Unit, ...] = ("B", "kB", "MB", "GB", "KiB", "MiB", "GiB")
SECONDS: tuple[Unit, ...] = ("us", "ms", "s", "min", "h")
#: Spellings of units in small letters, by the dimension of a figure; None if it has no unit.
UNIT_SPELLINGS: Mapping[Dimension, Mapping[str, Unit | None]] = {
    "factor": {"x": None, "": None},
    "bytes": {unit.lower(): unit for unit in BYTES},
    "seconds": {"m": "min", **{unit: unit for unit in SECONDS}},
    "share": {"": None, "%": "%"},
    "count": {"": None},
}


def parse_share(option: str, text: str, example: str = "5% or 0.05") -> float:
    """Return a share of at most 1, a number or a percentage; raise `OptionValueError`."""
    found = _figure(text.strip(), "share")
    if found is None or found[0] > 1:
        raise OptionValueError(
            f"{option} {text!r} is not a share of at most 100 %", f"write {example}"
        )
    return found[0]


def parse_tolerance(text: str) -> float | None:
    """Return the largest relative error: 0 for `exact`, None for an empty text."""
    written = text.strip().lower()
    if not written:
        return None
    return 0.0 if written == EXACT else parse_share("--accuracy", written, "exact, 1e-3 or 1%")


ANY = "any"
WEIGHT_FORMATS: tuple[WeightFormat, ...] = get_args(WeightFormat)


def choose_weight_formats(text: str, constraints: Sequence[Constraint]) -> tuple[WeightFormat, ...]:
    """Return the formats of `--quantised`, or all where a constraint names a class of accuracy.

    Such a constraint, `accuracy>=B`, accepts a loss. Raise `OptionValueError` for another name.
    """
    if not text and any(constraint.asks_for_class for constraint in constraints):
        return WEIGHT_FORMATS
    names = {part.strip().lower() for part in text.split(",")} - {""}
    unknown = names - {*WEIGHT_FORMATS, ANY}
    if unknown:
        raise OptionValueError(
            f"--quantised {text!r}: unknown format {min(unknown)!r}",
            choose_among(min(unknown), [*WEIGHT_FORMATS, ANY]),
        )
    return tuple(name for name in WEIGHT_FORMATS if ANY in names or name in names)


def parse_inputs(text: str) -> str:
    """Return the absolute path of an .npz file, or `file.py:function` with one."""
    if text.endswith(".npz") or not text:
        return parse_file("--inputs", text, "check the path")
    return parse_function("--inputs", text, check_factory)


def parse_file(option: str, text: str, fix: str) -> str:
    """Return the absolute path of a file; raise `OptionValueError` if it is missing."""
    file = pathlib.Path(text).expanduser()
    if text and not file.is_file():
        raise OptionValueError(f"{option} {text!r} is not a file", fix)
    return text and str(file.resolve())


def parse_function(
    option: str, text: str, check: Callable[[pathlib.Path, str], None] = check_function
) -> str:
    """Return `file.py:function` with an absolute path.

    Raise `OptionValueError` for a missing file, and what `check`, by default that it defines the
    function, raises.
    """
    if not text:
        return ""
    name, _, function = text.rpartition(":")
    file = pathlib.Path(name).expanduser()
    if not (file.is_file() and function.isidentifier()):
        raise OptionValueError(f"{option} {text!r} names no file", "write it like file.py:function")
    check(file, function)
    return f"{file.resolve()}:{function}"


PATTERN = re.compile(r"\s*([a-z0-9_-]+)\s*(>=|<=)\s*([^\s<>=]+)\s*", re.IGNORECASE)
NUMBER_ALONE = re.compile(r"[0-9]+\.?[0-9]*")
NUMBER = re.compile(r"([0-9.eE+-]+?)\s*([a-zA-Z%]*)")


def parse_constraints(text: str) -> tuple[Constraint, ...]:
    return tuple(_parse(part) for part in text.split(",") if part.strip())


def parse_duration(option: str, text: str) -> float:
    """Return the seconds of a duration such as `90s` or `5min`; raise `OptionValueError`."""
    found = _figure(text.strip(), "seconds")
    if found is None and (likely := _likely_times(option, text.strip())):
        raise OptionValueError(f"{option} {text!r} has no unit", f"write {likely}")
    if found is None:
        raise OptionValueError(
            f"{option} {text!r} is not a duration", "write it like 90s, 5min or 1h"
        )
    return found[0]


def _likely_times(name: str, text: str) -> str:
    """Return what a number without a unit may mean; empty for another text."""
    if not NUMBER_ALONE.fullmatch(text) or not float(text):
        return ""
    figure = ARM_FIGURES.get(name.removeprefix("--"))
    is_short = figure is not None and figure.example.endswith("ms")
    units = ("ms", "s") if is_short else ("s", "min")
    return " or ".join(f"{text}{unit}" for unit in units)


def _parse(part: str) -> Constraint:
    match = PATTERN.fullmatch(part)
    unread = (re.split("[<>=]", part)[0].strip(), "", "")
    given, comparison, value = match.groups() if match is not None else unread
    name = full_name(given)
    figure = ARM_FIGURES.get(name)
    if name in CRITERIA or (name == CLASSIFIED and comparison == ">="):
        tier = TIERS.get(value.upper())
        if tier is not None and comparison == ">=":
            return Constraint(name, ">=", tier)
    elif figure and figure.comparison == comparison:
        number, unit = _figure(value, figure.dimension) or (None, None)
        if number is not None:
            return Constraint(name, figure.comparison, number, unit=unit)
    if figure and figure.dimension == "seconds" and (likely := _likely_times(name, value)):
        raise OptionValueError(f"{part.strip()!r} in --require has no unit", f"write {likely}")
    names = [*CRITERIA, *ARM_FIGURES]
    like = f"{name}{figure.comparison}{figure.example}" if figure else ", ".join(EXAMPLES)
    raise OptionValueError(
        f"{part.strip()!r} in --require is not a constraint",
        choose_among(given, names)
        if given and name not in names
        else f"write it like {like}; valid names: {', '.join(names)}",
    )


def _figure(text: str, dimension: Dimension) -> tuple[float, Unit | None] | None:
    """Return a figure in the base unit with its unit.

    Return None unless it is a positive number with a known unit, or 0 for some dimensions.
    """
    match, spellings = NUMBER.fullmatch(text), UNIT_SPELLINGS[dimension]
    if match is None or match[2].lower() not in spellings:
        return None
    unit = spellings[match[2].lower()]
    try:
        number = float(match[1]) * (1 if unit is None else UNITS[unit])
    except ValueError:
        return None
    is_limit = number > 0 or (number == 0 and dimension in FROM_ZERO)
    return (number, unit) if math.isfinite(number) and is_limit else None


def full_name(name: str) -> str:
    """Return the criterion with this head in tables, such as `performance` for `perf`; or `name`.

    That is spelled as the names of criteria and figures are.
    """
    key = name.lower().replace("-", "_")
    return next((each for each, head in CRITERION_HEADS.items() if head.lower() == key), key)


def choose_priorities(run_options: RunOptions, catalogue: Catalogue) -> Priorities:
    if run_options.priority and run_options.preset:
        raise OptionValueError(
            "--priority and --preset both set the weights", "use only one of them"
        )
    if run_options.priority:
        return parse_priorities(run_options.priority)
    name = run_options.preset or catalogue.presets.default_preset
    if name not in catalogue.presets.priorities:
        raise OptionValueError(
            f"unknown preset {name!r}", choose_among(name, catalogue.presets.priorities)
        )
    return catalogue.presets.priorities[name].priorities


def parse_priorities(text: str) -> Priorities:
    """Parse weights; those of the three Ps must sum to 100, and one that is left out is 0."""
    example = "write it like performance=60,productivity=25,portability=15"
    weights: dict[str, float] = {}
    for part in text.split(","):
        name, equals, number = (word.strip() for word in part.partition("="))
        key = full_name(name)
        if not equals or key not in CRITERIA or key in weights:
            raise OptionValueError(
                f"{part.strip()!r} in --priority is not a weight of a criterion, or is given twice",
                choose_among(name, CRITERIA) if equals and key not in weights else example,
            )
        try:
            weights[key] = float(number)
        except ValueError as problem:
            raise OptionValueError(
                f"the weight of {name} is not a number: {number!r}", example
            ) from problem
        if not (math.isfinite(weights[key]) and 0 <= weights[key] <= 100):  # noqa: PLR2004 - percent
            raise OptionValueError(
                f"the weight of {name} is not between 0 and 100: {number}", example
            )
    weights = {**dict.fromkeys(PILLARS, 0.0), **weights}
    total = sum(weights[name] for name in PILLARS)
    if abs(total - 100) > 1e-6:  # noqa: PLR2004 - percent, and rounding
        raise OptionValueError(
            f"performance, productivity and portability sum to {total:g}, not 100", example
        )
    priorities = Priorities(**weights)
    if sum(getattr(priorities, name) for name in FURTHER_CRITERIA) > 100:  # noqa: PLR2004 - percent
        raise OptionValueError(
            f"the weights of {' and '.join(FURTHER_CRITERIA)} exceed 100 together",
            "reduce them to at most 100 together",
        )
    return priorities
