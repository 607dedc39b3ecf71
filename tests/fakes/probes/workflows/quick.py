"""A correct workflow; its option `milliseconds` sets the seconds of a call."""

import importlib.util
import pathlib

spec = importlib.util.spec_from_file_location(
    "eager", pathlib.Path(__file__).with_name("pytorch_eager.py")
)
eager = importlib.util.module_from_spec(spec)
spec.loader.exec_module(eager)

versions = eager.versions
settings = eager.settings
open_subject = eager.open_subject
build = eager.build
synchronise = eager.synchronise
engagement = eager.engagement


def build_for(target, subject, inputs, request):
    if target == "sm_75":
        raise RuntimeError("an operator is missing there")
    (pathlib.Path(request.scratch_directory) / f"{target}.engine").write_text(
        f"{len(inputs[0])} samples for {target}"
    )


def integration(request):
    return "# Each call:\noutput = model(*inputs)\n"
