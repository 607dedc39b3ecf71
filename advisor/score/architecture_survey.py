"""Architecture Support of a workflow, measured on a panel of small models. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from advisor.domain.catalogue import Panel
from advisor.domain.run_events import ModelSurveyed
from advisor.domain.survey import Survey, SurveyedModel

#: Models that are named in a sentence; more are counted.
MOST_NAMED = 3


def summarise_surveys(findings: Iterable[ModelSurveyed], panel: Panel) -> tuple[Survey, ...]:
    """Return the results of each workflow that tried a model, in the order of the findings."""
    by_workflow: dict[str, list[ModelSurveyed]] = {}
    for finding in findings:
        by_workflow.setdefault(finding.workflow, []).append(finding)
    surveys = []
    for workflow, found in by_workflow.items():
        tried = [finding for finding in found if finding.verdict != "untried"]
        if tried:
            passed = sum(finding.verdict == "pass" for finding in tried)
            surveys.append(
                Survey(
                    workflow=workflow,
                    passed=passed,
                    tried=len(tried),
                    architectures=_support_level(passed / len(tried), panel),
                    models=tuple(
                        SurveyedModel(
                            model=one.model,
                            family=one.family,
                            verdict=one.verdict,
                            reason=one.reason,
                        )
                        for one in found
                    ),
                    run=next((finding.run for finding in found if finding.run), None),
                )
            )
    return tuple(surveys)


def _support_level(share: float, panel: Panel) -> str:
    if share >= panel.any_from:
        return "any"
    return "most" if share >= panel.most_from else "listed"


def describe_survey(survey: Survey) -> str:
    """Return the survey in a sentence: how many models pass, and which do not."""
    missed = [
        f"{one.model} ({one.verdict.replace('-', ' ')})"
        for one in survey.models
        if one.verdict not in {"pass", "untried"}
    ]
    named = ", ".join(missed[:MOST_NAMED]) + (
        f" and {len(missed) - MOST_NAMED} more" if len(missed) > MOST_NAMED else ""
    )
    origin = f", surveyed in run {survey.run}" if survey.run else ""
    return (
        f"{survey.passed} of {survey.tried} surveyed models pass"
        + (f", not {named}" if missed else "")
        + origin
    )


def find_survey(surveys: Sequence[Survey], workflow: str) -> Survey | None:
    """Return the survey of a workflow; None where there is none."""
    return next((survey for survey in surveys if survey.workflow == workflow), None)
