from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from lazy import outputs, torch

pytestmark = pytest.mark.stack


@pytest.mark.parametrize(
    "change",
    [
        lambda values: values,
        lambda values: values.bfloat16(),
        lambda values: values.long().T,
        lambda values: torch.complex(values, values).conj(),
    ],
)
def test_a_copy_in_parts_has_all_values(change: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outputs, "STAGING_BYTES", 24)
    tensor = change(torch.arange(35.0).reshape(5, 7))
    (copied,), (whole,) = map(outputs.collect, (outputs.copy_in_parts(tensor), tensor))
    assert copied.dtype == whole.dtype
    assert np.array_equal(copied, whole)
