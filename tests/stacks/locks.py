"""Resolve the shipped locks for this platform: `python tests/stacks/locks.py [NAME...]`.

A lock pins versions and names neither an index nor a build: the build of torch is chosen when an
environment is created.
"""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping

import uv

from advisor import catalogue
from advisor.domain.workflow import Environment
from advisor.probing.environments import registry, sources

#: The Python version that locks are resolved for.
PYTHON = "3.11"
HEADER = "# Resolved for {name}; update with: python tests/stacks/locks.py {name}\n"
#: The build in a version such as `2.13.0+cpu`.
BUILD = re.compile(r"\+\S+")


def resolve(environment: Environment, variables: Mapping[str, str]) -> str:
    """Return the pins of the environment's requirements and their dependencies, one a line."""
    backend = sources.torch_backend(environment.torch, variables)
    options = [
        "--no-header",
        "--no-annotate",
        "--no-emit-index-url",
        "--no-emit-find-links",
        "--quiet",
        "--upgrade",
    ]
    with sources.excludes(environment.excluded_packages) as excludes:
        answer = subprocess.run(
            [
                uv.find_uv_bin(),
                "pip",
                "compile",
                *options,
                "--python-version",
                PYTHON,
                *excludes,
                *backend,
                "-",
            ],
            input="\n".join(environment.requirements),
            text=True,
            stdout=subprocess.PIPE,
            env=dict(variables),
            check=True,
        )
    return BUILD.sub("", answer.stdout)


def refresh(names: list[str], inherited: Mapping[str, str]) -> Iterator[pathlib.Path]:
    """Write the locks of these environments, or of all, and yield each file."""
    rubric = catalogue.rubric_directory()
    known = registry.own_environments(catalogue.load().workflows)
    variables = sources.uv_environment(inherited, sources.read_pip_settings(inherited))
    for name in names or sorted(known):
        file = registry.lock_file(rubric, name)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(
            HEADER.format(name=name) + resolve(known[name], variables), encoding="utf-8"
        )
        yield file


if __name__ == "__main__":
    for written in refresh(sys.argv[1:], os.environ):
        sys.stdout.write(f"{written}\n")
