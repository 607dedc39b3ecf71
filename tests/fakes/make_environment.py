"""Create an environment like `env create`, with a wheel of the test in place of the real one."""

import os
import pathlib
import platform
import sys

from advisor.cli.interruption import interruptions
from advisor.domain.errors import UserError
from advisor.domain.machine import Interpreter
from advisor.domain.workflow import Environment
from advisor.probing import env_creation
from advisor.probing.uv_runner import BuildSettings

root = pathlib.Path(sys.argv[1])
environment = Environment(
    kind="own", name="tiny", requirements=("tiny-stack",), imports=("tiny_stack",)
)
python = Interpreter(
    executable=sys.executable, version=platform.python_version(), packages={}, torch_cuda=None
)
settings = BuildSettings(
    root=root,
    catalogue_directory=root.parent / "catalogue",
    inherited=dict(os.environ),
    interpreter=python,
    report=lambda line: print(line, flush=True),
)
try:
    with interruptions():
        env_creation.create("tiny", environment, settings)
except UserError as problem:
    print(f"{problem.what}; next: {problem.next_step}", flush=True)
    sys.exit(problem.exit_code)
