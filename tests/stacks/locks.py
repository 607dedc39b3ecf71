"""The locks that ship: `python tests/stacks/locks.py [NAME...]` resolves them anew for this platform.

A lock pins versions and names neither an index nor a build: which build of torch is taken is
decided where an environment is made.
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
from advisor.probing.environments import places, sources

#: Oldest Python that a lock is resolved for, where the environment takes it.
PYTHON = "3.11"
HEADER = "# Resolved for {name}; made anew by: python tests/stacks/locks.py {name}\n"
#: `torch==2.13.0+cpu`: what follows the sign says which build, which is not the lock's business.
BUILD = re.compile(r"\+\S+")


def resolve(environment: Environment, variables: Mapping[str, str]) -> str:
    """Return the pins of everything that the environment asks for, one a line."""
    backend = sources.torch_backend(environment.torch, variables)
    options = [
        "--no-header",
        "--no-annotate",
        "--no-emit-index-url",
        "--no-emit-find-links",
        "--quiet",
        "--upgrade",
    ]
    with sources.excludes(environment.leaves_out) as excludes:
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
    known = places.own_environments(catalogue.load().workflows)
    variables = sources.uv_environment(inherited, sources.read_pip_settings(inherited))
    for name in names or sorted(known):
        file = places.lock_file(rubric, name)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(
            HEADER.format(name=name) + resolve(known[name], variables), encoding="utf-8"
        )
        yield file


if __name__ == "__main__":
    for written in refresh(sys.argv[1:], os.environ):
        sys.stdout.write(f"{written}\n")
