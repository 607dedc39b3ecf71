"""Letters and figures that the user requires of a recommended workflow."""

from __future__ import annotations

import msgspec

from advisor.domain.priorities import CRITERIA

#: A figure that may also be required as a letter, the class of what is lost of a trained model.
CLASSIFIED = "accuracy"
#: Letters that a constraint may ask for, by number; 0 is what is below C.
LETTERS = ("below C", "C", "B", "A")
#: Significant digits of a measured figure next to a bound; the fewest that suffice are shown.
MEASURED_DIGITS = range(3, 7)
MEBIBYTE = 2**20


def format_figure(name: str, value: float) -> str:
    """Return a figure that a constraint may name, in the form of `--require`.

    Bytes are shown in MiB and seconds in s, or in ms below 1 s.
    """
    if name == "speedup":
        return f"{value:g}x"
    if name == CLASSIFIED:
        return f"{value:.3g}"
    if name == "memory":
        return f"{value / MEBIBYTE:g}MiB"
    return f"{value:g}s" if value >= 1 else f"{value * 1e3:g}ms"


class Constraint(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """A letter or a figure that a workflow needs to be recommended; it never changes a score."""

    #: A criterion, or a figure: `speedup`, `memory` (bytes), `build`, `ttft`, `itl` (seconds),
    #: `accuracy` (at least: class of what is lost of a trained model; at most: relative error, or
    #: divergence of text in nats a token).
    criterion: str
    #: For a criterion or a class the letter's number: 3 is A, 2 is B, 1 is C.
    at_least: int | float | None = None
    at_most: int | float | None = None

    @property
    def asks_for_letter(self) -> bool:
        """Whether it names a letter, not a figure."""
        return self.criterion in CRITERIA or self.asks_for_class

    @property
    def asks_for_class(self) -> bool:
        """Whether it names a class of what is lost of a trained model: `accuracy>=B`."""
        return self.criterion == CLASSIFIED and self.at_least is not None

    def write(self, value: float) -> str:
        """Return a letter or a figure of its criterion in the form of `--require`."""
        return LETTERS[int(value)] if self.asks_for_letter else format_figure(self.criterion, value)

    def write_measured(self, value: float) -> str:
        """Return a value that does not meet the constraint with the fewest digits, at least three.

        Its rounded value does not meet the constraint either.
        """
        unit = MEBIBYTE if self.criterion == "memory" else 1
        rounded = (float(f"{value / unit:.{digits}g}") * unit for digits in MEASURED_DIGITS)
        return self.write(next((each for each in rounded if not self.admits(each)), value))

    def admits(self, value: float) -> bool:
        """Return whether the value is within the bounds."""
        above = self.at_least is None or value >= self.at_least
        return above and (self.at_most is None or value <= self.at_most)

    def distance(self, value: float) -> float:
        """Return how far the value is outside the bounds; 0 if it is within them."""
        below = 0.0 if self.at_least is None else self.at_least - value
        return max(0.0, below, 0.0 if self.at_most is None else value - self.at_most)

    @property
    def bound(self) -> str:
        """What is asked for, as the user writes it: `>=B`, `<=200ms`."""
        return ", ".join(
            f"{sign}{self.write(bound)}"
            for sign, bound in ((">=", self.at_least), ("<=", self.at_most))
            if bound is not None
        )

    @property
    def text(self) -> str:
        """The constraint as the user writes it: `portability>=B`."""
        return f"{self.criterion}{self.bound}"
