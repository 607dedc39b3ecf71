"""The environment and the log of the load generator."""

from __future__ import annotations

import pathlib

import pytest

from advisor.probing.load_generator import generator_variables, log_reason


def test_the_reason_of_a_failure_is_the_first_error_that_the_generator_logged(
    tmp_path: pathlib.Path,
) -> None:
    (tmp_path / "log").write_text("│ See the log for more error details. │\n│ Log File: /gone │\n")
    printed = "See the log for more error details. Log File: /gone"
    assert log_reason(tmp_path) == printed
    logs = tmp_path / "out" / "logs"
    logs.mkdir(parents=True)
    lines = [
        "2026-11-23 16:13:53.877 - aiperf.runner - INFO - Starting AIPerf System",
        "2026-11-23 16:13:54.100 - aiperf.worker - ERROR - no tokenizer in this directory",
        "2026-11-23 16:13:54.200 - aiperf.runner - ERROR - the system ended",
    ]
    (logs / "aiperf.log").write_text("\n".join(lines[:1]))
    assert log_reason(tmp_path) == printed
    (logs / "aiperf.log").write_text("\n".join(lines))
    assert log_reason(tmp_path) == "no tokenizer in this directory"


@pytest.mark.parametrize("offline", ["HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"])
def test_the_generator_opens_the_tokenizer_of_a_directory_where_the_user_is_offline(
    offline: str, tmp_path: pathlib.Path
) -> None:
    inherited = {offline: "1", "HOME": "/home/someone"}
    variables = generator_variables(inherited, tmp_path, str(tmp_path))
    assert offline not in variables
    assert variables["HOME"] == "/home/someone"
