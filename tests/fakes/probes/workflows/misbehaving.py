"""A workflow that does what its option `misdeed` says, in the phase where real stacks have been seen to do it."""

import ctypes
import gc
import importlib.util
import os
import pathlib
import signal
import subprocess
import sys
import time
import types

import numpy as np

from probes.adapter import ModelError, UnsupportedError
from probes.protocol import Engagement

spec = importlib.util.spec_from_file_location(
    "honest", pathlib.Path(__file__).with_name("pytorch_eager.py")
)
honest = importlib.util.module_from_spec(spec)
spec.loader.exec_module(honest)

MISDEED = {"name": ""}


class Device:
    """A device that works on after a call has returned, as PyTorch shows one."""

    busy_until = 0.0

    def work(self, seconds):
        self.busy_until = time.perf_counter() + seconds

    def is_initialized(self):
        return True

    def synchronize(self):
        time.sleep(max(self.busy_until - time.perf_counter(), 0))

    def max_memory_allocated(self):
        return 0

    max_memory_reserved = max_memory_allocated


DEVICE = Device()


def in_visits():
    """The harness freezes what the stack has allocated when everything is built, checked and warm."""
    return gc.get_freeze_count() > 0


class Program(honest.Program):
    def __call__(self, fed):
        output = super().__call__(fed)
        if in_visits():
            sys.modules.pop(
                "torch", None
            )  # the stand-in has no profiler, which what follows the visits would ask it for
        match MISDEED["name"]:
            case "wrong":
                return output + 0.1
            case "nan":
                return output * np.nan
            case "memoises":
                self.first = getattr(self, "first", output)
                return self.first
            case "other-shape":
                return output[:, :4]
            case "stale":
                # What a captured graph does whose input buffer was not filled: it answers the call
                # before.
                self.before, output = output, getattr(self, "before", output)
                return output
            case "returns-early":
                DEVICE.work(0.02)
            case "hands-out-promises" | "reads-slowly-at-first":
                self.done = time.perf_counter() + 0.02
            case "stalls-later" if in_visits():
                self.calls = getattr(self, "calls", 0) + 1
                if self.calls == 10:
                    time.sleep(0.4)
            case "wrong-later" if in_visits():
                return output + 0.1
            case "crash-in-visit" if in_visits():
                os.kill(os.getpid(), signal.SIGSEGV)
            case "hang-in-visit" if in_visits():
                time.sleep(3600)
        return output

    def collect(self, output):
        # A device that PyTorch does not know works on, and only whoever reads the output has to
        # wait for it; or one that it knows has finished, and what is slow is the way to the host.
        time.sleep(max(getattr(self, "done", 0.0) - time.perf_counter(), 0))
        return super().collect(output)


def versions():
    return honest.versions()


def settings(request):
    MISDEED["name"] = request.options["misdeed"]
    if MISDEED["name"] in {"returns-early", "reads-slowly-at-first"}:
        sys.modules["torch"] = types.SimpleNamespace(cuda=DEVICE)
    if MISDEED["name"] == "import-error":
        raise ImportError("libmissing.so.1: cannot open shared object file")
    return honest.settings(request)


def open_subject(request):
    if MISDEED["name"] == "model-error":
        raise ModelError("the model is of a kind nobody knows", "bring another")
    return honest.Subject(request)


def build(subject, inputs, request):
    match MISDEED["name"]:
        case "refuses":
            raise UnsupportedError("this stack takes no such model")
        case "raises":
            raise RuntimeError("Could not find an implementation for Gemm(13)\nand a second line")
        case "segfault":
            ctypes.string_at(0)
        case "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        case "silent-exit":
            os._exit(0)
        case "hangs":
            subprocess.Popen(["sleep", "3602"])
            time.sleep(3600)
        case "escapes":
            subprocess.Popen(["sleep", "3601"], start_new_session=True)
            time.sleep(3600)
        case "restless":
            # As an engine does whose own process asks for work again and again, although nobody has
            # any.
            subprocess.Popen([sys.executable, "-c", "while True: pass"])
        case "restless-titled":
            # The same once it has given itself a title, which leaves nothing of its variables.
            subprocess.Popen([sys.executable, "-c", "while True: pass"], env={})
        case "holds-the-lock":
            # A C call that keeps the interpreter's lock, as a compiler would: no Python thread of
            # this process can run.
            ctypes.PyDLL(None).sleep(3600)
        case "out-of-memory":
            raise MemoryError
        case "device-out-of-memory":
            raise RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB")
        case "floods":
            for _ in range(64):
                sys.stdout.write("noise [/ {'a':[true]}\n" * 4096)
            print("{}", file=sys.stderr)
        case "garbage":
            control = (
                pathlib.Path(request.scratch_directory).parents[1]
                / "arms"
                / request.arm.replace("/", "+")
                / "0"
            )
            with (control / "events.jsonl").open("a") as events:
                events.write("this is no event\n")
    return Program(subject, request.options.get("milliseconds", 3) / 1000)


def synchronise():
    pass


def engagement(program, fed):
    if MISDEED["name"] == "falls-back":
        return Engagement(
            0.0, "TRT conversion failed on the subgraph. Returning GraphModule forward instead.", {}
        )
    return Engagement(1.0, "it says so", {})
