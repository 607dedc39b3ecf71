"""Survey which models of `panel.toml` each workflow builds and computes correctly.

    python tests/studies/architecture_survey.py       # 15 models: about an hour on two cores
    python tests/studies/architecture_survey.py --models llama,bert --workflows openvino/default

Each model is a run of `p3-advisor recommend` with the first arms of the workflows; its times are
not used. A model that eager PyTorch cannot run is left out. Writes
`results/architecture-survey.json`, and prints the declared fact `architectures` of each workflow
for `rubric/workflows.toml`: `any` if all models pass, `most` from 60 % on, else `listed`. Read the
reasons before you declare it: a model that runs in eager code may count as supported, and a panel
cannot show that every model is.
"""

from __future__ import annotations

import argparse
import collections
import datetime as dt
import json
import pathlib
import subprocess
import sys
import tempfile
from typing import Any

ROOT = pathlib.Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from benchmark_report import RESULTS, publish
from panel import PanelModel, read_panel

NAME = "architecture-survey"
BASELINE = "pytorch-eager"
WORKFLOWS = (
    "torch-compile-inductor",
    "onnxruntime-cpu",
    "torch-compile-openvino",
    "openvino",
    "aotinductor",
    "openxla-jax",
    "iree",
)
MOST_FROM = 0.6
VERDICTS = {
    "completed": "pass",
    "incorrect": "wrong",
    "nondeterministic": "wrong",
    "not-engaged": "fell-back",
}


def survey(model: PanelModel, arms: str, options: argparse.Namespace) -> list[dict[str, Any]]:
    """Return the findings on one model, by workflow; none if eager PyTorch cannot run it."""
    with tempfile.TemporaryDirectory() as directory:
        name = model.factory_name
        if model.config is not None:
            name = directory
            (pathlib.Path(directory) / "config.json").write_text(json.dumps(model.config))
        command = [sys.executable, "-m", "advisor", "recommend", "--model", name, "--json"]
        command += ["--task", "forward", "--dtype", "float32", "--batch-sizes", "2"]
        command += ["--input-tokens", "16", "--budget", "quick", "--gpu", options.gpu]
        command += ["--workflows", arms]
        answer = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
    entries = json.loads(answer.stdout)["workflows"] if answer.stdout else []
    measured = {entry["id"]: entry for entry in entries if entry["options"] is not None}
    if measured.get(BASELINE, {}).get("status") != "completed":
        sys.stderr.write(f"{model.id}: eager PyTorch does not run it\n")
        return []
    return [
        {
            "workflow": workflow,
            "model": model.id,
            "family": model.family,
            "verdict": VERDICTS.get(entry["status"], "failed"),
            "reason": entry["reason"],
        }
        for workflow, entry in measured.items()
    ]


def declare(findings: list[dict[str, Any]], date: str) -> str:
    """Return the declared fact of a workflow from its findings, as a line of TOML."""
    missed = [f"{one['model']} ({one['verdict']})" for one in findings if one["verdict"] != "pass"]
    share = 1 - len(missed) / len(findings)
    value = "any" if not missed else "most" if share >= MOST_FROM else "listed"
    passed = f"{len(findings) - len(missed)} of {len(findings)} small models passed on {date}"
    because = f"{passed}; not {', '.join(missed)}" if missed else passed
    return (
        f'architectures = {{ value = "{value}", source = "tests/studies/results/{NAME}.json",'
        f' basis = "ours", because = "{because}" }}'
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", default="", help="ids, separated by commas; default: all")
    parser.add_argument("--workflows", default=",".join(f"{name}/default" for name in WORKFLOWS))
    parser.add_argument("--gpu", default="cpu")
    parser.add_argument("--out", type=pathlib.Path, default=RESULTS)
    options = parser.parse_args()
    chosen = set(filter(None, options.models.split(",")))
    models = [each for each in read_panel() if (each.id in chosen if chosen else each.survey)]
    findings = [one for model in models for one in survey(model, options.workflows, options)]
    by_workflow = collections.defaultdict(list)
    for one in findings:
        by_workflow[one["workflow"]].append(one)
    rows = [
        [workflow, str(sum(one["verdict"] == "pass" for one in found)), str(len(found))]
        for workflow, found in by_workflow.items()
    ]
    title = "Architectures that each workflow takes"
    publish(NAME, title, ["workflow", "pass", "tried"], rows, {"findings": findings}, options.out)
    today = dt.datetime.now(tz=dt.timezone.utc).date().isoformat()
    for workflow, found in by_workflow.items():
        sys.stdout.write(f"\n[workflow.{workflow}.declared]\n{declare(found, today)}\n")


if __name__ == "__main__":
    main()
