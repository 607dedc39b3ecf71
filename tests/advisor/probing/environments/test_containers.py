"""The exact words that start a worker in a container, and a whole run through an engine that only pretends to be one."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
from collections.abc import Callable

import builders
import pytest

from advisor import applicability
from advisor.context import Context
from advisor.domain.workflow import Environment
from advisor.pipeline.decision import decide
from advisor.pipeline.draft import prepare
from advisor.pipeline.execution import execute
from advisor.probing.environments import containers
from advisor.question.answers import Answers

IMAGE = "registry/paper:26.02"
HELD = Environment(kind="container", name="paper", image=IMAGE)
#: Takes the words of docker and runs what they start here, after it has written them down.
ENGINE = """#!/bin/sh
[ "$1" = image ] && exit 0
printf '%s\\n' "$@" > "$ENGINE_SAW"
while [ "$1" != --entrypoint ]; do shift; done
shift 3
exec "$ENGINE_PYTHON" "$@"
"""


def words(
    engine: str = "/usr/bin/docker", gpu: str | None = "GPU-1", code: str = "/code"
) -> list[str]:
    places = (pathlib.Path("/run/arm"), pathlib.Path("/run/scratch"))
    return containers.start_python(
        engine,
        IMAGE,
        gpu=gpu,
        code=pathlib.Path(code),
        writable=places,
        readable=(pathlib.Path("/models/llama"),),
        user=(1000, 1001),
    )


def test_docker_is_given_exactly_these_words() -> None:
    expected = """/usr/bin/docker run --rm --init --interactive --network none --cap-drop ALL --security-opt no-new-privileges --ipc private
        --shm-size 1g --user 1000:1001 --gpus device=GPU-1
        --mount type=bind,source=/code,target=/code,readonly --mount type=bind,source=/models/llama,target=/models/llama,readonly
        --mount type=bind,source=/run/arm,target=/run/arm --mount type=bind,source=/run/scratch,target=/run/scratch"""
    variables = [word for name in containers.PASSED for word in ("--env", name)]
    home = ["--env", "HOME=/run/arm", "--workdir", "/run/arm"]
    assert words() == [*expected.split(), *variables, *home, "--entrypoint", "python3", IMAGE]


def test_podman_maps_the_user_and_names_the_device_its_own_way() -> None:
    made = words("/usr/bin/podman")
    assert made[made.index("--userns") + 1] == "keep-id"
    assert made[made.index("--device") + 1] == "nvidia.com/gpu=GPU-1"
    assert "--gpus" not in made


def test_without_a_gpu_none_is_asked_for() -> None:
    assert not {"--gpus", "--device"} & set(words(gpu=None))


def test_a_path_cannot_become_another_field_of_its_mount() -> None:
    made = words(code='/a,target=/etc,"b')
    assert 'type=bind,"source=/a,target=/etc,""b","target=/a,target=/etc,""b",readonly' in made


def test_images_that_are_here_are_found_and_an_engine_that_fails_has_none() -> None:
    def run(command: list[str], **_: object) -> subprocess.CompletedProcess[bytes]:
        return subprocess.CompletedProcess(command, 0 if command[-1] == IMAGE else 1)

    def broken(command: list[str], **_: object) -> subprocess.CompletedProcess[bytes]:
        raise subprocess.TimeoutExpired(command, 1)

    assert containers.find_images("docker", ["other", IMAGE], run=run) == (IMAGE,)
    assert containers.find_images("docker", [IMAGE], run=broken) == ()


def test_an_image_serves_where_no_environment_does() -> None:
    workflow = builders.workflow(
        environment=Environment(kind="own", requirements=("rare",)), containers=(HELD,)
    )
    here = builders.machine(engine="/usr/bin/docker", images=(IMAGE,))
    (arm,) = applicability.plan(builders.question(), here, builders.catalogue(workflow)).arms[2:]
    assert (arm.image, arm.python) == (IMAGE, "")
    found = applicability.find_obstacle(
        workflow, builders.question(), builders.machine(engine="/usr/bin/docker")
    )
    assert found is not None
    assert found.fix == f"p3-advisor env create compiled, or docker pull {IMAGE}"


@pytest.fixture
def engine(tmp_path: pathlib.Path) -> dict[str, str]:
    docker = tmp_path / "bin" / "docker"
    docker.parent.mkdir()
    docker.write_text(ENGINE)
    docker.chmod(0o755)
    saw = {"ENGINE_SAW": str(tmp_path / "saw"), "ENGINE_PYTHON": sys.executable}
    return {**os.environ, **saw, "PATH": f"{docker.parent}:{os.environ['PATH']}"}


def test_a_worker_in_a_container_is_measured_like_any_other(
    engine: dict[str, str], fake_world: Callable[[], Context], tmp_path: pathlib.Path
) -> None:
    world = fake_world()
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
    saw = (tmp_path / "saw").read_text().split("\n")
    assert saw[:2] == ["run", "--rm"]
    assert saw[saw.index("--entrypoint") + 2] == IMAGE
