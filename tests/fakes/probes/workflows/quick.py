"""An honest workflow whose speed its options name."""

import importlib.util
import pathlib

spec = importlib.util.spec_from_file_location(
    "honest", pathlib.Path(__file__).with_name("pytorch_eager.py")
)
honest = importlib.util.module_from_spec(spec)
spec.loader.exec_module(honest)

versions = honest.versions
settings = honest.settings
open_subject = honest.open_subject
build = honest.build
synchronise = honest.synchronise
engagement = honest.engagement


def build_for(target, subject, inputs, request):
    if target == "sm_75":
        raise RuntimeError("the half of it is missing there")
    (pathlib.Path(request.scratch_directory) / f"{target}.engine").write_text(
        f"{len(inputs[0])} samples for {target}"
    )
