"""A workflow that is right for the batch sizes it was built for, and does with others what its option `unseen` says."""

import importlib.util
import os
import pathlib
import signal
import time

from probes.protocol import Engagement

spec = importlib.util.spec_from_file_location(
    "honest", pathlib.Path(__file__).with_name("pytorch_eager.py")
)
honest = importlib.util.module_from_spec(spec)
spec.loader.exec_module(honest)

UNSEEN = {"name": ""}
#: Longer than what counts as a stall.
STALL_SECONDS = 0.4
#: Times as long as a built batch size takes.
SLOWER = 6


class Program(honest.Program):
    def __init__(self, subject, seconds, size):
        super().__init__(subject, seconds)
        self.size, self.seen = size, {size}

    def __call__(self, fed):
        output = super().__call__(fed)
        size = fed.shape[0]
        if size == self.size:
            return output
        match UNSEEN["name"]:
            case "refused":
                raise RuntimeError(f"Profile 0 has no batch size {size}")
            case "late" if size not in self.seen:
                time.sleep(STALL_SECONDS)
            case "slow":
                time.sleep((SLOWER - 1) * self.seconds)
            case "wrong":
                output = output + 0.1
            case "padded":
                output = output.repeat(2, axis=0)
            case "breaks":
                os.kill(os.getpid(), signal.SIGSEGV)
        self.seen.add(size)
        return output


def settings(request):
    UNSEEN["name"] = request.options["unseen"]
    return honest.settings(request)


def build(subject, inputs, request):
    return Program(subject, request.options.get("milliseconds", 2) / 1000, inputs[0].shape[0])


def engagement(program, fed):
    if UNSEEN["name"] == "eager" and fed.shape[0] != program.size:
        return Engagement(0.0, "recompile limit reached, running eager code", {})
    return Engagement(1.0, "it says so", {})


versions = honest.versions
open_subject = honest.open_subject
synchronise = honest.synchronise
