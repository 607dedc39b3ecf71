"""Measure compilation workflows of a PyTorch model, score them and recommend one.

The functions for Python programs and notebooks are loaded when they are first used, so that
`import advisor` is cheap::

    import advisor

    run = advisor.recommend(module, inputs=(example,), priorities={"performance": 60, ...})
    run.recommendation.arm

`advisor.api` describes them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from advisor.domain.version import __version__ as __version__

if TYPE_CHECKING:
    from advisor.api import load, recommend
    from advisor.domain.errors import UserError
    from advisor.report.notebook import Report

__all__ = ["Report", "UserError", "__version__", "load", "recommend"]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from advisor import api  # noqa: PLC0415 - loads the pipeline, which few importers need

    return getattr(api, name)
