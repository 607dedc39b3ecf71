"""Build complete, plausible values for tests; keywords change single fields."""

from __future__ import annotations

import dataclasses
import datetime as dt
import math
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar, cast

import msgspec

from advisor.ask import catalogue_files
from advisor.decide.intervals import MIN_PROCESSES
from advisor.decide.process_variance import widen
from advisor.domain.answer import UnmeasuredArm
from advisor.domain.catalogue import Catalogue
from advisor.domain.constraints import CRITERIA, Priorities
from advisor.domain.errors import UserError
from advisor.domain.machine import Cpu, CreatedEnvironment, Gpu, Interpreter, Machine
from advisor.domain.measurement import (
    BuildSeconds,
    CallDiagnosis,
    Interval,
    Measurement,
    MemoryBytes,
)
from advisor.domain.model import SyntheticModel
from advisor.domain.plan import Arm, Excluded, Plan
from advisor.domain.question import Budget, Lengths, Question
from advisor.domain.results import Adoption, RaceResult, Rating, Results, ScoredArm
from advisor.domain.run_events import EndCause, LoggedEvent, RaceClosed, RunEvent
from advisor.domain.run_state import SCHEMA, Header, ProcessState, RaceGroup, RunState
from advisor.domain.workflow import CitedFact, DeclaredArm, DeclaredFacts, Environment, Workflow
from advisor.probing import env_registry
from probes.accuracy import Accuracy, Checked
from probes.events import (
    Built,
    Engagement,
    Imported,
    MemoryRead,
    Opened,
    SnippetFacts,
    Visited,
    WarmedUp,
)
from probes.facts import InterpreterFacts
from probes.shape import Shape

Value = TypeVar("Value")


def replace(value: Value, /, **changes: Any) -> Value:
    """Return a struct or dataclass with other values in these fields, as `copy.replace` will."""
    is_struct = isinstance(value, msgspec.Struct)
    module: Any = msgspec.structs if is_struct else dataclasses
    return cast("Value", module.replace(value, **changes))


CREATED = dt.datetime(2026, 11, 21, 12, tzinfo=dt.timezone.utc)
BASELINE = "pytorch-eager"
DUPLICATE = "pytorch-eager#duplicate"
DEMO = SyntheticModel(name="demo", block="encoder", hidden=8, intermediate=16)


def question(*, input_tokens: int = 32, output_tokens: int = 32, **changes: Any) -> Question:
    asked = Question(
        model=SyntheticModel(name="synthetic/ffn@8x16", block="ffn", hidden=8, intermediate=16),
        task="forward",
        device="cpu",
        gpu=None,
        dtype="float32",
        batch_sizes=(1,),
        lengths=(Lengths(input_tokens=input_tokens, output_tokens=output_tokens),),
        priorities=priorities(),
        constraints=(),
        budget=Budget(name="quick", measuring_seconds=45, most_rounds=13),
        max_build_seconds=600,
        workflows=(),
        seed=0,
        python="/usr/bin/python3",
    )
    return replace(asked, **changes)


def priorities(
    performance: float = 40, productivity: float = 35, portability: float = 25, **further: float
) -> Priorities:
    return Priorities(
        performance=performance, productivity=productivity, portability=portability, **further
    )


def gpu(**changes: Any) -> Gpu:
    device = Gpu(
        index=0,
        uuid="GPU-0000",
        name="NVIDIA H100 80GB HBM3",
        compute_capability="9.0",
        memory_bytes=80 << 30,
        free_memory_bytes=79 << 30,
        driver="580.65",
        cuda_driver="13.0",
    )
    return replace(device, **changes)


def interpreter(**changes: Any) -> Interpreter:
    packages = {
        "torch": "2.12.0",
        "onnxruntime": "1.27.0",
        "onnx": "1.20.0",
        "onnxscript": "0.7.0",
        "transformers": "5.1.0",
    }
    software = Interpreter(
        executable="/usr/bin/python3", version="3.11.7", packages=packages, torch_cuda=None
    )
    return replace(software, **changes)


def machine(**changes: Any) -> Machine:
    here = Machine(
        cpu=Cpu(model="Fancy CPU", physical_cores=4, usable_processors=8, memory_bytes=16 << 30),
        gpus=(),
        gpu_problem="NVML Shared Library Not Found",
        kernel="Linux 6.8.0",
        software=interpreter(),
    )
    return replace(here, **changes)


def gpu_machine(*gpus: Gpu, **changes: Any) -> Machine:
    """Return a machine with these GPUs and a torch that can use them."""
    return machine(
        gpus=gpus or (gpu(),), gpu_problem=None, software=interpreter(torch_cuda="13.0"), **changes
    )


def declared(**facts: str | int) -> DeclaredFacts:
    values = {
        "lines_changed": 1,
        "export_step": False,
        "vendors": 4,
        "artefact_scope": "any",
        "target_needs": "runtime",
        "new_shapes": "served",
        "architectures": "any",
        **facts,
    }
    sourced: dict[str, Any] = {
        name: CitedFact(value=value, source="a test") for name, value in values.items()
    }
    return DeclaredFacts(**sourced)


def workflow(id_: str = "compiled", **changes: Any) -> Workflow:
    entry = Workflow(
        id=id_,
        title=id_.title(),
        tasks=("forward",),
        devices=("cpu", "cuda"),
        dtypes=("float32", "float16", "bfloat16"),
        input_formats=("torch",),
        environment=Environment(kind="shared", requirements=("torch>=2.11,<2.14",)),
        arms={"default": DeclaredArm()},
        build_order=1,
        declared=declared(),
        how_to_get=f"pip install {id_}",
        has_probe=True,
    )
    return replace(entry, **changes)


shipped_catalogue = catalogue_files.read_shipped
NOISE = shipped_catalogue().presets.noise


def catalogue(*workflows: Workflow, **changes: Any) -> Catalogue:
    """Return the shipped catalogue with eager PyTorch and these workflows only."""
    entries = (workflow(BASELINE, build_order=0), *workflows)
    return replace(shipped_catalogue(), **{"workflows": entries, **changes})


def header(**changes: Any) -> Header:
    made = Header(
        schema=SCHEMA,
        run_id="20261121-120000-0000",
        created=CREATED,
        advisor_version="0.1",
        question=question(),
        machine=machine(),
        catalogue=catalogue(workflow("compiled")),
    )
    return replace(made, **changes)


def header_of(*workflows: Workflow, **asked: Any) -> Header:
    """Return the header of a question with these fields, about these workflows."""
    return header(question=question(**asked), catalogue=catalogue(*workflows))


def arm(id_: str, **changes: Any) -> Arm:
    return replace(
        Arm(
            id=id_,
            workflow=id_.partition("/")[0],
            option="default",
            options={},
            eager_fallback=True,
        ),
        **changes,
    )


def plan(*ids: str, excluded: Sequence[Excluded] = ()) -> Plan:
    """Return a plan of the baseline, its duplicate and these arms."""
    duplicate = arm(DUPLICATE, workflow=BASELINE, duplicate_of=BASELINE)
    return Plan(
        arms=(arm(BASELINE), duplicate, *(arm(id_) for id_ in ids)), excluded=tuple(excluded)
    )


#: Of a workflow that cannot be measured.
NOT_INSTALLED: dict[str, Any] = {
    "status": "not-installed",
    "reason": "its environment has not been made",
    "fix": "make it",
}


def excluded(id_: str = "absent", **changes: Any) -> Excluded:
    return Excluded(**{"workflow": id_, **NOT_INSTALLED, **changes})


def unmeasured(id_: str = "absent", **changes: Any) -> UnmeasuredArm:
    names = {"arm": id_, "workflow": id_, "title": id_.title()}
    return UnmeasuredArm(**{**names, **NOT_INSTALLED, **changes})


def visits(
    seconds: Sequence[float], batch_size: int = 1, first_round: int = 1
) -> tuple[Visited, ...]:
    """Return one visit for each round; all calls of a visit take the same time."""
    return tuple(
        Visited(
            shape=Shape(batch_size),
            round=number,
            seconds=(each, each, each),
            warmup_seconds=(each,),
            streamed_seconds=None,
        )
        for number, each in enumerate(seconds, start=first_round)
    )


def process(*made: Visited, **changes: Any) -> ProcessState:
    """Return a worker process that is being measured and has made these visits."""
    shapes = sorted({visit.shape for visit in made})
    state = ProcessState(
        phase="measure",
        imported=Imported(versions={"torch": "2.12.0"}, settings={"threads": "4"}),
        opened=Opened(parameters=256, parameter_bytes=1024, unit="samples", units_per_sample=1),
        built={
            shape: Built(shape=shape, build_seconds=2.0, first_call_seconds=1.0) for shape in shapes
        },
        checked={shape: checked(shape.batch_size) for shape in shapes},
        engaged=Engagement(share=1.0, proof="a test says so", facts={"graphs": 1}),
        warmed_up={
            shape: WarmedUp(shape=shape, typical_seconds=0.01, steady=True) for shape in shapes
        },
        memory=MemoryRead(peak_rss_bytes=300 << 20, device_reserved_bytes=None),
        ready=True,
        visits=made,
    )
    return replace(state, **changes)


def interpreter_facts(distributions: dict[str, str], **changes: Any) -> InterpreterFacts:
    """Return what a worker tells about an interpreter in which each of these provides itself."""
    facts = InterpreterFacts(
        python="3.11",
        interpreter="/usr/bin/python3",
        distributions=distributions,
        providers={name: (name,) for name in distributions},
    )
    return replace(facts, **changes)


def snippet_facts(**changes: Any) -> SnippetFacts:
    facts = SnippetFacts(allowances={"1": (1e-7,)}, serving_command=None, integration="")
    return replace(facts, **changes)


def checked(batch_size: int = 1, **changes: Any) -> Checked:
    found = Checked(
        shape=Shape(batch_size),
        accuracy_class="exact",
        reference="float64 on the CPU",
        rmse=1e-7,
        rmse_eager=1e-7,
        allowed=1e-6,
        compared_elements=1024,
        accuracy=Accuracy(
            relative_error=1e-7,
            relative_error_eager=1e-7,
            ratio_to_eager=1.0,
            cosine=1.0,
            worst_element=1e-6,
            same_input_calls=30,
        ),
    )
    return replace(found, **changes)


def run_state(
    processes: Mapping[str, ProcessState | Sequence[ProcessState]],
    *,
    last_groups: Mapping[int, tuple[str, ...]] | None = None,
    closed: Mapping[int, EndCause] | None = None,
    **changes: Any,
) -> RunState:
    """Return a run whose plan has the baseline, its duplicate and every arm with a process.

    `last_groups` has the arms of the race by batch size, `closed` why the race ended.
    """
    others = [id_ for id_ in processes if id_ not in {BASELINE, DUPLICATE}]
    by_arm = {
        id_: (made,) if isinstance(made, ProcessState) else tuple(made)
        for id_, made in processes.items()
    }
    groups: dict[Shape, tuple[RaceGroup, ...]] = {
        Shape(size): (RaceGroup(arms=arms, first_round=1),)
        for size, arms in (last_groups or {}).items()
    }
    ended = {
        Shape(size): RaceClosed(shape=Shape(size), reason=cause, cause=cause)
        for size, cause in (closed or {}).items()
    }
    return replace(
        RunState(plan=plan(*others), processes=by_arm, groups=groups, closed=ended), **changes
    )


def race_result(shape: Shape | int = 1, **changes: Any) -> RaceResult:
    result = RaceResult(
        shape=Shape(shape) if isinstance(shape, int) else shape,
        best=BASELINE,
        rounds=4,
        eliminated={},
        noise_floor=None,
        end_reason="ended after 4 rounds",
    )
    return replace(result, **changes)


def call_diagnosis(**changes: Any) -> CallDiagnosis:
    """Return a diagnosis with these figures only."""
    blank = dict.fromkeys(CallDiagnosis.__struct_fields__)
    return CallDiagnosis(**{**blank, "shape": Shape(1), "bound": "memory", **changes})


def measurement(
    arm_id: str = "compiled", *, speedup: float = 1.5, low: float | None = None, **changes: Any
) -> Measurement:
    """Return an arm's measurement; by default the bounds of the speed-up are its value."""
    made = Measurement(
        arm=arm_id,
        workflow=arm_id.partition("/")[0],
        option=arm_id.partition("/")[2] or "default",
        cells=(),
        speedup=Interval(value=speedup, low=speedup if low is None else low, high=speedup),
        build_seconds=BuildSeconds(cold=3.0, warm=None),
        memory_bytes=MemoryBytes(peak=300 << 20, source="a test"),
        correctness=(checked(),),
        engaged_share=1.0,
        engagement="a test says so",
        versions={"torch": "2.12.0"},
        settings={},
    )
    return replace(made, **changes)


def widened(entry: Measurement, floors: Mapping[Shape, float]) -> Measurement:
    whole = widen(entry.speedup, math.hypot(*floors.values()) / math.sqrt(len(floors)))
    errors = [(each, floors.get(each.shape, 0.0)) for each in entry.cells]
    cells = tuple(replace(cell, speedup=widen(cell.speedup, error)) for cell, error in errors)
    return replace(entry, speedup=whole, cells=cells)


def results(*measurements: Measurement, **changes: Any) -> Results:
    """Return results with little noise."""
    made = Results(
        baseline=BASELINE,
        measurements=measurements,
        races=(race_result(noise_floor=0.004),),
        noise_floor=0.004,
    )
    made = replace(made, **changes)
    # In a run the intervals are widened by the variances of its processes.
    floors = {
        race.shape: math.log1p(race.noise_floor)
        for race in made.races
        if race.noise_floor is not None
    }
    return replace(
        made,
        measurements=tuple(
            widened(entry, floors)
            if floors
            and entry.arm != made.baseline
            and not (entry.cells and all(one.processes >= MIN_PROCESSES for one in entry.cells))
            else entry
            for entry in made.measurements
        ),
    )


def rating(tier: int = 2, **changes: Any) -> Rating:
    made = Rating(
        tier=tier,
        grade=float(tier),
        fact="vendors",
        value=4,
        rule="vendors >= 2",
        evidence="declared",
        basis="ours",
        source="a test",
        to_next=(),
        why="it reaches some",
    )
    return replace(made, **changes)


def scored_arm(
    arm_id: str,
    weights: Priorities | None = None,
    *,
    tiers: Sequence[int] = (2, 2, 2, 2, 2),
    **changes: Any,
) -> ScoredArm:
    """Return an arm with these tiers, in the order of `CRITERIA`, and their score."""
    by_criterion = dict(zip(CRITERIA, tiers, strict=True))
    made = ScoredArm(
        arm=arm_id,
        workflow=arm_id.partition("/")[0],
        title=arm_id,
        ratings={name: rating(tier) for name, tier in by_criterion.items()},
        score=(weights or priorities()).weigh(by_criterion),
        rank=0,
        speedup=1.5,
        adoption=Adoption(lines_changed=2, export_step=False, own_environment=False),
    )
    return replace(made, **changes)


def machine_with_environment(name: str, fault: str | None = None) -> Machine:
    """Return a machine with an environment of a workflow, which a fault makes useless."""
    made = CreatedEnvironment(name=name, python="/env/bin/python", digest="0" * 12, fault=fault)
    return machine(environments={name: made})


def add_environment(root: pathlib.Path, name: str, digest: str) -> pathlib.Path:
    """Return the directory of an environment without an interpreter, whose creation has ended."""
    directory = env_registry.environment_directory(root, name, digest)
    env_registry.interpreter_path(directory).parent.mkdir(parents=True)
    record = env_registry.CreationRecord(digest=digest, packages={}, disk_bytes=1, seconds=1)
    (directory / env_registry.RECORD_FILE).write_bytes(msgspec.json.encode(record))
    return directory


def write_cgroup(proc: pathlib.Path, cgroup: pathlib.Path) -> None:
    """Write the files below `/proc` of a process that is in this cgroup."""
    (proc / "self").mkdir(parents=True)
    (proc / "self" / "cgroup").write_text("0::/\n")
    (proc / "self" / "mountinfo").write_text(f"41 31 0:38 / {cgroup} rw - cgroup2 cgroup2 rw\n")


def known(value: Value | None) -> Value:
    """Return a value that the test expects to be there."""
    assert value is not None
    return value


def error_of(action: Callable[[], object]) -> UserError | None:
    try:
        action()
    except UserError as problem:
        return problem
    return None


def events(*run_events: RunEvent) -> list[LoggedEvent]:
    """Return the events as logged in a run, one second apart."""
    return [
        LoggedEvent(seq=number, at=float(number), run_event=run_event)
        for number, run_event in enumerate(run_events, start=1)
    ]
