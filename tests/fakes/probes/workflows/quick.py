"""A correct workflow; its option `milliseconds` sets the seconds of a call."""

import pathlib

from probes.workflows.pytorch_eager import *


def build_for(target, subject, inputs, request):
    if target == "sm_75":
        raise RuntimeError("an operator is missing there")
    (pathlib.Path(request.scratch_directory) / f"{target}.engine").write_text(
        f"{len(inputs[0])} samples for {target}"
    )
