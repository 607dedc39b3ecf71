"""The criteria, their tiers and the facts that decide them, as `criteria.toml` has them."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

Basis = Literal["paper", "ours"]
Tier = Annotated[int, msgspec.Meta(ge=1, le=3)]


class Condition(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A fact compared with a threshold; exactly one comparison is given."""

    fact: str
    at_least: float | None = None
    at_most: float | None = None
    #: Whether an unknown fact meets it: for what is measured only sometimes.
    when_known: bool = False
    is_one_of: tuple[str | int | bool, ...] | None = None


class TierRule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All conditions of a tier; none for the tier that is left over."""

    tier: Tier
    all: tuple[Condition, ...]
    basis: Basis
    source: Annotated[str, msgspec.Meta(min_length=1)]
    why: Annotated[str, msgspec.Meta(min_length=1)]


class Fact(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A fact that rules may use; the vocabulary is closed."""

    unit: str
    evidence: Literal["measured", "declared"]
    meaning: str


class Criterion(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One of the paper's five criteria, with its tiers from best to least."""

    id: str
    title: str
    question: str
    tiers: tuple[TierRule, ...]


class Rubric(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The criteria, the facts they rest on, and the margins of the decision."""

    name: str
    minimum_engaged_share: Annotated[float, msgspec.Meta(ge=0, le=1)]
    facts: dict[str, Fact]
    criteria: tuple[Criterion, ...]
