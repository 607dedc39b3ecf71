"""The rubric's files: those that ship are whole, and whatever is wrong with another is told with its place."""

from __future__ import annotations

import datetime as dt
import pathlib
import re
import shutil
import subprocess
import sys
import urllib.parse
from collections.abc import Callable

import msgspec
import pytest

from advisor import applicability, catalogue
from advisor.domain.question import CRITERIA, PILLARS
from advisor.domain.workflow import CitedFact, Workflow
from advisor.errors import CatalogueError

SHIPPED = catalogue.load()
INTEGRATION = pathlib.Path(__file__).parents[1] / "stacks" / "integration.py"
Edit = Callable[[str, str, str], None]


@pytest.fixture
def rubric(tmp_path: pathlib.Path) -> pathlib.Path:
    """A copy of the files that ship."""
    directory = tmp_path / "rubric"
    shutil.copytree(
        catalogue.rubric_directory(),
        directory,
        ignore=shutil.ignore_patterns("__pycache__", "schema"),
    )
    return directory


@pytest.fixture
def edit(rubric: pathlib.Path) -> Edit:
    """Replaces one piece of text in one of the files."""

    def replace(file: str, old: str, new: str) -> None:
        text = (rubric / file).read_text()
        assert old in text, "the shipped file has changed: the test has to follow"
        (rubric / file).write_text(text.replace(old, new, 1))

    return replace


def refusal(rubric: pathlib.Path) -> CatalogueError:
    with pytest.raises(CatalogueError) as problem:
        catalogue.load(rubric)
    assert "\n" not in problem.value.what
    assert problem.value.next_step
    return problem.value


def test_a_copy_of_the_shipped_files_is_as_good_as_they(rubric: pathlib.Path) -> None:
    assert catalogue.load(rubric) == SHIPPED


@pytest.mark.parametrize("workflow", SHIPPED.workflows, ids=lambda workflow: workflow.id)
def test_declared_facts_are_of_the_kinds_that_rules_compare(workflow: Workflow) -> None:
    declared = workflow.declared
    assert type(declared.lines_changed.value) is int
    assert type(declared.vendors.value) is int
    assert type(declared.export_step.value) is bool
    assert declared.artefact_scope.value in {"any", "vendor", "gpu-model"}
    assert declared.new_shapes.value in {"served", "recompiles", "refused"}
    assert declared.architectures.value in {"any", "most", "listed"}


@pytest.mark.parametrize("workflow", SHIPPED.workflows, ids=lambda workflow: workflow.id)
def test_every_workflow_can_be_used_where_it_says_so(workflow: Workflow) -> None:
    assert workflow.tasks
    assert workflow.dtypes
    assert workflow.takes
    assert workflow.arms
    assert workflow.how_to_get
    assert set(workflow.devices) - set(workflow.refused), "no device is left"


def test_what_is_verified_is_a_workflow() -> None:
    verified = catalogue.read(
        catalogue.rubric_directory() / "verified.toml", dict[str, tuple[str, ...]]
    )
    assert set(verified) <= {workflow.id for workflow in SHIPPED.workflows}


def test_the_rubric_has_a_question_and_three_tiers_for_each_criterion() -> None:
    assert tuple(criterion.id for criterion in SHIPPED.rubric.criteria) == CRITERIA
    for criterion in SHIPPED.rubric.criteria:
        assert criterion.question.endswith("?")
        assert [rule.tier for rule in criterion.tiers] == [3, 2, 1]
        assert all(rule.source.strip() and rule.why.strip() for rule in criterion.tiers)


def test_every_shipped_preset_is_a_set_of_weights() -> None:
    for preset in SHIPPED.presets.priorities.values():
        assert sum(getattr(preset.priorities, pillar) for pillar in PILLARS) == 100
    assert SHIPPED.presets.default_preset in SHIPPED.presets.priorities
    assert SHIPPED.presets.default_budget in SHIPPED.presets.budgets


def test_workflows_come_in_the_order_of_their_builds_with_the_baseline_first() -> None:
    orders = [workflow.build_order for workflow in SHIPPED.workflows]
    assert orders == sorted(orders)
    assert SHIPPED.workflows[0].id == applicability.BASELINE


def test_a_workflow_has_a_probe_when_there_is_a_module_for_it(tmp_path: pathlib.Path) -> None:
    (tmp_path / "workflows").mkdir()
    (tmp_path / "workflows" / "torch_compile_inductor.py").touch()
    known = catalogue.load(probes=tmp_path)
    assert [workflow.id for workflow in known.workflows if workflow.has_probe] == [
        "torch-compile-inductor"
    ]


def test_where_a_workflow_was_verified_is_read_from_its_own_file(rubric: pathlib.Path) -> None:
    (rubric / "verified.toml").write_text('onnxruntime-cpu = ["cpu 2026-11"]\n')
    verified = {
        workflow.id: workflow.verified
        for workflow in catalogue.load(rubric).workflows
        if workflow.verified
    }
    assert verified == {"onnxruntime-cpu": ("cpu 2026-11",)}


def test_another_rubric_replaces_the_criteria_alone(rubric: pathlib.Path, edit: Edit) -> None:
    edit("criteria.toml", 'name = "p3-advisor 1"', 'name = "mine"')
    known = catalogue.load(rubric=rubric / "criteria.toml")
    assert known.rubric.name == "mine"
    assert msgspec.structs.replace(known, rubric=SHIPPED.rubric) == SHIPPED


@pytest.mark.parametrize(
    "file",
    [
        "workflows.toml",
        "criteria.toml",
        "models.toml",
        "presets.toml",
        "gpus.toml",
        "verified.toml",
        "guidelines.toml",
        "published.toml",
    ],
)
def test_a_missing_file_is_told(rubric: pathlib.Path, file: str) -> None:
    (rubric / file).unlink()
    error = refusal(rubric)
    assert file in error.what
    assert "cannot be read" in error.what


@pytest.mark.parametrize(
    "file",
    [
        "workflows.toml",
        "criteria.toml",
        "models.toml",
        "presets.toml",
        "gpus.toml",
        "verified.toml",
        "guidelines.toml",
        "published.toml",
    ],
)
@pytest.mark.parametrize("content", [b"= no toml", b"\xff\xfe", b'colour = "red"'])
def test_a_file_that_is_something_else_is_told(
    rubric: pathlib.Path, file: str, content: bytes
) -> None:
    (rubric / file).write_bytes(content)
    assert file in refusal(rubric).what


@pytest.mark.parametrize(
    ("file", "old", "new", "words"),
    [
        (
            "workflows.toml",
            'title = "PyTorch eager"',
            'title = "PyTorch eager"\ncolour = "red"',
            "colour",
        ),
        ("workflows.toml", 'title = "PyTorch eager"', "", "title"),
        ("workflows.toml", "build_order = 0", 'build_order = "first"', "build_order"),
        ("workflows.toml", 'tasks = ["forward", "generate"]', 'tasks = ["dance"]', "dance"),
        (
            "workflows.toml",
            'value = 0, source = "counted from this project\'s own recipe"',
            "value = 0",
            "source",
        ),
        (
            "workflows.toml",
            'value = 0, source = "counted from this project\'s own recipe"',
            'value = 0, source = ""',
            "source",
        ),
        ("models.toml", "hidden = 256", "hidden = 0", "hidden"),
        ("models.toml", "hidden = 256", 'hidden = 256\ncolour = "red"', "colour"),
        ("presets.toml", "measuring_seconds = 45", "measuring_seconds = 0", "measuring_seconds"),
        ("presets.toml", "measuring_seconds = 45", "measuring_seconds = nan", "measuring_seconds"),
        ("presets.toml", "most_rounds = 13", "most_rounds = 3", "most_rounds"),
        ("gpus.toml", "memory_gib = 24", "memory = 24", "memory"),
        (
            "criteria.toml",
            'name = "p3-advisor 1"',
            'name = "p3-advisor 1"\ncolour = "red"',
            "colour",
        ),
        (
            "criteria.toml",
            "minimum_engaged_share = 0.05",
            "minimum_engaged_share = nan",
            "minimum_engaged_share",
        ),
        (
            "criteria.toml",
            "minimum_engaged_share = 0.05",
            "minimum_engaged_share = 1.5",
            "minimum_engaged_share",
        ),
        ("criteria.toml", "tier = 3", "tier = 4", "tier"),
        ("criteria.toml", 'basis = "paper"', 'basis = "hearsay"', "hearsay"),
        ("criteria.toml", 'why = "no gain over the baseline is shown"', 'why = ""', "why"),
    ],
)
def test_what_does_not_fit_the_schema_is_told_with_its_place(
    rubric: pathlib.Path, edit: Edit, file: str, old: str, new: str, words: str
) -> None:
    edit(file, old, new)
    error = refusal(rubric)
    assert file in error.what
    assert words in error.what


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('id = "performance"', 'id = "elegance"', "the criteria must be"),
        ('id = "performance"', 'id = "portability"', "the criteria must be"),
        ("tier = 2", "tier = 1", "performance: its tiers must be 3, 2, 1"),
        ("tier = 3", "tier = 2", "performance: its tiers must be 3, 2, 1"),
        (
            "all = []",
            'all = [{ fact = "vendors", at_least = 1 }]',
            "performance: tiers 3 and 2 need conditions",
        ),
        (
            'all = [{ fact = "speedup_low", at_least = 1.20 }, { fact = "fastest_over_it", at_most = 1.20 }]',
            "all = []",
            "performance: tiers 3 and 2 need conditions",
        ),
        (
            'fact = "speedup_low"',
            'fact = "speedup_high"',
            "performance, tier 3: unknown fact 'speedup_high'",
        ),
        (
            "at_least = 1.20",
            "at_least = 1.20, at_most = 2",
            "performance, tier 3: speedup_low needs exactly one",
        ),
        (", at_least = 1.20", "", "performance, tier 3: speedup_low needs exactly one"),
        (
            "at_least = 1.20",
            "at_least = nan",
            "performance, tier 3: the threshold of speedup_low is not a finite number",
        ),
        (
            "at_least = 1.20",
            "at_least = inf",
            "performance, tier 3: the threshold of speedup_low is not a finite number",
        ),
        (
            "at_most = 120 ",
            "at_most = -inf ",
            "productivity, tier 3: the threshold of cold_build_seconds is not a finite number",
        ),
    ],
)
def test_a_rubric_that_cannot_give_every_workflow_a_tier_is_refused(
    rubric: pathlib.Path, edit: Edit, old: str, new: str, words: str
) -> None:
    edit("criteria.toml", old, new)
    assert words in refusal(rubric).what


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('fact = "speedup_low", at_least = 1.20', 'fact = "speedup_high", at_least = 1.20'),
        ("at_least = 1.20", "at_least = nan"),
        (
            'why = "a substantial gain over the baseline, shown beyond the noise, and no other workflow brings substantially more"\n',
            "",
        ),
    ],
)
def test_a_refused_tier_is_named_with_its_line(
    rubric: pathlib.Path, edit: Edit, old: str, new: str
) -> None:
    edit("criteria.toml", old, new)
    lines = (rubric / "criteria.toml").read_text().splitlines()
    assert f"criteria.toml:{lines.index('[[criteria.tiers]]') + 1}:" in refusal(rubric).what


def test_a_fact_that_nothing_measures_or_declares_is_refused(
    rubric: pathlib.Path, edit: Edit
) -> None:
    """The vocabulary is closed: a rubric cannot add to it, because nobody would know the value."""
    edit(
        "criteria.toml",
        "[facts.vendors]",
        '[facts.beauty]\nunit = ""\nevidence = "declared"\nmeaning = "how it looks"\n\n[facts.vendors]',
    )
    edit("criteria.toml", 'fact = "speedup_low"', 'fact = "beauty"')
    assert "beauty" in refusal(rubric).what


# Declared facts


#: The day the test was last told; a source cannot have been read after it.
TOLD = dt.date(2026, 11, 21)
#: Parts of an address that lead to no page of their own.
GENERIC = re.compile(r"docs|documentation|stable|latest|main|master|en|v?[0-9][0-9.]*")


def is_front_page(address: str) -> bool:
    """Say whether an address is that of a whole documentation or repository, where a fact cannot be looked up."""
    parts = urllib.parse.urlsplit(address)
    path = [part for part in parts.path.split("/") if part]
    if parts.hostname == "pypi.org":
        return len(path) < len(("project", "NAME", "VERSION"))
    if parts.hostname == "github.com":
        return len(path) <= len(("OWNER", "REPOSITORY"))
    if parts.fragment or (path and re.search(r"\.[a-z]+$", path[-1])):
        return False
    return (
        not path
        or bool(GENERIC.fullmatch(path[-1]))
        or sum(not GENERIC.fullmatch(part) for part in path) < len(("TOPIC", "PAGE"))
    )


def facts_of(workflow: Workflow) -> list[CitedFact]:
    """Return everything that is declared about a workflow and has a source."""
    groups = [workflow.declared, *workflow.arm_declared.values()]
    values = [value for group in groups for value in msgspec.structs.asdict(group).values()]
    return [
        *(value for value in values if isinstance(value, CitedFact)),
        *workflow.refused.values(),
    ]


@pytest.mark.parametrize(
    ("address", "front"),
    [
        ("https://onnxruntime.ai/docs/", True),
        ("https://docs.pytorch.org/TensorRT/", True),
        ("https://docs.nvidia.com/deeplearning/tensorrt/latest/", True),
        ("https://docs.openvino.ai/2026/", True),
        ("https://iree.dev", True),
        ("https://github.com/google/torchax", True),
        ("https://pypi.org/project/torch/", True),
        ("https://pypi.org/project/torch/2.13.0/", False),
        ("https://github.com/pytorch/xla/pull/9603", False),
        ("https://iree.dev/guides/deployment-configurations/", False),
        ("https://docs.pytorch.org/docs/stable/torch.compiler.html", False),
        (
            "https://onnxruntime.ai/docs/execution-providers/#summary-of-supported-execution-providers",
            False,
        ),
    ],
)
def test_a_front_page_is_told_from_a_page(address: str, *, front: bool) -> None:
    assert is_front_page(address) == front


@pytest.mark.parametrize("workflow", SHIPPED.workflows, ids=lambda workflow: workflow.id)
def test_every_declared_fact_has_a_source_that_states_it(workflow: Workflow) -> None:
    assert workflow.declared.licence is not None
    for fact in facts_of(workflow):
        addresses = re.findall(r"https?://[^\s,;]+", fact.source)
        assert not [address for address in addresses if is_front_page(address)], fact
        elsewhere = re.search(
            r"doi 10\.|rubric/integration\.toml|counted from|measured with", fact.source
        )
        assert addresses or elsewhere or fact.basis == "not confirmed", fact


@pytest.mark.parametrize("workflow", SHIPPED.workflows, ids=lambda workflow: workflow.id)
def test_sources_were_read_on_a_day_that_has_been(workflow: Workflow) -> None:
    assert dt.date.fromisoformat(workflow.declared.looked_up) <= TOLD


@pytest.mark.parametrize("name", SHIPPED.gpus)
def test_what_is_known_of_a_gpu_has_a_source_and_a_day_too(name: str) -> None:
    gpu = SHIPPED.gpus[name]
    addresses = re.findall(r"https?://[^\s,;]+", gpu.source)
    assert addresses
    assert not [address for address in addresses if is_front_page(address)]
    assert dt.date.fromisoformat(gpu.looked_up) <= TOLD


@pytest.mark.parametrize("because", ["", ', because = " "'])
@pytest.mark.parametrize("basis", ["ours", "not confirmed"])
def test_a_reading_of_ours_without_a_reason_is_refused(
    rubric: pathlib.Path, edit: Edit, basis: str, because: str
) -> None:
    told = 'value = 0, source = "counted from this project\'s own recipe"'
    edit("workflows.toml", told, f'{told}, basis = "{basis}"{because}')
    assert f"a fact whose basis is '{basis}' needs a sentence" in refusal(rubric).what


def test_lines_are_those_of_the_integration_where_there_is_one(tmp_path: pathlib.Path) -> None:
    known = {workflow.id: workflow for workflow in SHIPPED.workflows}
    for workflow in known.values():
        if workflow.integration is not None:
            assert workflow.declared.lines_changed.value == workflow.integration.lines_changed
    assert known["pytorch-eager"].declared.lines_changed.value == 0
    bare = catalogue.read_workflows(catalogue.rubric_directory(), tmp_path)
    assert all(workflow.integration is None for workflow in bare), (
        "without a probe there is nobody to give one"
    )


def test_the_integrations_are_those_of_the_modules() -> None:
    answer = subprocess.run(
        [sys.executable, INTEGRATION, "--print"], capture_output=True, text=True, check=True
    )
    assert (catalogue.rubric_directory() / "integration.toml").read_text() == answer.stdout, (
        "run python tests/stacks/integration.py"
    )


def test_lines_that_are_handed_out_name_nothing_that_they_do_not_bring(
    tmp_path: pathlib.Path,
) -> None:
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
    given = 'builtins = ["model", "inputs", "CHECKPOINT", "prompts"]'
    ruff = str(pathlib.Path(sys.executable).with_name("ruff"))
    command = [ruff, "check", "--isolated", "--select", "F821,E9", "--config", given, str(tmp_path)]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stdout


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('yes = "=tensorrt"', 'yes = "=nowhere"'),
        ('no = "settled"', 'no = "nvidia"'),
        ('first = "nvidia"', ""),
    ],
)
def test_a_tree_that_leads_nowhere_or_back_is_refused(
    old: str, new: str, rubric: pathlib.Path
) -> None:
    file = rubric / "tree.toml"
    assert old in file.read_text()
    file.write_text(file.read_text().replace(old, new))
    with pytest.raises(CatalogueError, match="no node, no leaf, or leads back"):
        catalogue.load(rubric)


def test_what_is_said_of_an_arm_is_said_of_one_that_is_there() -> None:
    for workflow in catalogue.load().workflows:
        assert {*workflow.arm_devices, *workflow.arm_tasks, *workflow.arm_declared} <= {
            *workflow.arms
        }, workflow.id


def test_an_arm_has_its_own_facts_and_otherwise_those_of_its_workflow() -> None:
    eager = next(
        workflow for workflow in catalogue.load().workflows if workflow.id == "pytorch-eager"
    )
    graph = eager.as_arm("cuda-graph")
    assert graph.declared.vendors.value == 2
    assert graph.declared.export_step == eager.declared.export_step
    assert eager.as_arm("default") == eager
