"""A workflow that hangs in the phase that its options name.

It first starts child processes in its process group and outside it.
"""

import ctypes
import gc
import pathlib
import subprocess
import sys
import time
import types

from probes.workflows import pytorch_eager as eager
from probes.workflows.pytorch_eager import *

OPTIONS = {}


def hang_in(phase):
    if OPTIONS.get("phase") != phase:
        return
    if phase == "create":
        time.sleep(3600)
    subprocess.Popen(["sleep", "3600"])
    subprocess.Popen(["sleep", "3600"], start_new_session=True)
    pathlib.Path(OPTIONS["reached"]).touch()
    if OPTIONS["how"] == "holds the lock":
        # A C call that holds the GIL, as a compiler may: no Python thread of this process runs.
        ctypes.PyDLL(None).sleep(3600)
    time.sleep(3600)


class Program(eager.Program):
    def __call__(self, device_inputs):
        if not gc.isenabled():  # the harness disables it while calls are timed
            hang_in("measure")
        return super().__call__(device_inputs)


def settings(request):
    OPTIONS.update(request.options)
    hang_in("import")
    # What opens models with PyTorch.
    sys.modules["probes.subjects.by_request"] = types.SimpleNamespace(
        create_ahead=lambda _: hang_in("create")
    )
    return eager.settings(request)


def build(subject, inputs, request):
    return Program(subject, 0.001)
