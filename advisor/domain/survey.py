"""Which models of the survey a workflow supports."""

from __future__ import annotations

from typing import Literal

import msgspec


class SurveyedModel(msgspec.Struct, frozen=True, kw_only=True):
    """Result of a workflow for one model of the survey."""

    model: str
    family: str
    verdict: Literal["pass", "wrong", "failed", "fell-back", "untried"]
    reason: str | None


class Survey(msgspec.Struct, frozen=True, kw_only=True):
    """Results of a workflow for the panel's models and the user's model."""

    workflow: str
    passed: int
    #: Number of models that eager PyTorch can run.
    tried: int
    #: Support for architectures, as the rubric's fact: `any`, `most`, `listed`.
    architectures: str
    models: tuple[SurveyedModel, ...]
    #: Earlier run that made the survey; null for this run.
    run: str | None
