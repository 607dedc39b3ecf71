"""What a worker is asked."""

from __future__ import annotations

import pathlib

import builders
import msgspec

from advisor.probing.run_config import RunConfig


def test_a_worker_gets_the_interpreter_that_writes_its_checkpoint(
    run_config: RunConfig, tmp_path: pathlib.Path
) -> None:
    native = builders.arm("engine")
    written = msgspec.structs.replace(native, quantiser="/env/bin/python")
    asked = [run_config.worker_request(arm, tmp_path, tmp_path) for arm in (native, written)]
    assert [request.quantiser for request in asked] == ["", "/env/bin/python"]
