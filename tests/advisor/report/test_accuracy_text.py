"""The accuracy of an arm as a figure and as a line."""

from __future__ import annotations

import builders
import pytest

from advisor.report.formatting import accuracy_cell, accuracy_line
from probes.wire.checks import Accuracy


@pytest.mark.parametrize(
    ("accuracy_class", "accuracy", "cell"),
    [
        ("exact", Accuracy(relative_error=1e-7), "1.0e-07"),
        ("close", Accuracy(relative_error=2.13e-3), "2.1e-03~"),
        ("close", Accuracy(relative_error=9.0, kl_mean=4e-3), "4.0e-03~"),
        ("exact", Accuracy(kl_mean=-7.6e-8), "0"),
        ("unchecked", Accuracy(fault="constant-output"), "?"),
        ("exact", Accuracy(relative_error=0.0), "0"),
        ("exact", Accuracy(), "-"),
    ],
)
def test_a_table_has_the_error_and_the_mark_of_its_class(
    accuracy_class: str, accuracy: Accuracy, cell: str
) -> None:
    assert (
        accuracy_cell([builders.checked(accuracy_class=accuracy_class, accuracy=accuracy)]) == cell
    )


def test_the_worst_batch_size_counts() -> None:
    checks = [
        builders.checked(1, accuracy_class="close", accuracy=Accuracy(relative_error=1e-3)),
        builders.checked(4, accuracy=Accuracy(relative_error=3e-3)),
    ]
    assert accuracy_cell(checks) == "3.0e-03~"
    assert accuracy_cell([]) == "-"


def test_the_line_has_every_known_figure() -> None:
    found = Accuracy(
        fault="error",
        relative_error=2e-3,
        ratio_to_eager=7.0,
        cosine=0.99999,
        worst_element=0.1,
        top1=0.995,
        envelope=1e-3,
        repeats=30,
    )
    line = accuracy_line(
        builders.checked(accuracy_class="close", accuracy=found, reference="float64")
    )
    for figure in ("close (error)", "2.0e-03", "7x", "0.99999", "1.0e-01", "99.5 %", "30 times"):
        assert figure in line
    assert line.endswith("against float64")
