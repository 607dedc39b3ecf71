"""The GitHub Action: its schema, and its script with the real command line."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys

import pytest
from forks import run_command
from kept.runs import EVIDENCE

pytestmark = pytest.mark.slow

ACTION = pathlib.Path(__file__).parents[3] / ".github" / "actions" / "compare"
MEASURED = EVIDENCE / "cpu-demo.json"
ARM = "torch-compile-inductor"
#: A command line that measures nothing: `latest` is a kept run.
STUB = """\
#!/bin/sh
[ "$1" = recommend ] && exit 0
for word; do shift; [ "$word" = latest ] && word="$MEASURED"; set -- "$@" "$word"; done
exec {python} -m advisor "$@"
"""
#: A client of GitHub that notes its calls and the body, and lists the comments in COMMENTS.
GH_STUB = """\
#!/bin/sh
[ -n "$REFUSED" ] && exit 1
echo "$@" >> calls
for word; do
  case "$word" in
    --jq) echo "$COMMENTS" ;;
    body=*) cp "${word#body=@}" body ;;
  esac
done
"""


def test_the_action_has_the_form_that_github_expects() -> None:
    check = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.github-actions"]
    subprocess.run([*check, str(ACTION / "action.yml")], check=True)


def test_the_script_writes_the_comparison(tmp_path: pathlib.Path) -> None:
    answer = run_action(tmp_path, 1.0)
    assert answer.returncode == 0, answer.stderr
    output = (tmp_path / "output").read_text()
    assert output.strip().removeprefix("outcome=") in {"no-regression", "undecided"}
    text = (tmp_path / "summary.md").read_text()
    assert text.startswith("## p3-advisor:")
    assert text.count(f"| {ARM}") >= 2, "the comparison and the report"
    assert not (tmp_path / "calls").exists(), "no comment was asked for"


@pytest.mark.parametrize(
    ("comments", "calls"),
    [
        ("", ["repos/o/r/issues/7/comments", "repos/o/r/issues/7/comments"]),
        ("41\n42", ["repos/o/r/issues/7/comments", "repos/o/r/issues/comments/41"]),
    ],
)
def test_a_regression_fails_and_is_one_comment_of_the_pull_request(
    comments: str, calls: list[str], tmp_path: pathlib.Path
) -> None:
    answer = run_action(tmp_path, 1000.0, COMMENT="true", PULL_REQUEST="7", COMMENTS=comments)
    assert answer.returncode == 1, answer.stderr
    assert (tmp_path / "output").read_text().strip() == "outcome=regression"
    made = [line.split() for line in (tmp_path / "calls").read_text().splitlines()]
    assert [call[1] for call in made] == calls
    assert ("PATCH" in made[1]) == bool(comments)
    body = (tmp_path / "body").read_text()
    assert body.startswith("<!-- p3-advisor compare -->\n## p3-advisor:")


def test_runs_that_are_not_comparable_fail_with_a_summary(tmp_path: pathlib.Path) -> None:
    other = str(EVIDENCE / "cpu-vit-base-float32.json")
    answer = run_action(tmp_path, 1.0, BASELINE=other)
    assert answer.returncode == 2, answer.stderr
    assert (tmp_path / "output").read_text().strip() == "outcome=not-comparable"
    assert "No verdict" in (tmp_path / "summary.md").read_text()


def test_a_comment_that_is_refused_does_not_change_the_result(tmp_path: pathlib.Path) -> None:
    answer = run_action(tmp_path, 1.0, COMMENT="true", PULL_REQUEST="7", REFUSED="1")
    assert answer.returncode == 0, answer.stderr
    assert "::warning::" in answer.stdout


def run_action(
    place: pathlib.Path, factor: float, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run the script of the action against a baseline in which `ARM` is `factor` times as fast."""
    baseline = place / "baseline.json"
    baseline.write_text(faster(MEASURED.read_text(), factor))
    programs = place / "bin"
    programs.mkdir()
    for name, text in (("p3-advisor", STUB.format(python=sys.executable)), ("gh", GH_STUB)):
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    asked = {
        "MEASURED": str(MEASURED),
        "PATH": f"{programs}:{os.environ['PATH']}",
        "MODEL": "demo",
        "OPTIONS": "--budget quick",
        "BASELINE": str(baseline),
        "THRESHOLD": "5%",
        "FAIL_ON_UNDECIDED": "false",
        "COMMENT": "false",
        "PULL_REQUEST": "",
        "GITHUB_REPOSITORY": "o/r",
        "GITHUB_STEP_SUMMARY": str(place / "summary.md"),
        "GITHUB_OUTPUT": str(place / "output"),
    }
    script = str(ACTION / "compare.sh")
    return run_command(["bash", script], {**of_home(place), **asked, **variables}, place)


def of_home(home: pathlib.Path) -> dict[str, str]:
    root = str(pathlib.Path(__file__).parents[3])
    return {"P3_ADVISOR_HOME": str(home), "PYTHONPATH": root}


def faster(document: str, factor: float) -> str:
    """Return the document of an earlier run with the speed-ups of `ARM` times `factor`."""
    values = json.loads(document)
    values["run_id"] = "20261101-120000-0000"
    for entry in values["results"]["measurements"]:
        for cell in entry["cells"] if entry["arm"] == ARM else ():
            for name in ("value", "low", "high"):
                if cell["speedup"][name] is not None:
                    cell["speedup"][name] *= factor
            for name in ("median", "low", "high"):
                if cell["seconds"][name] is not None:
                    cell["seconds"][name] /= factor
    return json.dumps(values)


def test_a_shell_gets_completions(tmp_path: pathlib.Path) -> None:
    variables = {
        **of_home(tmp_path),
        "_P3_ADVISOR_COMPLETE": "complete_bash",
        "COMP_WORDS": "p3-advisor rec",
        "COMP_CWORD": "1",
    }
    answer = run_command([sys.executable, "-m", "advisor"], variables)
    assert {"recipe", "recommend"} <= set(answer.stdout.split())
