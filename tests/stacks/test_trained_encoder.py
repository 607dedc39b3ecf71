"""Classes of accuracy from trained weights, by a metric of the user."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys

import pytest
import trained_encoder

from advisor.errors import MachineUnfitError

MODEL = trained_encoder.find_model()

# The package consists of a model's weights, which the test environment does not install.
pytestmark = [
    pytest.mark.stack,
    pytest.mark.timeout(900),
    pytest.mark.skipif(
        MODEL is None,
        reason=f"no package with trained weights is installed: {trained_encoder.INSTALL}",
    ),
]

COMMAND = pathlib.Path(sys.executable).with_name("p3-advisor")
QUANTISED = ("onnxruntime-cpu/int8", "onnxruntime-cpu/int4")


def test_quantised_arms_of_a_trained_encoder_have_a_class(
    tmp_path: pathlib.Path, home: pathlib.Path
) -> None:
    metric = trained_encoder.write_metric(tmp_path)
    answer = subprocess.run(
        [
            *(COMMAND, "--json", "--gpu", "cpu", "--model", str(MODEL), "--task", "forward"),
            *("--input-tokens", "32", "--batch-sizes", "16", "--budget", "3", "--all-arms"),
            *("--workflows", ",".join(QUANTISED), "--quantised", "int8,int4"),
            *("--metric", metric),
        ],
        capture_output=True,
        text=True,
        env={**os.environ, "P3_ADVISOR_HOME": str(home)},
        check=False,
    )
    assert answer.returncode in {0, MachineUnfitError.exit_code}, answer.stderr
    document = json.loads(answer.stdout)
    losses = {entry["arm"]: entry["trained_loss"] for entry in document["results"]["measurements"]}
    assert losses["pytorch-eager"]["loss_class"] == "A"
    assert losses["pytorch-eager"]["metric"]["recovery"] == 1.0
    for arm in QUANTISED:
        assert losses[arm]["basis"] == "metric"
        assert 0.9 < losses[arm]["metric"]["recovery"] < 1.02
        assert losses[arm]["metric"]["recovery"] != 1.0
    assert {*QUANTISED} <= {arm["arm"] for arm in document["scores"]}
