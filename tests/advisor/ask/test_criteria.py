"""The grades of `criteria.toml`: errors name the criterion, the fact and the line."""

from __future__ import annotations

import pathlib
from collections.abc import Callable

import pytest

from advisor.ask import rubric_files
from advisor.errors import CatalogueError

Edit = Callable[[str, str, str], None]
#: The grades of the first fact of the shipped rubric.
KNOTS = "[[0.5, -0.5], [1.0, 1.0], [1.1, 1.5], [1.5, 2.5], [3.0, 4.0]]"


def load_error(rubric: pathlib.Path) -> CatalogueError:
    with pytest.raises(CatalogueError) as problem:
        rubric_files.load(rubric)
    assert "\n" not in problem.value.what
    assert problem.value.next_step
    return problem.value


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('id = "performance"', 'id = "portability"', "the criteria must be"),
        ("tier = 2", "tier = 1", "performance: the tiers must be 3, 2, 1"),
        ("tier = 3", "tier = 2", "performance: the tiers must be 3, 2, 1"),
        (
            "tier = 3",
            'tier = 3\nall = [{ fact = "speedup", at_least = 1.2 }]',
            "unknown field `all`",
        ),
        (
            'fact = "speedup"',
            'fact = "speedup_high"',
            "performance: unknown fact 'speedup_high'",
        ),
        ("[1.5, 2.5], [3.0, 4.0]", "[1.5, 2.5], [3.0, 2.0]", "speedup are not monotone"),
        ("[1.5, 2.5], [3.0, 4.0]", "[3.0, 2.5], [1.5, 4.0]", "speedup must have rising figures"),
        ("[1.5, 2.5], [3.0, 4.0]", "[1.5, 2.5], [1.5, 4.0]", "speedup must have rising figures"),
        ("[0.5, -0.5]", "[0.0, -0.5]", "speedup need two figures above 0"),
        (KNOTS, "[[1.0, 1.0]]", "speedup need two figures above 0"),
        (KNOTS, "[]", "speedup needs either knots or values"),
        (KNOTS, f"{KNOTS}\nvalues = {{ yes = 3.0 }}", "speedup needs either knots or values"),
        ("[1.5, 2.5], [3.0, 4.0]", "[1.5, 2.5], [inf, 4.0]", "speedup is not a finite number"),
        ("[0, 3.0], [6, 2.0]", "[-inf, 3.0], [6, 2.0]", "lines_changed is not a finite number"),
        ("false = 3.0, true = 2.0", "false = nan, true = 2.0", "export_step is not a finite"),
        ('between = "step"', 'between = "spline"', "spline"),
    ],
)
def test_a_rubric_without_a_grade_for_every_workflow_is_an_error(
    rubric: pathlib.Path, edit: Edit, old: str, new: str, words: str
) -> None:
    edit("criteria.toml", old, new)
    assert words in load_error(rubric).what


def test_a_criterion_without_grades_is_an_error(rubric: pathlib.Path) -> None:
    file = rubric / "criteria.toml"
    text = file.read_text()
    start, end = text.index("\n[[criteria.grades]]"), text.index("\n[[criteria.tiers]]")
    file.write_text(text[:start] + text[end:])
    assert "performance" in load_error(rubric).what


@pytest.mark.parametrize(
    ("old", "new", "table"),
    [
        ('fact = "speedup"', 'fact = "speedup_high"', "[[criteria]]"),
        ("[1.5, 2.5], [3.0, 4.0]", "[1.5, 2.5], [inf, 4.0]", "[[criteria]]"),
        ("[1.5, 2.5], [3.0, 4.0]", "[1.5, 2.5], [3.0, 2.0]", "[[criteria.grades]]"),
        ('why = "a substantial gain over the baseline"\n', "", "[[criteria.tiers]]"),
    ],
)
def test_the_error_of_a_criterion_names_the_line_of_its_table(
    rubric: pathlib.Path, edit: Edit, old: str, new: str, table: str
) -> None:
    edit("criteria.toml", old, new)
    lines = (rubric / "criteria.toml").read_text().splitlines()
    assert f"criteria.toml:{lines.index(table) + 1}:" in load_error(rubric).what


def test_the_error_of_a_later_grade_names_the_line_of_that_grade(
    rubric: pathlib.Path, edit: Edit
) -> None:
    edit("criteria.toml", "[120, 2.5], [900, 1.5]", "[120, 1.5], [900, 2.5]")
    lines = (rubric / "criteria.toml").read_text().splitlines()
    line = lines.index('fact = "build_seconds"')
    assert lines[line - 1] == "[[criteria.grades]]"
    assert f"criteria.toml:{line}:" in load_error(rubric).what


def test_an_unknown_fact_is_an_error(rubric: pathlib.Path, edit: Edit) -> None:
    """A rubric cannot add facts, because their values would be unknown."""
    edit(
        "criteria.toml",
        "[facts.vendors]",
        '[facts.beauty]\nunit = ""\nevidence = "declared"\nmeaning = "how it looks"\n\n'
        "[facts.vendors]",
    )
    edit("criteria.toml", 'fact = "speedup"', 'fact = "beauty"')
    assert "beauty" in load_error(rubric).what
