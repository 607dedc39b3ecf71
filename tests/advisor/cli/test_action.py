"""The GitHub Action: its schema, and its script with the real command line."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys

import pytest

ACTION = pathlib.Path(__file__).parents[3] / ".github" / "actions" / "compare"
MEASURED = pathlib.Path(__file__).parents[2] / "stacks" / "evidence" / "cpu-demo.json"
ARM = "torch-compile-inductor"
#: A command line that measures nothing: `latest` is a kept run.
STUB = """\
#!/bin/sh
[ "$1" = recommend ] && exit 0
for word; do shift; [ "$word" = latest ] && word="$MEASURED"; set -- "$@" "$word"; done
exec {python} -m advisor "$@"
"""


def test_the_action_has_the_form_that_github_expects() -> None:
    check = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.github-actions"]
    subprocess.run([*check, str(ACTION / "action.yml")], check=True)


@pytest.mark.parametrize(
    ("factor", "undecided", "status", "outcomes"),
    [
        (1.0, "false", {0}, {"no-regression", "undecided"}),
        (1000.0, "false", {1}, {"regression"}),
    ],
)
def test_the_script_writes_the_comparison_and_fails_on_a_regression(
    factor: float,
    undecided: str,
    status: set[int],
    outcomes: set[str],
    tmp_path: pathlib.Path,
) -> None:
    baseline = tmp_path / "baseline.json"
    baseline.write_text(faster(MEASURED.read_text(), factor))
    stub = tmp_path / "bin" / "p3-advisor"
    stub.parent.mkdir()
    stub.write_text(STUB.format(python=sys.executable))
    stub.chmod(0o755)
    summary, output = tmp_path / "summary.md", tmp_path / "output"
    answer = subprocess.run(
        ["bash", str(ACTION / "compare.sh")],
        cwd=tmp_path,
        check=False,
        capture_output=True,
        text=True,
        env={
            **environment(tmp_path),
            "MEASURED": str(MEASURED),
            "PATH": f"{stub.parent}:{os.environ['PATH']}",
            "MODEL": "demo",
            "OPTIONS": "--budget quick",
            "BASELINE": str(baseline),
            "THRESHOLD": "5%",
            "FAIL_ON_UNDECIDED": undecided,
            "GITHUB_STEP_SUMMARY": str(summary),
            "GITHUB_OUTPUT": str(output),
        },
    )
    assert answer.returncode in status, answer.stderr
    assert output.read_text().strip().removeprefix("outcome=") in outcomes
    text = summary.read_text()
    assert text.startswith("## p3-advisor:")
    assert text.count(f"| {ARM}") >= 2, "the comparison and the report"


def environment(home: pathlib.Path) -> dict[str, str]:
    root = str(pathlib.Path(__file__).parents[3])
    return {**os.environ, "P3_ADVISOR_HOME": str(home), "PYTHONPATH": root}


def faster(document: str, factor: float) -> str:
    """Return the document with the speed-ups of `ARM` times `factor`."""
    values = json.loads(document)
    for entry in values["workflows"]:
        for cell in entry["cells"] if entry["arm"] == ARM else ():
            for name in ("value", "low", "high"):
                if cell["speedup"][name] is not None:
                    cell["speedup"][name] *= factor
            for name in ("median", "low", "high"):
                if cell["seconds"][name] is not None:
                    cell["seconds"][name] /= factor
    return json.dumps(values)


def test_a_shell_gets_completions(tmp_path: pathlib.Path) -> None:
    answer = subprocess.run(
        [sys.executable, "-m", "advisor"],
        check=False,
        capture_output=True,
        text=True,
        env={
            **environment(tmp_path),
            "_P3_ADVISOR_COMPLETE": "complete_bash",
            "COMP_WORDS": "p3-advisor rec",
            "COMP_CWORD": "1",
        },
    )
    assert {"recipe", "recommend"} <= set(answer.stdout.split())
