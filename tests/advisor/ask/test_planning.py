"""Plans: the workflows and arms to measure, their environments, and reasons for the others."""

from __future__ import annotations

from typing import Any, get_args

import builders
import pytest
from builders import BASELINE, replace

from advisor.ask import planning
from advisor.ask.obstacles import required_packages
from advisor.ask.planning import LEFT_OUT, list_arms, unsupported_use
from advisor.domain.errors import NoStackError, OptionValueError
from advisor.domain.machine import Machine
from advisor.domain.model import OnnxModel
from advisor.domain.plan import Plan
from advisor.domain.question import Dtype
from advisor.domain.workflow import DeclaredArm, Environment, Workflow
from advisor.probing.run_config import accuracy_thresholds, rules_of
from probes import protocol

H100 = builders.gpu(compute_capability="9.0")
ON_GPU: dict[str, Any] = {"device": "cuda", "gpu": H100.uuid}


def plan(*workflows: Workflow, machine: Machine | None = None, **asked: Any) -> Plan:
    here, known = machine or builders.machine(), builders.catalogue(*workflows)
    return planning.plan(builders.question(**asked), here, known)


def refuse(*workflows: Workflow, **changes: Any) -> None:
    """Raise the error with which a run of this plan does not start."""
    planning.refuse_without_rival(builders.question(**changes), plan(*workflows, **changes))


OWN = Environment(kind="own", name="apart", requirements=("rare-stack==2.1",))


def test_the_fix_names_the_environment_of_the_device() -> None:
    elsewhere = Environment(kind="own", name="elsewhere", requirements=("rare-stack-cuda==2.1",))
    known = builders.catalogue(
        builders.workflow(environment=elsewhere, environment_on={"cpu": OWN})
    )
    for device, name in (("cpu", "apart"), ("cuda", "elsewhere")):
        on_device = known.for_question(builders.question(device=device))
        made = planning.plan(builders.question(), builders.machine(), on_device)
        assert [each.fix for each in made.excluded] == [f"p3-advisor env create {name}"]
    assert {"rare-stack", "rare-stack-cuda"} <= {*required_packages(known)}


def test_a_workflow_runs_in_its_environment_unless_the_interpreter_has_all_packages() -> None:
    created = builders.machine_with_environment("apart")
    by_hand = builders.machine(
        software=builders.interpreter(packages={"torch": "2.12.0", "rare-stack": "2.1"})
    )
    both = replace(created, software=by_hand.software)
    for machine, python in ((created, "/env/bin/python"), (by_hand, ""), (both, "")):
        made = plan(builders.workflow(environment=OWN), machine=machine)
        assert [each.python for each in made.arms] == ["", "", python]


def test_the_plan_starts_with_the_baseline_and_its_duplicate() -> None:
    made = plan(builders.workflow("first", build_order=0), builders.workflow("second"))
    assert [each.id for each in made.arms] == [BASELINE, builders.DUPLICATE, "first", "second"]
    assert made.baseline.id == BASELINE
    assert [each.duplicate_of for each in made.arms] == [None, BASELINE, None, None]
    assert made.arms[1].options == made.arms[0].options


def test_every_workflow_is_planned_or_excluded_with_a_reason() -> None:
    shipped = builders.shipped_catalogue()
    for machine in (builders.machine(), builders.gpu_machine()):
        made = planning.plan(builders.question(), machine, shipped)
        measured = {each.workflow for each in made.arms}
        excluded = {entry.workflow for entry in made.excluded}
        assert measured | excluded == {workflow.id for workflow in shipped.workflows}
        assert not measured & excluded
        assert all(entry.reason for entry in made.excluded)


TUNED = {"default": DeclaredArm(), "tuned": DeclaredArm(options={"mode": "max-autotune"})}


@pytest.mark.parametrize(
    ("chosen", "arms"),
    [
        ((), ["one", "one/tuned", "two"]),
        (("one",), ["one", "one/tuned"]),
        (("one/tuned",), ["one/tuned"]),
        (("one/default",), ["one"]),
        (("one/tuned", "two"), ["one/tuned", "two"]),
        ((BASELINE,), []),
    ],
)
def test_the_baseline_is_measured_with_the_chosen_workflows(
    chosen: tuple[str, ...], arms: list[str]
) -> None:
    made = plan(builders.workflow("one", arms=TUNED), builders.workflow("two"), workflows=chosen)
    assert [each.id for each in made.arms[2:]] == arms
    assert made.baseline.id == BASELINE
    assert {entry.status for entry in made.excluded} <= {"excluded"}
    left_out = [str(entry.name) for entry in made.excluded if entry.option]
    asked = [each.rpartition("/")[2] for each in chosen if each.startswith("one/")]
    assert left_out == [f"one/{option}" for option in TUNED if asked and option not in asked]


@pytest.mark.parametrize(
    ("names", "arms"),
    [
        (("one/tuned",), ["one", "two"]),
        (("one/default",), ["one/tuned", "two"]),
        (("one",), ["two"]),
        (("two", "absent"), ["one", "one/tuned"]),
    ],
)
def test_what_is_left_out_has_a_reason_and_nothing_takes_its_place(
    names: tuple[str, ...], arms: list[str]
) -> None:
    one = builders.workflow("one", arms={**TUNED, "slow": DeclaredArm(on_request=("cpu",))})
    absent = builders.workflow("absent", environment=OWN)
    made = plan(one, builders.workflow("two"), absent, leave_out=names)
    assert [each.id for each in made.distinct] == [BASELINE, *arms]
    reasons = {str(each.name): each.reason for each in made.excluded}
    assert {name for name, reason in reasons.items() if reason == LEFT_OUT} == {*names}


def test_neither_the_baseline_nor_all_others_can_be_left_out() -> None:
    for name, words in ((BASELINE, "baseline"), ("one", "nothing to compare")):
        with pytest.raises(OptionValueError, match=words):
            plan(builders.workflow("one", arms=TUNED), leave_out=(name,))


def test_the_baseline_of_an_onnx_file_is_the_first_workflow_that_accepts_it() -> None:
    takes_onnx = [
        builders.workflow(name, input_formats=("torch", "onnx")) for name in ("one", "two")
    ]
    made = plan(*takes_onnx, model=OnnxModel(name="a.onnx"))
    assert [each.id for each in made.arms] == ["one", "one#duplicate", "two"]
    assert BASELINE in {entry.workflow for entry in made.excluded}
    with pytest.raises(OptionValueError, match="baseline"):
        plan(*takes_onnx, model=OnnxModel(name="a.onnx"), leave_out=("one",))


@pytest.mark.parametrize(("named", "step"), [((), "install"), (("selected/fast",), "--workflows")])
def test_an_onnx_file_without_a_workflow_is_an_error(named: tuple[str, ...], step: str) -> None:
    others = [builders.workflow("one", input_formats=("torch", "onnx"))] if named else []
    with pytest.raises(NoStackError, match="ONNX") as problem:
        plan(
            builders.workflow("selected"), *others, model=OnnxModel(name="a.onnx"), workflows=named
        )
    assert step in problem.value.next_step


def test_a_baseline_that_cannot_run_is_an_error() -> None:
    bare = builders.machine(software=builders.interpreter(packages={}))
    with pytest.raises(NoStackError, match="torch") as problem:
        plan(builders.workflow(), machine=bare)
    assert "pip install" in problem.value.next_step
    with pytest.raises(NoStackError, match="float64") as problem:
        plan(builders.workflow(), dtype="float64")
    assert problem.value.next_step


@pytest.mark.parametrize(
    ("limits", "missing"),
    [({"devices": ("cuda",)}, "cpu"), ({"tasks": ("generate",)}, "forward")],
    ids=["device", "task"],
)
def test_an_arm_for_another_device_or_task_is_excluded_with_a_reason(
    limits: dict[str, Any], missing: str
) -> None:
    limited = builders.workflow(
        "limited", arms={"default": DeclaredArm(), "other": DeclaredArm(**limits)}
    )
    assert [each.id for each in plan(limited).arms] == [BASELINE, builders.DUPLICATE, "limited"]
    with pytest.raises(NoStackError, match=rf"limited/other does not support {missing}"):
        refuse(limited, workflows=("limited/other",))
    on_gpu = plan(limited, machine=builders.gpu_machine(H100), **ON_GPU)
    assert ("limited/other" in [each.id for each in on_gpu.arms]) == (missing == "cpu")


def test_an_onnx_file_has_no_arm_that_would_run_the_code_of_another() -> None:
    workflow = builders.shipped_catalogue().by_id["onnxruntime-cpu"]
    for model, arms in ((OnnxModel(name="a.onnx"), 2), (builders.question().model, 3)):
        made = plan(builders.workflow(builders.BASELINE), workflow, model=model)
        own = [each for each in made.arms if each.workflow == workflow.id and not each.duplicate_of]
        assert len(own) == arms


@pytest.mark.parametrize("workflow", ["onnxruntime-cpu", "onnxruntime-cuda", "openvino"])
@pytest.mark.parametrize(("size", "expected"), [(4, "refused"), (None, "served")])
def test_a_file_serves_new_shapes_if_its_batch_is_free(
    workflow: str, size: int | None, expected: str
) -> None:
    known = builders.shipped_catalogue().by_id[workflow]
    question = builders.question(model=OnnxModel(name="a.onnx", batch_size=size))
    assert known.for_question(question).declared.new_shapes.value == expected


@pytest.mark.parametrize(
    "limits",
    [{"on_request": ("cpu",)}, {"called_for": "nondeterministic"}],
    ids=["request", "fallback"],
)
def test_an_arm_on_request_or_a_fallback_is_measured_only_where_it_is_named(
    limits: dict[str, Any],
) -> None:
    slow = builders.workflow(
        "slow", arms={"default": DeclaredArm(), "dynamic": DeclaredArm(**limits)}
    )
    chosen = {
        names: [each.id for each in plan(slow, workflows=names).arms][2:]
        for names in ((), ("slow",), ("slow/dynamic",))
    }
    assert chosen == {(): ["slow"], ("slow",): ["slow"], ("slow/dynamic",): ["slow/dynamic"]}
    alone = builders.workflow("slow", arms={"default": DeclaredArm(**limits)})
    assert [each.id for each in plan(alone, workflows=("slow/default",)).arms][2:] == ["slow"]
    on_gpu = plan(slow, machine=builders.gpu_machine(H100), **ON_GPU)
    assert ("slow/dynamic" in [each.id for each in on_gpu.arms]) == ("on_request" in limits)


def test_what_cannot_run_is_refused_only_where_nothing_else_is_named() -> None:
    other = builders.workflow("other", devices=("cuda",))
    here = builders.workflow("here")
    with pytest.raises(NoStackError, match="other"):
        refuse(other, workflows=("other",))
    refuse(other, here, workflows=("other", "here"))
    for names in (("other", "here"), (BASELINE,), ()):
        made = plan(other, here, workflows=names)
        excluded = {each.workflow: each.status for each in made.excluded}
        assert excluded["other"] == "unsupported"


def test_other_arms_of_the_baseline_workflow_are_measured_only_on_request() -> None:
    eager = builders.workflow(
        BASELINE, build_order=0, arms=dict.fromkeys(("default", "cuda-graph"), DeclaredArm())
    )
    known = builders.catalogue(workflows=(eager, builders.workflow("graphs")))
    made = planning.plan(builders.question(workflows=("graphs",)), builders.machine(), known)
    assert [each.id for each in made.arms] == [BASELINE, builders.DUPLICATE, "graphs"]


def test_an_arm_has_the_extras_of_its_environment_on_the_device() -> None:
    known = builders.shipped_catalogue()
    extras = {
        device: {
            workflow.id: each.extras
            for workflow in known.for_question(builders.question(device=device)).workflows
            for each in list_arms(workflow, device)
        }
        for device in ("cpu", "cuda")
    }
    on_cpu, on_gpu = (extras[device]["openxla-jax"] for device in ("cpu", "cuda"))
    assert (on_cpu, on_gpu) == ({}, {"jax": ("cuda13",)})
    assert extras["cpu"]["max"] == {"max": ("serve",)}


@pytest.mark.parametrize(
    ("dtype", "options"), [("float32", set()), ("float16", {"fp16-accumulation"})]
)
def test_less_exact_products_are_arms_of_their_precision(dtype: Dtype, options: set[str]) -> None:
    less_exact = {"fp16-accumulation"}
    question = builders.question(device="cuda", gpu="GPU-1", dtype=dtype)
    workflows = [
        each for each in builders.shipped_catalogue().workflows if less_exact & {*each.arms}
    ]
    assert workflows
    for workflow in workflows:
        arms = list_arms(workflow, "cuda")
        found = {each.option for each in arms if unsupported_use(workflow, each, question) is None}
        assert found & less_exact == options


def test_a_model_in_its_own_precision_is_asked_in_the_worker() -> None:
    question = builders.question(device="cuda", gpu="GPU-1", dtype="own")
    eager = builders.shipped_catalogue().by_id[BASELINE]
    arms = {each.option: each for each in list_arms(eager, "cuda")}
    assert unsupported_use(eager, arms["fp16-accumulation"], question) is None
    assert arms["fp16-accumulation"].dtypes == ("float16",)
    assert set(arms["default"].dtypes) == set(protocol.PRECISIONS)
    assert {protocol.OWN, *protocol.PRECISIONS} == set(get_args(Dtype))


ENGINE = builders.workflow(
    "engine",
    arms={
        "default": DeclaredArm(),
        "q8": DeclaredArm(options={"weights": "Q8"}, weight_format="int8"),
        "q4": DeclaredArm(options={"weights": "Q4"}, weight_format="int4"),
    },
)


def planned(**asked: Any) -> set[str]:
    return {each.id for each in plan(ENGINE, **asked).arms} - {BASELINE, builders.DUPLICATE}


def test_a_format_is_planned_only_when_it_is_asked_for() -> None:
    assert planned(quantised=()) == {"engine"}
    assert planned(quantised=("int8",)) == {"engine", "engine/q8"}
    assert planned(quantised=("int8", "int4", "fp8")) == {"engine", "engine/q8", "engine/q4"}


def test_a_named_quantised_arm_needs_the_option_too() -> None:
    with pytest.raises(NoStackError) as refusal:
        refuse(ENGINE, workflows=("engine/q4",))
    assert refusal.value.next_step == "add --quantised int4"
    assert planned(workflows=("engine/q4",), quantised=("int4",)) == {"engine/q4"}


@pytest.mark.parametrize(("asked", "fix"), [((), ", and add --quantised int8"), (("int8",), "")])
def test_what_is_not_asked_for_need_not_be_installed(asked: tuple[str, ...], fix: str) -> None:
    declared = {"default": DeclaredArm(weight_format="int8")}
    found = plan(builders.workflow(environment=OWN, arms=declared), quantised=asked)
    assert [each.fix for each in found.excluded] == [f"p3-advisor env create apart{fix}"]


def test_native_arms_keep_the_rules_of_accuracy_and_quantised_ones_do_not() -> None:
    rules = builders.shipped_catalogue().accuracy
    arms = {each.id: each for each in plan(ENGINE, quantised=("int4",)).arms}
    native, quantised = (
        accuracy_thresholds(rules_of(arms[name], rules, 1e-3)) for name in ("engine", "engine/q4")
    )
    assert native["close"]["tolerance"] == 1e-3
    assert quantised["close"]["tolerance"] == rules.quantised["tolerance"]
    assert quantised["exact"] == native["exact"]
    assert min(native["text"]["exact_divergence"].values()) > 0
    assert quantised["text"]["exact_divergence"] == 0
    assert quantised["text"]["gap"] == rules.quantised["gap"]
    assert set(native) == {"exact", "close", "repeats", "envelope", "text"}


WRITER = Environment(kind="own", name="writer", requirements=("llmcompressor>=0.12",))
WRITTEN = builders.workflow(
    "engine",
    arms={
        "default": DeclaredArm(),
        "written": DeclaredArm(options={"scheme": "W8A8"}, weight_format="int8", quantiser=WRITER),
    },
)


def test_an_arm_has_the_interpreter_that_writes_its_checkpoint() -> None:
    """That of the created environment, or of the question if it has the packages."""
    packages = {"torch": "2.13.0", "llmcompressor": "0.14.0.1"}
    own = builders.machine(software=builders.interpreter(packages=packages))
    created = builders.machine_with_environment("writer")
    for machine, python in ((created, "/env/bin/python"), (own, own.software.executable)):
        found = plan(WRITTEN, machine=machine, quantised=("int8",))
        quantisers = {each.id: each.quantiser for each in found.arms}
        assert (quantisers["engine"], quantisers["engine/written"]) == ("", python)
        assert found.excluded == ()


@pytest.mark.parametrize(
    "machine", [builders.machine(), builders.machine_with_environment("writer", "it is gone")]
)
def test_an_arm_without_it_is_not_installed_and_the_others_are_measured(machine: Machine) -> None:
    found = plan(WRITTEN, machine=machine, quantised=("int8",))
    assert "engine" in {each.id for each in found.arms}
    (excluded,) = found.excluded
    assert (excluded.name, excluded.status) == (("engine", "written"), "not-installed")
    assert excluded.fix == "p3-advisor env create writer"


def test_the_environment_is_not_missed_where_no_arm_needs_it() -> None:
    assert plan(WRITTEN).excluded == ()
    assert plan(WRITTEN, machine=builders.machine(), quantised=("int4",)).excluded == ()


@pytest.mark.parametrize(("workflow", "builds_alone"), [("sglang", True), ("vllm", False)])
def test_an_engine_whose_cache_is_a_share_of_the_free_gpu_memory_builds_alone(
    workflow: str, builds_alone: bool
) -> None:
    arms = list_arms(builders.shipped_catalogue().by_id[workflow], "cuda")
    assert {each.builds_alone for each in arms} == {builds_alone}
