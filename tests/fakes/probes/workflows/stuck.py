"""A workflow that comes to a stop in the phase its options name, after it has started processes in its group and out of it."""

import ctypes
import gc
import importlib.util
import pathlib
import subprocess
import time

spec = importlib.util.spec_from_file_location(
    "honest", pathlib.Path(__file__).with_name("pytorch_eager.py")
)
honest = importlib.util.module_from_spec(spec)
spec.loader.exec_module(honest)

OPTIONS = {}


def stop_in(phase):
    if OPTIONS.get("phase") != phase:
        return
    # A process that gives itself a title writes it over the variables that it was started with.
    variables = {} if OPTIONS["how"] == "titled" else None
    subprocess.Popen(["sleep", "3600"], env=variables)
    subprocess.Popen(["sleep", "3600"], env=variables, start_new_session=True)
    pathlib.Path(OPTIONS["reached"]).touch()
    if OPTIONS["how"] == "holds the lock":
        # A C call that keeps the interpreter's lock, as a compiler would: no Python thread of this
        # process can run.
        ctypes.PyDLL(None).sleep(3600)
    time.sleep(3600)


class Program(honest.Program):
    def __call__(self, fed):
        if not gc.isenabled():  # so it is only while calls are timed
            stop_in("measure")
        return super().__call__(fed)


def settings(request):
    OPTIONS.update(request.options)
    stop_in("import")
    return honest.settings(request)


def build(subject, inputs, request):
    stop_in("build")
    return Program(subject, 0.001)


versions = honest.versions
open_subject = honest.open_subject
synchronise = honest.synchronise
engagement = honest.engagement
