"""Names, directories and records of environments, and the variables of workers."""

from __future__ import annotations

import functools
import os
import pathlib
import re
from typing import Any

import builders
import pytest

from advisor.ask import catalogue_files
from advisor.domain.errors import UnknownEnvironmentError
from advisor.domain.workflow import Environment
from advisor.probing import env_registry, env_variables, uv_runner

APART = Environment(kind="own", name="apart", requirements=("rare-stack==2.1",))
WORKFLOWS = (
    builders.workflow("one", environment=APART),
    builders.workflow("two", environment=APART),
    builders.workflow("shared"),
)
LOCKS = [*(catalogue_files.catalogue_directory() / "locks").rglob("*.txt")]


def write_environment(root: pathlib.Path, digest: str) -> pathlib.Path:
    directory = builders.add_environment(root, "apart", digest)
    env_registry.interpreter_path(directory).touch()
    return directory


def digest(catalogue: pathlib.Path, environment: Environment = APART) -> str:
    return env_registry.environment_digest(environment, env_registry.lock_file(catalogue, "apart"))


def test_environments_are_in_the_home_folder_if_one_is_set() -> None:
    named = env_registry.default_root({"P3_ADVISOR_HOME": "/home/p3"})
    assert named == pathlib.Path("/home/p3/environments")
    assert env_registry.default_root({}).parts[-2:] == ("p3-advisor", "environments")


def test_the_digest_depends_on_the_lock_file_and_the_requirements(tmp_path: pathlib.Path) -> None:
    before = digest(tmp_path)
    assert digest(tmp_path) == before
    assert digest(tmp_path, builders.replace(APART, requirements=("rare-stack==2.2",))) != before
    assert digest(tmp_path, builders.replace(APART, licence="MIT")) == before
    lock = env_registry.lock_file(tmp_path, "apart")
    lock.parent.mkdir(parents=True)
    lock.write_text("rare-stack==2.1\n")
    with_lock = digest(tmp_path)
    assert with_lock != before
    lock.write_text("rare-stack==2.1 \\\n    --hash=sha256:0a \\\n    --hash=sha256:0b\n")
    assert digest(tmp_path) == with_lock, "hashes do not change what is installed"


def test_an_environment_of_an_earlier_lock_file_or_without_interpreter_has_a_fault(
    tmp_path: pathlib.Path,
) -> None:
    find = functools.partial(env_registry.find_created, tmp_path, WORKFLOWS, tmp_path)
    assert find() == {}
    write_environment(tmp_path, "0" * 12)
    assert find()["apart"].fault == env_registry.STALE_LOCK
    python = env_registry.interpreter_path(write_environment(tmp_path, digest(tmp_path)))
    assert (find()["apart"].fault, find()["apart"].python) == (None, str(python))
    python.unlink()
    assert find()["apart"].fault == env_registry.INTERPRETER_MISSING


@pytest.mark.parametrize("content", [b"", b"{", b'{"name": 1}'])
def test_an_environment_without_a_complete_record_is_ignored(
    content: bytes, tmp_path: pathlib.Path
) -> None:
    (write_environment(tmp_path, digest(tmp_path)) / env_registry.RECORD_FILE).write_bytes(content)
    assert env_registry.find_created(tmp_path, WORKFLOWS, tmp_path) == {}


def test_an_environment_is_selected_by_its_name_or_a_workflow_for_each_device() -> None:
    assert env_registry.select(WORKFLOWS, ["one", "apart", "two"]) == {"apart": APART}
    for_cpu = Environment(kind="own", name="apart-cpu", requirements=("rare-stack-cpu==2.1",))
    known = (builders.workflow("one", environment=APART, environment_on={"cpu": for_cpu}),)
    assert env_registry.own_environments(known) == {"apart": APART, "apart-cpu": for_cpu}
    assert env_registry.select(known, ["apart-cpu"]) == {"apart-cpu": for_cpu}
    assert env_registry.device_alternatives(known, "apart") == {"cpu": "apart-cpu"}
    assert env_registry.device_alternatives(known, "apart-cpu") == {}


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("shared", "no environment of its own"),
        ("nothing", "no environment 'nothing'"),
        ("..", "no env"),
    ],
)
def test_an_unknown_name_is_an_error(name: str, message: str) -> None:
    with pytest.raises(UnknownEnvironmentError, match=message):
        env_registry.select(WORKFLOWS, [name])


def test_shipped_environments_have_requirements_imports_and_a_licence() -> None:
    known = env_registry.own_environments(builders.shipped_catalogue().workflows)
    assert known
    for name, environment in known.items():
        assert environment.requirements, name
        assert environment.imports, name
        assert environment.licence, name
    assert set() < {file.stem for file in LOCKS} <= set(known)


def test_lock_files_have_pins_alone_and_hashes_unless_pytorch_builds_the_package() -> None:
    assert LOCKS
    for file in LOCKS:
        _, *entries = file.read_text().replace(" \\\n    ", " ").splitlines()
        assert entries
        for entry in entries:
            pin, *hashes = entry.split()
            assert re.fullmatch(r"[a-z0-9-]+==[a-z0-9.]+", pin), (file.name, pin)
            assert all(re.fullmatch(r"--hash=sha256:[0-9a-f]{64}", each) for each in hashes)
            assert bool(hashes) != pin.startswith(("torch", "triton")), (file.name, pin)


def uv(inherited: dict[str, str] | None = None, **settings: str) -> dict[str, str]:
    return uv_runner.uv_environment(
        inherited or {}, {name.replace("_", "-"): value for name, value in settings.items()}
    )


def test_sections_have_the_precedence_of_pip() -> None:
    lines = [
        "global.index-url='https://one/'",
        ":env:.index-url='https://three/'",
        "install.index-url='https://two/'",
        "freeze.timeout='9'",
    ]
    assert uv_runner.parse_pip_settings(lines) == {"index-url": "https://three/"}


@pytest.mark.parametrize(
    "line",
    ["", "no equals sign", "global.cert=", "global.cert=__import__('os')", "global.timeout=15"],
)
def test_an_unreadable_line_is_skipped(line: str) -> None:
    assert uv_runner.parse_pip_settings([line, "global.cert='/ca.pem'"]) == {"cert": "/ca.pem"}


def test_settings_come_from_pip_config(tmp_path: pathlib.Path) -> None:
    pip = tmp_path / "pip"
    pip.write_text("#!/bin/sh\necho \"global.find-links='/wheels'\"\n")
    pip.chmod(0o755)
    found = uv_runner.read_pip_settings(
        {
            "PATH": f"{tmp_path}:/usr/bin:/bin",
            "PIP_FIND_LINKS": "/wheels",
            "PIP_CONFIG_FILE": "/dev/null",
        }
    )
    assert found["find-links"] == "/wheels"


def test_settings_of_pip_become_variables_of_uv() -> None:
    variables = uv(
        index_url="https://mirror/simple",
        extra_index_url="https://a/simple\nhttps://b/simple",
        find_links="/one /two",
        trusted_host="mirror",
        cert="/ca.pem",
        proxy="http://proxy:3128",
    )
    assert variables["UV_DEFAULT_INDEX"] == "https://mirror/simple"
    assert variables["UV_INDEX"] == "https://a/simple https://b/simple"
    assert variables["UV_FIND_LINKS"] == "/one,/two"
    assert variables["UV_INSECURE_HOST"] == "mirror"
    assert variables["SSL_CERT_FILE"] == "/ca.pem"
    assert variables["ALL_PROXY"] == "http://proxy:3128"


def test_variables_of_the_user_have_precedence() -> None:
    inherited = {
        "UV_INDEX_URL": "https://mine",
        "UV_FIND_LINKS": "/mine",
        "https_proxy": "http://mine",
    }
    variables = uv(inherited, index_url="https://pip", find_links="/pip", proxy="http://pip")
    assert inherited.items() <= variables.items()
    assert not {"UV_DEFAULT_INDEX", "ALL_PROXY"} & set(variables)


def test_the_best_version_of_several_indexes_is_taken_only_where_pip_would() -> None:
    assert "UV_INDEX_STRATEGY" not in uv(index_url="https://one")
    assert uv(extra_index_url="https://two")["UV_INDEX_STRATEGY"] == "unsafe-best-match"
    asked = {"UV_INDEX_STRATEGY": "first-index"}
    assert asked.items() <= uv(asked, extra_index_url="https://two").items()


def test_python_path_variables_do_not_reach_uv() -> None:
    variables = uv(
        {
            "PYTHONPATH": "/foreign",
            "VIRTUAL_ENV": "/other",
            "HTTPS_PROXY": "http://proxy",
            "HOME": "/home/user",
        }
    )
    assert not {"PYTHONPATH", "VIRTUAL_ENV"} & set(variables)
    assert variables["HTTPS_PROXY"] == "http://proxy"


def test_uv_selects_the_build_of_torch_unless_the_user_configured_its_source(
    tmp_path: pathlib.Path,
) -> None:
    assert uv_runner.torch_backend("cpu", {}) == ["--torch-backend", "cpu"]
    assert uv_runner.torch_backend("auto", {"UV_FIND_LINKS": str(tmp_path)}) == [
        "--torch-backend",
        "auto",
    ]
    assert uv_runner.torch_backend("none", {}) == []
    assert uv_runner.torch_backend("cpu", {"UV_TORCH_BACKEND": "cu130"}) == []
    assert uv_runner.torch_backend("cpu", {"UV_DEFAULT_INDEX": "https://mirror"}) == []
    (tmp_path / "torch-2.13.0-cp311-cp311-linux_x86_64.whl").touch()
    assert uv_runner.torch_backend("cpu", {"UV_FIND_LINKS": f"https://elsewhere,{tmp_path}"}) == []


SCRATCH = pathlib.Path("/scratch/compiled-0")


def environment(
    inherited: dict[str, str] | None = None, threads: int = 4, **asked: Any
) -> dict[str, str]:
    return env_variables.worker_environment(
        inherited or {}, builders.question(**asked), threads, SCRATCH
    )


def test_neither_the_inherited_nor_the_own_environment_is_changed() -> None:
    inherited, own = {"OMP_NUM_THREADS": "64"}, dict(os.environ)
    environment(inherited)
    assert inherited == {"OMP_NUM_THREADS": "64"}
    assert dict(os.environ) == own


#: Threads, memory, telemetry and bytecode.
SET = {
    **dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "3"),
    "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
    "DO_NOT_TRACK": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "MAX_SERVE_DISABLE_TELEMETRY": "1",
    "TF_BUILD": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "PYTHONDONTWRITEBYTECODE": "1",
}


def test_what_a_measurement_needs_is_set_whatever_the_user_has() -> None:
    assert SET.items() <= environment(dict.fromkeys(SET, "64"), threads=3).items()


def test_every_cache_has_its_own_folder_in_the_scratch_directory() -> None:
    made = environment(dict.fromkeys(env_variables.CACHES, "/home/user/.cache"))
    folders = {pathlib.Path(made[name]) for name in env_variables.CACHES}
    assert len(folders) == len(env_variables.CACHES)
    assert all(folder.is_relative_to(SCRATCH) for folder in folders)


@pytest.mark.parametrize(
    ("inherited", "offline", "expected"),
    [({}, True, "1"), ({}, False, None), ({"HF_HUB_OFFLINE": "1"}, False, "1")],
)
def test_the_hub_is_offline_on_request(
    inherited: dict[str, str], *, offline: bool, expected: str | None
) -> None:
    assert environment(inherited, offline=offline).get("HF_HUB_OFFLINE") == expected


def test_a_created_environment_inherits_no_import_paths() -> None:
    inherited = {
        "PYTHONPATH": "/foreign",
        "PYTHONHOME": "/foreign",
        "VIRTUAL_ENV": "/other",
        "PATH": "/usr/bin",
    }
    made = env_variables.worker_environment(
        inherited, builders.question(), 4, SCRATCH, own_environment=True
    )
    assert not {"PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV"} & set(made)
    assert made["PATH"] == "/usr/bin"
    assert environment(inherited)["PYTHONPATH"] == "/foreign"
