"""The shipped TOML files are complete, and errors in other files name the location."""

from __future__ import annotations

import datetime as dt
import json
import pathlib
import re
import subprocess
import sys
from collections.abc import Callable

import builders
import msgspec
import pytest
from forks import run_command
from kept.runs import NAMES, read_run

from advisor.ask import catalogue_files
from advisor.domain.constraints import PILLARS
from advisor.domain.errors import CatalogueError
from advisor.domain.model import OnnxModel
from advisor.domain.plan import EAGER
from advisor.domain.workflow import CitedFact, DeclaredArm, DeclaredWhere, Workflow

SHIPPED = builders.shipped_catalogue()
INTEGRATION = pathlib.Path(__file__).parents[2] / "stacks" / "integration.py"
#: A model in each form.
MODELS = {"torch": builders.question().model, "onnx": OnnxModel(name="model.onnx")}
FILES = (
    "workflows.toml",
    "criteria.toml",
    "models.toml",
    "presets.toml",
    "gpus.toml",
    "verified.toml",
    "guidelines.toml",
)
Edit = Callable[[str, str, str], None]


def load_error(catalogue: pathlib.Path) -> CatalogueError:
    with pytest.raises(CatalogueError) as problem:
        catalogue_files.load(catalogue)
    assert "\n" not in problem.value.what
    assert problem.value.next_step
    return problem.value


def test_a_copy_of_the_shipped_files_loads_as_the_original(catalogue: pathlib.Path) -> None:
    assert catalogue_files.load(catalogue) == SHIPPED


@pytest.mark.parametrize("workflow", SHIPPED.workflows, ids=lambda workflow: workflow.id)
def test_a_workflow_has_arms_a_usable_device_and_facts_that_rules_compare(
    workflow: Workflow,
) -> None:
    assert workflow.tasks
    assert workflow.arms
    assert workflow.has_probe == (workflow.not_measured is None)
    if workflow.has_probe:
        assert set(workflow.devices) - set(workflow.refused), "every device is refused"
    for entry in workflow.declared_where:
        assert entry.arm is None or entry.arm in workflow.arms
        assert entry.task is None or entry.task in workflow.tasks
        assert entry.device is None or entry.device in workflow.devices
        assert entry.input_format is None or entry.input_format in workflow.input_formats
        assert entry.task or entry.device or entry.input_format
    declared = workflow.declared
    assert type(declared.lines_changed.value) is int
    assert type(declared.vendors.value) is int
    assert type(declared.export_step.value) is bool
    assert declared.artefact_scope.value in {"any", "vendor", "gpu-model"}
    assert declared.target_needs.value in {"pytorch", "python", "libtorch", "runtime"}
    assert declared.new_shapes.value in {"served", "recompiles", "refused"}
    assert declared.architectures.value in {"any", "most", "listed"}


def test_the_weights_of_every_preset_sum_to_100() -> None:
    for preset in SHIPPED.presets.priorities.values():
        assert sum(getattr(preset.priorities, pillar) for pillar in PILLARS) == 100
    assert SHIPPED.presets.default_preset in SHIPPED.presets.priorities
    assert SHIPPED.presets.default_budget in SHIPPED.presets.budgets


def test_workflows_are_in_build_order_with_the_baseline_first() -> None:
    orders = [workflow.build_order for workflow in SHIPPED.workflows]
    assert orders == sorted(orders)
    assert SHIPPED.workflows[0].id == EAGER
    assert {*SHIPPED.engine_memory} <= {workflow.id for workflow in SHIPPED.workflows}


def test_verifications_are_read_from_verified_toml(catalogue: pathlib.Path) -> None:
    (catalogue / "verified.toml").write_text('onnxruntime-cpu = ["cpu 2026-11"]\n')
    verified = {
        workflow.id: workflow.verified
        for workflow in catalogue_files.load(catalogue).workflows
        if workflow.verified
    }
    assert verified == {"onnxruntime-cpu": ("cpu 2026-11",)}


def test_another_rubric_replaces_only_the_criteria(catalogue: pathlib.Path, edit: Edit) -> None:
    edit("criteria.toml", 'name = "p3-advisor 3"', 'name = "mine"')
    known = catalogue_files.load(rubric=catalogue / "criteria.toml")
    assert known.rubric.name == "mine"
    assert builders.replace(known, rubric=SHIPPED.rubric) == SHIPPED


@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("content", [None, b"= no toml", b"\xff\xfe", b'colour = "red"'])
def test_a_file_that_is_missing_or_has_other_content_is_an_error_that_names_it(
    catalogue: pathlib.Path, file: str, content: bytes | None
) -> None:
    (catalogue / file).unlink()
    if content is not None:
        (catalogue / file).write_bytes(content)
    error = load_error(catalogue)
    assert file in error.what
    assert ("cannot be read" in error.what) or content is not None


TITLE, ENGAGED = 'title = "PyTorch eager"', "minimum_engaged_share"


@pytest.mark.parametrize(
    ("file", "old", "new", "words"),
    [
        ("workflows.toml", TITLE, f'{TITLE}\ncolour = "red"', "colour"),
        ("workflows.toml", TITLE, "", "title"),
        ("workflows.toml", 'tasks = ["forward", "generate"]', 'tasks = ["dance"]', "dance"),
        ("presets.toml", "most_rounds = 13", "most_rounds = 3", "most_rounds"),
        ("criteria.toml", f"{ENGAGED} = 0.05", f"{ENGAGED} = nan", ENGAGED),
    ],
)
def test_a_schema_violation_is_an_error_that_names_the_key(
    catalogue: pathlib.Path, edit: Edit, file: str, old: str, new: str, words: str
) -> None:
    edit(file, old, new)
    error = load_error(catalogue)
    assert file in error.what
    assert words in error.what


# Declared facts


def facts_of(workflow: Workflow) -> list[CitedFact]:
    changed = (
        *(each.declared for each in workflow.arms.values()),
        *(each.facts for each in workflow.declared_where),
    )
    declared = msgspec.structs.asdict(workflow.declared).values()
    return [
        *(value for value in declared if isinstance(value, CitedFact)),
        *(fact for facts in changed for fact in facts.values()),
        *workflow.refused.values(),
        *([workflow.not_measured] if workflow.not_measured else []),
    ]


@pytest.mark.parametrize("workflow", SHIPPED.workflows, ids=lambda workflow: workflow.id)
def test_every_declared_fact_has_a_source(workflow: Workflow) -> None:
    assert workflow.declared.licence is not None
    for fact in facts_of(workflow):
        addresses = re.findall(r"https?://[^\s,;]+", fact.source)
        other_source = re.search(
            r"doi 10\.|tests/studies/results/|rubric/integration\.toml|counted in|measured with",
            fact.source,
        )
        assert addresses or other_source or fact.basis == "not confirmed", fact


@pytest.mark.parametrize("name", SHIPPED.gpus)
def test_every_gpu_has_a_source_and_a_lookup_date(name: str) -> None:
    gpu = SHIPPED.gpus[name]
    assert re.findall(r"https?://[^\s,;]+", gpu.source)
    latest = dt.datetime.now(dt.timezone.utc).date() + dt.timedelta(days=1)  # of any time zone
    assert dt.date.fromisoformat(gpu.looked_up) <= latest


@pytest.mark.parametrize("because", ["", ', because = " "'])
@pytest.mark.parametrize("basis", ["ours", "not confirmed"])
def test_a_fact_on_our_own_basis_needs_a_reason(
    catalogue: pathlib.Path, edit: Edit, basis: str, because: str
) -> None:
    fact = 'source = "https://pypi.org/project/torch/2.13.0/"'
    edit("workflows.toml", fact, f'{fact}, basis = "{basis}"{because}')
    assert f"a fact whose basis is '{basis}' needs a sentence" in load_error(catalogue).what


def test_the_lines_of_every_arm_task_and_device_are_those_of_its_integration() -> None:
    counted = json.loads(run_command([sys.executable, INTEGRATION, "--count"]).stdout)
    declared = {
        f"{workflow.id}/{arm}/{task}/{device}/{form}": workflow.for_question(
            builders.question(device=device, task=task, model=MODELS[form])
        )
        .for_arm(arm)
        .declared.lines_changed.value
        for workflow in SHIPPED.workflows
        if workflow.has_probe
        for arm, limits in workflow.arms.items()
        for task in limits.tasks or workflow.tasks
        for device in limits.devices or workflow.devices
        for form in (
            (limits.input_formats or workflow.input_formats) if task == "forward" else ("torch",)
        )
    }
    assert declared == counted


def test_the_lines_of_a_workflow_are_either_declared_or_counted() -> None:
    directory = catalogue_files.catalogue_directory()
    tables = msgspec.toml.decode((directory / "workflows.toml").read_bytes())["workflow"]
    declared = {id_ for id_, table in tables.items() if "lines_changed" in table["declared"]}
    counted = {*msgspec.toml.decode((directory / "integration.toml").read_bytes())}
    assert declared == {*tables} - counted


def test_integrations_use_no_undefined_names(tmp_path: pathlib.Path) -> None:
    subprocess.run([sys.executable, INTEGRATION, "--every", tmp_path], check=True)
    files = {file.name for file in tmp_path.glob("*.py")}
    assert files >= {
        f"{workflow.id}-{arm}-{task}-{device}.py"
        for workflow in SHIPPED.workflows
        if workflow.has_probe
        for arm in workflow.arms
        for task in workflow.tasks
        for device in workflow.devices
    }
    configuration = 'builtins = ["model", "inputs", "CHECKPOINT", "prompts"]'
    ruff = str(pathlib.Path(sys.executable).with_name("ruff"))
    command = [ruff, "check", "--isolated", "--select", "F821,E9", "--config", configuration]
    answer = run_command([*command, tmp_path])
    assert answer.returncode == 0, answer.stdout


def test_an_onnx_file_needs_no_export_step() -> None:
    asked = builders.question(model=MODELS["onnx"])
    found = [each for each in SHIPPED.workflows if "onnx" in each.input_formats and each.has_probe]
    assert found
    for workflow in found:
        assert workflow.for_question(asked).declared.export_step.value is False, workflow.id
        assert workflow.for_question(builders.question()).declared.export_step.value is True


def test_facts_of_an_arm_and_those_for_a_question_hold_together() -> None:
    workflow = builders.workflow(
        "any",
        arms={"tuned": DeclaredArm(declared={"vendors": CitedFact(value=2, source="a page")})},
        declared_where=(
            DeclaredWhere(
                device="cpu",
                arm="tuned",
                facts={"new_shapes": CitedFact(value="refused", source="a page")},
            ),
        ),
    )
    found = workflow.for_question(builders.question()).for_arm("tuned").declared
    assert (found.vendors.value, found.new_shapes.value) == (2, "refused")


def test_the_limits_of_a_quiet_machine_are_far_above_the_loads_before_kept_runs() -> None:
    limits = builders.shipped_catalogue().presets.quiet
    checks = [read_run(name).quiet_check for name in NAMES]
    shares = [
        (
            1 - (check.activity.idle_processors or 0.0) / check.activity.usable_processors,
            check.activity.stolen_share or 0.0,
            check.activity.gpu_busy_share or 0.0,
        )
        for check in checks
        if check is not None and not check.problems
    ]
    limit = (limits.most_busy_share, limits.most_stolen_share, limits.most_gpu_busy_share)
    for each in shares:
        assert all(3 * share <= most for share, most in zip(each, limit, strict=True))
    assert shares


#: The grades of the first fact of the shipped rubric.
KNOTS = "[[0.5, -0.5], [1.0, 1.0], [1.1, 1.5], [1.5, 2.5], [3.0, 4.0]]"


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
        ('fact = "speedup"', 'fact = "speedup_high"', "performance: unknown fact 'speedup_high'"),
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
        ("[120, 2.5], [900, 1.5]", "[120, 1.5], [900, 2.5]", "knots of build_seconds"),
        ('why = "a substantial gain over the baseline"\n', "", "$.criteria[0].tiers[0]"),
    ],
)
def test_a_rubric_without_a_grade_for_every_workflow_is_an_error(
    catalogue: pathlib.Path, edit: Edit, old: str, new: str, words: str
) -> None:
    edit("criteria.toml", old, new)
    problem = load_error(catalogue).what
    assert "criteria.toml" in problem
    assert words in problem


def test_a_criterion_without_grades_is_an_error(catalogue: pathlib.Path) -> None:
    file = catalogue / "criteria.toml"
    text = file.read_text()
    start, end = text.index("\n[[criteria.grades]]"), text.index("\n[[criteria.tiers]]")
    file.write_text(text[:start] + text[end:])
    assert "field `grades` - at `$.criteria[0]`" in load_error(catalogue).what


def test_an_unknown_fact_is_an_error(catalogue: pathlib.Path, edit: Edit) -> None:
    """A rubric cannot add facts, because their values would be unknown."""
    edit(
        "criteria.toml",
        "[facts.vendors]",
        '[facts.beauty]\nunit = ""\nevidence = "declared"\nmeaning = "how it looks"\n\n'
        "[facts.vendors]",
    )
    edit("criteria.toml", 'fact = "speedup"', 'fact = "beauty"')
    assert "beauty" in load_error(catalogue).what
