"""Resolve the shipped locks for this platform: `python tests/stacks/locks.py [--hashes] [NAME...]`.

A lock pins versions with the hashes of their files and names neither an index nor a build: the
build of torch is chosen when an environment is created. Packages of which PyTorch's index has
builds have no hash. `--hashes` keeps the versions and adds the hashes.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence

import tomlkit
import uv
from packaging.specifiers import SpecifierSet

from advisor.ask import catalogue_files
from advisor.domain.workflow import Environment
from advisor.probing import env_registry, uv_runner

#: The Python version that locks are resolved for, and those that an environment may have.
PYTHON = "3.11"
PYTHONS = ("3.10", "3.11", "3.12", "3.13")
HEADER = "# Resolved for {name}; update with: python tests/stacks/locks.py {name}\n"
#: The build in a version such as `2.13.0+cpu`.
BUILD = re.compile(r"\+\S+")
#: Beginnings of the names of packages that uv takes from PyTorch's index, where their builds have
#: other hashes than on PyPI: `TorchStrategy::applies_to` in
#: https://github.com/astral-sh/uv/blob/6eeb4631b4850cbc509126116730a25824d37020/crates/uv-torch/src/backend.rs
BUILT_BY_PYTORCH = ("torch", "triton", "pytorch-triton")
#: Further sources, which may have fewer files of a version than the default index.
FURTHER_SOURCES = ("UV_FIND_LINKS", "UV_INDEX", "UV_EXTRA_INDEX_URL")


def resolve(environment: Environment, variables: Mapping[str, str]) -> list[str]:
    """Return the pins of the environment's requirements and their dependencies."""
    backend = uv_runner.torch_backend(environment.torch, variables)
    options = ["--no-annotate", "--no-emit-index-url", "--no-emit-find-links", "--upgrade"]
    with uv_runner.excludes(environment.excluded_packages) as excludes:
        output = compile_pins(
            [*options, "--python-version", PYTHON, *excludes, *backend],
            environment.requirements,
            variables,
        )
    return BUILD.sub("", output).splitlines()


def read_hashes(
    pins: list[str], python: SpecifierSet, variables: Mapping[str, str]
) -> dict[str, set[str]]:
    """Return the hashes of the files of each pin that install on this platform, by name.

    They are those of the default index. A Python version for which a pin has no file is skipped:
    the environment cannot have it.
    """
    found: dict[str, set[str]] = {}
    variables = {name: each for name, each in variables.items() if name not in FURTHER_SOURCES}
    for version in filter(python.contains, PYTHONS):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "pylock.toml"
            options = ["--no-deps", "--no-config", "--python-version", version]
            try:
                compile_pins([*options, "--output-file", str(file)], pins, variables)
            except subprocess.CalledProcessError:
                if version == PYTHON:
                    raise
                continue
            locked = tomlkit.parse(file.read_text(encoding="utf-8")).unwrap()
        for package in locked["packages"]:
            files = [*package.get("wheels", ()), package.get("sdist", {})]
            hashes = {f"sha256:{each['hashes']['sha256']}" for each in files if each}
            found.setdefault(package["name"], set()).update(hashes)
    return found


def compile_pins(
    options: Sequence[str], requirements: Sequence[str], variables: Mapping[str, str]
) -> str:
    command = [uv.find_uv_bin(), "pip", "compile", "--no-header", "--quiet", *options, "-"]
    answer = subprocess.run(
        command,
        input="\n".join(requirements),
        text=True,
        stdout=subprocess.PIPE,
        env=dict(variables),
        check=True,
    )
    return answer.stdout


def refresh(
    names: list[str], inherited: Mapping[str, str], *, only_hashes: bool = False
) -> Iterator[pathlib.Path]:
    """Write the locks of these environments, or of all, and yield each file."""
    catalogue = catalogue_files.catalogue_directory()
    known = env_registry.own_environments(catalogue_files.load().workflows)
    variables = uv_runner.uv_environment(inherited, uv_runner.read_pip_settings(inherited))
    for name in names or sorted(known):
        file, environment = env_registry.lock_file(catalogue, name), known[name]
        if only_hashes and not file.exists():
            continue
        header, *pins = (
            env_registry.read_pins(file).splitlines()
            if only_hashes
            else [HEADER.format(name=name), *resolve(environment, variables)]
        )
        hashes = read_hashes(pins, SpecifierSet(environment.python), variables)
        lines = [header.rstrip(), *(with_hashes(pin, hashes) for pin in pins)]
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        yield file


def with_hashes(pin: str, hashes: Mapping[str, set[str]]) -> str:
    name = pin.partition("==")[0]
    if name.startswith(BUILT_BY_PYTORCH):
        return pin
    return " \\\n    ".join([pin, *(f"--hash={each}" for each in sorted(hashes[name]))])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hashes", action="store_true", help="keep the versions, add the hashes")
    parser.add_argument("names", nargs="*", metavar="NAME")
    arguments = parser.parse_args()
    for written in refresh(arguments.names, os.environ, only_hashes=arguments.hashes):
        sys.stdout.write(f"{written}\n")
