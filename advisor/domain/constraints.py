"""What the user wants: weights of the criteria, and letters and figures that are required."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated

import msgspec

from advisor.domain.arm_figures import ARM_FIGURES, CLASSIFIED, UNITS, Dimension, Sign, Unit
from advisor.domain.errors import OptionValueError
from advisor.domain.measurement import Measurement


class Priorities(msgspec.Struct, frozen=True, kw_only=True):
    """Weights of the criteria in percent.

    Performance, productivity and portability sum to 100. They share the part of the score that the
    further criteria leave.
    """

    # A field declares a criterion, with its head; further criteria are those with a default.
    performance: Annotated[float, "Perf"]
    productivity: Annotated[float, "Prod"]
    portability: Annotated[float, "Port"]
    input_flexibility: Annotated[float, "Flex"] = 10.0
    architecture_support: Annotated[float, "Arch"] = 10.0

    def shares(self) -> dict[str, float]:
        """Return each criterion's share of the score; the shares sum to 1."""
        further = {name: getattr(self, name) / 100 for name in FURTHER_CRITERIA}
        left = 1 - sum(further.values())
        return {**{name: getattr(self, name) / 100 * left for name in PILLARS}, **further}

    def describe(self) -> str:
        three, further = (
            ", ".join(f"{name.replace('_', ' ')} {getattr(self, name):.3g} %" for name in names)
            for names in (PILLARS, FURTHER_CRITERIA)
        )
        return f"{three} of the three Ps; {further} of the score"

    @property
    def option(self) -> str:
        """The weights in the form of `--priority`, exact enough to sum to 100."""
        further = [
            name
            for name in FURTHER_CRITERIA
            if getattr(self, name) != getattr(DEFAULT_PRIORITIES, name)
        ]
        return ",".join(f"{name}={getattr(self, name):.9g}" for name in (*PILLARS, *further))

    def weigh(self, grades: Mapping[str, float]) -> float:
        return sum(share * grades[name] for name, share in self.shares().items())

    def with_weight(self, pillar: str, weight: float) -> Priorities:
        others = [name for name in PILLARS if name != pillar]
        total = sum(getattr(self, name) for name in others)
        portions = {
            name: getattr(self, name) / total if total else 1 / len(others) for name in others
        }
        # The other two pillars keep their proportion.
        rest = {name: (100 - weight) * portion for name, portion in portions.items()}
        return msgspec.structs.replace(self, **{pillar: weight}, **rest)


_CRITERIA = msgspec.structs.fields(Priorities)
PILLARS = tuple(each.name for each in _CRITERIA if each.required)
FURTHER_CRITERIA = tuple(each.name for each in _CRITERIA if not each.required)
CRITERIA = PILLARS + FURTHER_CRITERIA
#: Heads of the criteria, in the order of every table. Options take them for the names, too.
CRITERION_HEADS: dict[str, str] = {each.name: each.type.__metadata__[0] for each in _CRITERIA}

#: The priorities of the preset `balanced`, which an answer does not state.
DEFAULT_PRIORITIES = Priorities(performance=40, productivity=35, portability=25)

LETTERS = {3: "A", 2: "B", 1: "C"}
#: Numbers of the letters; options also take the number itself.
TIERS = {name: tier for tier, letter in LETTERS.items() for name in (letter, str(tier))}
#: Significant digits of a measured figure next to a bound; the fewest that suffice are shown.
MEASURED_DIGITS = range(3, 7)
#: Constraints as the user writes them, one of each kind.
EXAMPLES = (
    "portability>=B",
    f"{CLASSIFIED}>=B",
    *(f"{name}{figure.comparison}{figure.example}" for name, figure in ARM_FIGURES.items()),
)


class Constraint(msgspec.Struct, frozen=True, omit_defaults=True):
    """A letter or a figure that a workflow needs to be recommended; it never changes a score."""

    #: What is limited: a criterion, or one of `ARM_FIGURES`, in bytes or seconds. `accuracy`: at
    #: least a class of what a trained model loses, at most a relative error, or divergence of text
    #: in nats a token.
    quantity: str
    comparison: Sign
    #: The limit itself; for a criterion or a class the letter's number: 3 is A, 2 is B, 1 is C.
    limit: int | float
    #: Unit of the limit as the user wrote it; null for none.
    unit: Unit | None = None

    @property
    def asks_for_letter(self) -> bool:
        return self.quantity in CRITERIA or self.asks_for_class

    @property
    def asks_for_class(self) -> bool:
        """Whether it names a class of what is lost of a trained model: `accuracy>=B`."""
        return self.quantity == CLASSIFIED and self.comparison == ">="

    def write(self, value: float) -> str:
        """Return a value of the quantity in the form of `--require`."""
        if self.asks_for_letter:
            return LETTERS.get(int(value), "below C")
        if ARM_FIGURES[self.quantity].dimension == "factor":
            return f"{value:.12g}x"
        unit = self.shown_unit(value)
        return f"{value:.12g}" if unit is None else f"{value / UNITS[unit]:.12g}{unit}"

    def shown_unit(self, value: float) -> Unit | None:
        """Return the user's unit, else MiB for bytes and s, or ms below 1 s, for a time."""
        units: dict[Dimension, Unit] = {"bytes": "MiB", "seconds": "s" if value >= 1 else "ms"}
        return self.unit or units.get(ARM_FIGURES[self.quantity].dimension)

    def write_measured(self, value: float) -> str:
        """Return a value that fails the constraint, with digits whose rounding fails it, too."""
        unit = None if self.asks_for_letter else self.shown_unit(value)
        size = 1 if unit is None else UNITS[unit]
        rounded = (float(f"{value / size:.{digits}g}") * size for digits in MEASURED_DIGITS)
        return self.write(next((each for each in rounded if not self.admits(each)), value))

    def admits(self, value: float) -> bool:
        return value >= self.limit if self.comparison == ">=" else value <= self.limit

    def crossed_by(self, one: Measurement) -> tuple[float, float] | None:
        """Return the spread of an arm's figure if the limit lies within it."""
        figure = None if self.asks_for_letter else ARM_FIGURES[self.quantity]
        low, high = (figure.spread(one) if figure else None) or (None, None)
        if low is None or high is None or self.admits(low) == self.admits(high):
            return None
        return low, high

    @property
    def bound(self) -> str:
        """What is asked for, as the user writes it: `>=B`, `<=200ms`."""
        return f"{self.comparison}{self.write(self.limit)}"

    @property
    def text(self) -> str:
        """The constraint as the user writes it: `portability>=B`."""
        return f"{self.quantity}{self.bound}"


def check_constraints(constraints: Iterable[Constraint], task: str) -> None:
    """Raise `OptionValueError` for a figure that the task does not measure."""
    for constraint in constraints:
        figure = None if constraint.asks_for_letter else ARM_FIGURES.get(constraint.quantity)
        if figure is not None and task not in figure.tasks:
            raise OptionValueError(
                f"the task {task} does not measure {constraint.quantity}, which --require limits",
                f"it needs --task {' or '.join(figure.tasks)}; --task serve has limits of its own,"
                " --ttft and --itl",
            )


class FailedConstraint(msgspec.Struct, frozen=True, kw_only=True):
    """A constraint that an arm does not meet."""

    #: Its index in the question's constraints.
    index: int
    constraint: Constraint
    #: The letter's number or the figure that the arm has; null if it is unknown.
    value: float | None
    #: Whether it is unknown because random weights show no loss of a trained model.
    needs_real_weights: bool = False

    @property
    def text(self) -> str:
        constraint = self.constraint
        if self.value is not None:
            has = constraint.write_measured(self.value)
        else:
            has = "unknown with random weights" if self.needs_real_weights else "unknown"
        return f"{constraint.quantity} is {has}; the constraint requires {constraint.bound}"
