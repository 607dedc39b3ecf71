"""The rules of accuracy that a stored run has, as its workers get them."""

from __future__ import annotations

from typing import Any

import msgspec

from advisor.catalogue import rubric_files
from advisor.domain.accuracy import AccuracyRules
from advisor.domain.worker_settings import accuracy_thresholds
from probes.checking.rules import rules_for


def test_the_rules_of_an_early_version_do_not_limit_the_typical_error() -> None:
    shipped = rubric_files.read_shipped_accuracy()
    assert rules_for(accuracy_thresholds(shipped), "float16").typical_eager_times == 3.0
    table: dict[str, Any] = msgspec.to_builtins(shipped)
    del table["exact"]["typical_eager_times"]
    early = msgspec.convert(table, AccuracyRules)
    assert rules_for(accuracy_thresholds(early), "float16").typical_eager_times is None
