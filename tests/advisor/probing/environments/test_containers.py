"""The command that starts a worker in a container, and a run through a fake engine."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
from collections.abc import Callable

import builders
import pytest

from advisor.applicability import planning
from advisor.applicability.obstacles import find_obstacle
from advisor.context import Context
from advisor.domain.environment import Environment
from advisor.pipeline.decision import decide
from advisor.pipeline.draft import prepare
from advisor.pipeline.execution import execute
from advisor.probing.environments import containers, variables
from advisor.question.answers import Answers
from probes import protocol

IMAGE = "registry/paper:26.02"
CONTAINER = Environment(kind="container", name="paper", image=IMAGE)
#: Takes the arguments of docker, writes them to a file, and runs the command without a container.
FAKE_ENGINE = """#!/bin/sh
[ "$1" = image ] && exit 0
printf '%s\\n' "$@" > "$ENGINE_ARGUMENTS"
while [ "$1" != --entrypoint ]; do shift; done
shift 3
exec "$ENGINE_PYTHON" "$@"
"""
#: Variables that a container gets; the engine itself selects the device.
VARIABLES = """
    TORCHINDUCTOR_CACHE_DIR TRITON_CACHE_DIR CUDA_CACHE_PATH JAX_COMPILATION_CACHE_DIR
    VLLM_CACHE_ROOT MODULAR_CACHE_DIR
    OMP_NUM_THREADS MKL_NUM_THREADS OPENBLAS_NUM_THREADS NPROC TVM_NUM_THREADS
    XLA_PYTHON_CLIENT_PREALLOCATE
    HF_HUB_DISABLE_TELEMETRY DO_NOT_TRACK VLLM_NO_USAGE_STATS MAX_SERVE_DISABLE_TELEMETRY TF_BUILD
    PYTHONSAFEPATH PYTHONDONTWRITEBYTECODE TOKENIZERS_PARALLELISM
    HF_HUB_OFFLINE
    P3_ADVISOR_WORKER
"""


def python_command(
    engine: str = "/usr/bin/docker", gpu: str | None = "GPU-1", code: str = "/code"
) -> list[str]:
    writable = (pathlib.Path("/run/arm"), pathlib.Path("/run/scratch"))
    return containers.python_command(
        engine,
        IMAGE,
        gpu=gpu,
        code=pathlib.Path(code),
        writable=writable,
        readable=(pathlib.Path("/models/llama"),),
        user=(1000, 1001),
    )


def test_the_docker_command() -> None:
    expected = """
        /usr/bin/docker run --rm --init --interactive --network none
        --cap-drop ALL --security-opt no-new-privileges --ipc private --shm-size 1g
        --user 1000:1001 --gpus device=GPU-1
        --mount type=bind,source=/code,target=/code,readonly
        --mount type=bind,source=/models/llama,target=/models/llama,readonly
        --mount type=bind,source=/run/arm,target=/run/arm
        --mount type=bind,source=/run/scratch,target=/run/scratch
    """
    passed = [word for name in VARIABLES.split() for word in ("--env", name)]
    home = ["--env", "HOME=/run/arm", "--workdir", "/run/arm"]
    python = ["--entrypoint", "python3", IMAGE]
    assert python_command() == [*expected.split(), *passed, *home, *python]


def test_a_container_gets_every_variable_of_a_worker() -> None:
    command = python_command()
    passed = {command[index + 1] for index, word in enumerate(command) if word == "--env"}
    question = builders.question(gpu="GPU-1", offline=True)
    worker = variables.worker_environment({}, question, 4, pathlib.Path("/run/scratch"))
    assert {*worker, protocol.MARK_VARIABLE} - {"CUDA_VISIBLE_DEVICES"} <= passed


def test_podman_has_its_own_options_for_user_and_device() -> None:
    command = python_command("/usr/bin/podman")
    assert command[command.index("--userns") + 1] == "keep-id"
    assert command[command.index("--device") + 1] == "nvidia.com/gpu=GPU-1"
    assert "--gpus" not in command


def test_without_a_gpu_no_device_is_passed() -> None:
    assert not {"--gpus", "--device"} & set(python_command(gpu=None))


def test_a_path_cannot_become_another_field_of_its_mount() -> None:
    command = python_command(code='/a,target=/etc,"b')
    assert 'type=bind,"source=/a,target=/etc,""b","target=/a,target=/etc,""b",readonly' in command


def test_local_images_are_found_and_a_failing_engine_has_none() -> None:
    def run(command: list[str], **_: object) -> subprocess.CompletedProcess[bytes]:
        return subprocess.CompletedProcess(command, 0 if command[-1] == IMAGE else 1)

    def broken(command: list[str], **_: object) -> subprocess.CompletedProcess[bytes]:
        raise subprocess.TimeoutExpired(command, 1)

    assert containers.find_local_images("docker", ["other", IMAGE], run=run) == (IMAGE,)
    assert containers.find_local_images("docker", [IMAGE], run=broken) == ()


def test_an_image_is_used_where_there_is_no_environment() -> None:
    workflow = builders.workflow(
        environment=Environment(kind="own", requirements=("rare",)), containers=(CONTAINER,)
    )
    here = builders.machine(engine="/usr/bin/docker", images=(IMAGE,))
    (arm,) = planning.plan(builders.question(), here, builders.catalogue(workflow)).arms[2:]
    assert (arm.image, arm.python) == (IMAGE, "")
    found = find_obstacle(workflow, builders.question(), builders.machine(engine="/usr/bin/docker"))
    assert found is not None
    assert found.fix == f"p3-advisor env create compiled, or docker pull {IMAGE}"


@pytest.fixture
def engine(tmp_path: pathlib.Path) -> dict[str, str]:
    docker = tmp_path / "bin" / "docker"
    docker.parent.mkdir()
    docker.write_text(FAKE_ENGINE)
    docker.chmod(0o755)
    settings = {"ENGINE_ARGUMENTS": str(tmp_path / "arguments"), "ENGINE_PYTHON": sys.executable}
    return {**os.environ, **settings, "PATH": f"{docker.parent}:{os.environ['PATH']}"}


def test_a_worker_in_a_container_is_measured_like_any_other(
    engine: dict[str, str], fake_context: Callable[[], Context], tmp_path: pathlib.Path
) -> None:
    world = fake_context()
    rubric = tmp_path / "rubric"
    rubric.mkdir()
    for file in world.rubric.iterdir():
        if file.suffix == ".toml":
            (rubric / file.name).write_bytes(file.read_bytes())
    tables = (rubric / "workflows.toml").read_text()
    before, quick = tables.split("[workflow.quick]\n")
    quick = quick.replace(
        'environment = { kind = "shared", requirements = [] }',
        'environment = "apart"\ncontainers = ["paper"]',
        1,
    )
    apart = '[environment.apart]\nkind = "own"\nrequirements = ["rare-stack==2.1"]\n'
    paper = f'[environment.paper]\nkind = "container"\nimage = "{IMAGE}"\n'
    (rubric / "workflows.toml").write_text(f"{before}[workflow.quick]\n{quick}\n{apart}\n{paper}")
    inside = Context(environment=engine, store=world.store, probes=world.probes, rubric=rubric)
    run = prepare(Answers(gpu="cpu", batch_sizes="1", budget="2", workflows="quick"), inside)
    for _ in execute(run, inside):
        pass
    assert {measurement.arm for measurement in decide(run).results.measurements} == {
        "pytorch-eager",
        "quick",
    }
    arguments = (tmp_path / "arguments").read_text().split("\n")
    assert arguments[:2] == ["run", "--rm"]
    assert arguments[arguments.index("--entrypoint") + 2] == IMAGE
