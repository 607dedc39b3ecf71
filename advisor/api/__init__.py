"""The Python interface: `advisor.recommend`, `prepare` and `load`.

    import advisor

    run = advisor.recommend(
        module,                                  # or a name, as in --model
        inputs=(torch.randn(1, 3, 224, 224),),
        priorities={"performance": 60, "productivity": 25, "portability": 15},
        batch_sizes=(1, 16),
    )
    if run.recommendation:  # None without advice; run.problem has the reason
        run.recommendation.arm
    run.to_dataframe()

Nothing is printed; a notebook shows a line of progress. Errors that the user can correct are
`advisor.errors.UserError`.
"""

from advisor.api.functions import load, prepare, recommend
from advisor.api.report import Report, Session

__all__ = [
    "Report",
    "Session",
    "load",
    "prepare",
    "recommend",
]
