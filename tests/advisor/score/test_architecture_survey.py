"""What a panel of models says of a workflow, and what that does to its tier."""

from __future__ import annotations

import builders
import pytest

from advisor.catalogue import rubric_files
from advisor.domain.catalogue import Panel
from advisor.domain.run_events import ModelSurveyed
from advisor.domain.survey import Survey
from advisor.errors import CatalogueError
from advisor.score import architecture_survey

PANEL = Panel(any_from=1.0, most_from=0.5)


def found(
    model: str, verdict: str = "pass", workflow: str = "compiled", run: str | None = None
) -> ModelSurveyed:
    reason = None if verdict == "pass" else "a reason"
    return ModelSurveyed(
        workflow=workflow,
        model=model,
        family="decoder",
        verdict=verdict,  # type: ignore[arg-type]
        reason=reason,
        run=run,
    )


def only(*findings: ModelSurveyed) -> Survey:
    (one,) = architecture_survey.summarise_surveys(findings, PANEL)
    return one


@pytest.mark.parametrize(
    ("verdicts", "word"),
    [
        (["pass", "pass"], "any"),
        (["pass", "wrong"], "most"),
        (["pass", "failed", "fell-back"], "listed"),
        (["pass", "untried"], "any"),
    ],
)
def test_the_share_that_passes_decides_the_word(verdicts: list[str], word: str) -> None:
    assert (
        only(*(found(str(place), verdict) for place, verdict in enumerate(verdicts))).architectures
        == word
    )


def test_what_eager_cannot_run_counts_neither_way() -> None:
    assert (
        only(found("one"), found("two", "untried")).passed,
        only(found("one"), found("two", "untried")).tried,
    ) == (1, 1)
    assert architecture_survey.summarise_surveys([found("one", "untried")], PANEL) == ()


def test_the_sentence_names_what_failed_and_where_it_was_found() -> None:
    one = only(found("llama", run="20261121"), found("t5", "fell-back", run="20261121"))
    assert (
        architecture_survey.describe_survey(one)
        == "1 of 2 surveyed models pass, not t5 (fell back), surveyed in run 20261121"
    )
    assert architecture_survey.describe_survey(
        only(*(found(str(place), "failed") for place in range(5)))
    ) == ("0 of 5 surveyed models pass, not 0 (failed), 1 (failed), 2 (failed) and 2 more")


@pytest.mark.parametrize(
    ("verdicts", "tier"), [(["pass", "pass"], 3), (["pass", "wrong"], 2), (["wrong", "wrong"], 1)]
)
def test_a_survey_takes_the_place_of_what_is_declared(verdicts: list[str], tier: int) -> None:
    surveys = architecture_survey.summarise_surveys(
        [found(str(place), verdict) for place, verdict in enumerate(verdicts)], PANEL
    )
    known = builders.catalogue(
        builders.workflow("compiled", declared=builders.declared(architectures="most"))
    )
    results = builders.results(
        builders.measurement("compiled"), builders.measurement(builders.BASELINE), surveys=surveys
    )
    scored = {arm.arm: arm for arm in builders.score_arms(results, builders.question(), known)}
    rating = scored["compiled"].ratings["architecture_support"]
    assert (rating.tier, rating.evidence) == (tier, "measured")
    assert f"{verdicts.count('pass')} of 2 surveyed models pass" in rating.why
    assert scored[builders.BASELINE].ratings["architecture_support"].evidence == "declared"


def test_new_shapes_that_were_tried_take_the_place_of_what_is_declared() -> None:
    known = builders.catalogue(
        builders.workflow("compiled", declared=builders.declared(new_shapes="refused"))
    )
    results = builders.results(builders.measurement("compiled", new_shapes="served"))
    (scored,) = builders.score_arms(results, builders.question(), known)
    rating = scored.ratings["input_flexibility"]
    assert (rating.tier, rating.value, rating.evidence) == (3, "served", "measured")


def test_the_shipped_panel_has_the_families_that_matter() -> None:
    panel = builders.shipped_catalogue().panel
    families = {model.family for model in panel.model}
    assert len(panel.model) >= 14
    assert {
        "decoder",
        "mixture of experts",
        "state space",
        "encoder",
        "encoder-decoder",
        "vision transformer",
        "convolutional",
    } <= families


@pytest.mark.parametrize("lines", ['factory = "a:b"\nconfig = { model_type = "llama" }', ""])
def test_a_panel_model_comes_from_one_place(
    lines: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    file = tmp_path_factory.mktemp("panel") / "panel.toml"
    file.write_text(f'[[model]]\nid = "odd"\nfamily = "decoder"\n{lines}\n')
    with pytest.raises(CatalogueError, match="odd must occur once"):
        rubric_files.read_panel(file)
