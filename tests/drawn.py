"""Weights that property tests draw."""

from __future__ import annotations

from collections.abc import Sequence

import builders
from hypothesis import strategies as st

from advisor.domain.constraints import Priorities


def weights(further: Sequence[int] = (0,)) -> st.SearchStrategy[Priorities]:
    """Draw weights of the three Ps, which sum to 100, and of each further criterion."""
    return st.builds(
        lambda cuts, inputs, models: builders.priorities(
            min(cuts),
            max(cuts) - min(cuts),
            100 - max(cuts),
            input_flexibility=inputs,
            architecture_support=models,
        ),
        st.tuples(st.integers(0, 100), st.integers(0, 100)),
        st.sampled_from(further),
        st.sampled_from(further),
    )
