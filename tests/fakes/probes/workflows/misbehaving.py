"""A workflow with the failure that its option `fault` names, in the phase of real stacks."""

import ctypes
import gc
import os
import pathlib
import resource
import shutil
import signal
import subprocess
import sys
import time
import types

from probes.adapter import ModelError, UnsupportedError
from probes.events import Engagement
from probes.workflows import pytorch_eager as eager
from probes.workflows.pytorch_eager import *

FAULT = {"name": ""}


class Device:
    """A device as PyTorch shows it, which is still busy after a call has returned."""

    busy_until = 0.0

    def start_work(self, seconds):
        self.busy_until = time.perf_counter() + seconds

    def is_initialized(self):
        return True

    def synchronize(self):
        time.sleep(max(self.busy_until - time.perf_counter(), 0))

    def empty_cache(self):
        pass

    def max_memory_allocated(self):
        return 0

    max_memory_reserved = max_memory_allocated
    memory_reserved = max_memory_allocated


DEVICE = Device()


def in_visits():
    """Return whether the warm-up is over: the harness then freezes the allocated objects."""
    return gc.get_freeze_count() > 0


class Program(eager.Program):
    def __call__(self, device_inputs):
        output = super().__call__(device_inputs)
        if in_visits():
            # The fake torch has no profiler, which the steps after the visits use.
            sys.modules.pop("torch", None)
        match FAULT["name"]:
            case "wrong":
                return output + 0.1
            case "memoises":
                self.first = getattr(self, "first", output)
                return self.first
            case "stale":
                # Return the output of the previous call, as a captured graph whose input buffer was
                # not filled.
                self.before, output = output, getattr(self, "before", output)
                return output
            case "varies":
                # Every tenth call loses an update, as a race does.
                self.calls = getattr(self, "calls", 0) + 1
                return output + 0.1 if self.calls % 10 == 0 else output
            case "varies-later" if in_visits():
                self.calls = getattr(self, "calls", 0) + 1
                return output + 0.1 if self.calls % 2 == 0 else output
            case "returns-early":
                DEVICE.start_work(0.02)
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
        # Reading the output waits: either for a device that PyTorch does not know and cannot
        # synchronise, or for a slow copy to the host.
        time.sleep(max(getattr(self, "done", 0.0) - time.perf_counter(), 0))
        return super().collect(output)


def settings(request):
    FAULT["name"] = request.options["fault"]
    if FAULT["name"] in {"returns-early", "reads-slowly-at-first"}:
        sys.modules["torch"] = types.SimpleNamespace(cuda=DEVICE)
    if FAULT["name"] == "import-error":
        raise ImportError("libmissing.so.1: cannot open shared object file")
    return eager.settings(request)


def synchronise():
    """Return at once, as a stack that does not wait for its device."""


def open_subject(request):
    if FAULT["name"] == "model-error":
        raise ModelError("the model is of an unknown kind", "choose another model")
    return eager.Subject(request)


def control_directory(request):
    run = pathlib.Path(request.scratch_directory).parents[1]
    return run / "arms" / request.arm.replace("/", "+") / "0"


def act_against_the_program(request):
    """Do what a hostile stack may do to its worker and its surroundings."""
    match FAULT["name"]:
        case "ignores-signals":
            for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
                signal.signal(number, signal.SIG_IGN)
            time.sleep(3600)
        case "stops-itself":
            os.kill(os.getpid(), signal.SIGSTOP)
        case "takes-all-memory":
            # As on a machine with little memory: 128 MiB more than it has now.
            pages = int(pathlib.Path("/proc/self/statm").read_text().split()[0])
            limit = pages * resource.getpagesize() + (1 << 27)
            resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
            FAULT["taken"] = [bytearray(1 << 24) for _ in range(1000)]
        case "removes-its-directory":
            shutil.rmtree(control_directory(request))
        case "closes-its-files":
            os.closerange(3, 256)
        case "changes-directory":
            os.chdir("/")
        case "starts-many":
            for _ in range(50):
                subprocess.Popen(
                    ["sleep", "3603"],
                    start_new_session=True,
                    env={},
                    cwd=control_directory(request),
                )


def build(subject, inputs, request):
    act_against_the_program(request)
    match FAULT["name"]:
        case "refuses":
            raise UnsupportedError("this stack takes no such model")
        case "raises":
            raise RuntimeError("Could not find an implementation for Gemm(13)\nand a second line")
        case "segfault":
            ctypes.string_at(0)
        case "hangs" if len(inputs[0]) >= request.options.get("from", 0):
            subprocess.Popen(["sleep", "3602"])
            time.sleep(3600)
        case "slow":
            with subprocess.Popen(["sleep", "1"], start_new_session=True) as compiler:
                compiler.wait()
        case "escapes":
            subprocess.Popen(["sleep", "3601"], start_new_session=True)
            time.sleep(3600)
        case "restless":
            # A child process that polls for work, as some engines have, with a process title, which
            # overwrites the environment variables.
            subprocess.Popen([sys.executable, "-c", "while True: pass"], env={})
        case "holds-the-lock":
            # A C call that holds the GIL, as a compiler may: no Python thread of this process runs.
            ctypes.PyDLL(None).sleep(3600)
        case "out-of-memory":
            raise MemoryError
        case "floods":
            for _ in range(64):
                sys.stdout.write("noise [/ {'a':[true]}\n" * 4096)
            print("{}", file=sys.stderr)
        case "garbage":
            with (control_directory(request) / "events.jsonl").open("a") as events:
                events.write("this is no event\n")
    return Program(subject, request.options.get("milliseconds", 3) / 1000)


def engagement(program, device_inputs):
    if FAULT["name"] == "falls-back":
        return Engagement(
            0.0, "TRT conversion failed on the subgraph. Returning GraphModule forward instead.", {}
        )
    return Engagement(1.0, "reported by the fake", {})
