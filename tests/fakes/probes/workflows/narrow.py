"""A workflow that is correct at the batch sizes it was built for.

Its option `unseen` names its behaviour at other batch sizes.
"""

import os
import signal
import time

from probes.events import Engagement
from probes.workflows import pytorch_eager as eager
from probes.workflows.pytorch_eager import *

UNSEEN = {"name": ""}
#: Longer than the limit from which a call counts as stalled.
STALL_SECONDS = 0.4
#: Slowdown at a batch size that was not built.
SLOWER = 6


class Program(eager.Program):
    def __init__(self, subject, seconds, size):
        super().__init__(subject, seconds)
        self.size, self.seen = size, {size}

    def __call__(self, device_inputs):
        output = super().__call__(device_inputs)
        size = device_inputs.shape[0]
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
    return eager.settings(request)


def build(subject, inputs, request):
    return Program(subject, request.options.get("milliseconds", 2) / 1000, inputs[0].shape[0])


def engagement(program, device_inputs):
    if UNSEEN["name"] == "eager" and device_inputs.shape[0] != program.size:
        return Engagement(0.0, "recompile limit reached, running eager code", {})
    return Engagement(1.0, "reported by the fake", {})
