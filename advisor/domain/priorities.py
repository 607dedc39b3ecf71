"""What matters to the user: the weights of the criteria."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

PILLARS = ("performance", "productivity", "portability")
FURTHER_CRITERIA = ("input_flexibility", "architecture_support")
CRITERIA = PILLARS + FURTHER_CRITERIA


class Priorities(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Weights of the criteria in percent.

    Performance, productivity and portability sum to 100. They share the part of the score that the
    other two criteria leave.
    """

    performance: float
    productivity: float
    portability: float
    input_flexibility: float = 10.0
    architecture_support: float = 10.0

    def shares(self) -> dict[str, float]:
        """Return each criterion's share of the score; the shares sum to 1."""
        further = {name: getattr(self, name) / 100 for name in FURTHER_CRITERIA}
        left = 1 - sum(further.values())
        return {**{name: getattr(self, name) / 100 * left for name in PILLARS}, **further}

    def describe(self) -> str:
        """Return the share of each criterion, such as `performance 32 %, productivity 28 %`."""
        shares = self.shares().items()
        return ", ".join(f"{name.replace('_', ' ')} {share * 100:.3g} %" for name, share in shares)

    def weigh(self, grades: Mapping[str, float]) -> float:
        """Return the score: the weighted mean of the grades."""
        return sum(share * grades[name] for name, share in self.shares().items())

    def weigh_all(self, grades: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
        """Return the score of each arm from its grades."""
        shares = self.shares().items()
        return {
            arm: sum(share * own[name] for name, share in shares) for arm, own in grades.items()
        }

    def with_weight(self, pillar: str, weight: float) -> Priorities:
        """Return the priorities with one pillar at `weight`.

        The other two pillars keep their proportion.
        """
        others = [name for name in PILLARS if name != pillar]
        total = sum(getattr(self, name) for name in others)
        portions = {
            name: getattr(self, name) / total if total else 1 / len(others) for name in others
        }
        rest = {name: (100 - weight) * portion for name, portion in portions.items()}
        return msgspec.structs.replace(self, **{pillar: weight}, **rest)
