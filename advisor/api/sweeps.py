"""Several lengths of one question, for Python programs and notebooks."""

from __future__ import annotations

import pathlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from advisor.api.notebook import render_summary
from advisor.api.saving import save_by_suffix
from advisor.domain.answer import Problem, encode
from advisor.domain.recommendation import Recommendation
from advisor.report.sweeps import sweep_page, sweep_text
from advisor.report.sweeps.sweep_document import SweepDocument

if TYPE_CHECKING:
    import pandas as pd


class SweepReport:
    """A sweep with the recommendation for its mix; `document` has every figure."""

    def __init__(self, document: SweepDocument) -> None:
        self.document = document

    @property
    def sweep_id(self) -> str:
        return self.document.sweep_id

    @property
    def run_ids(self) -> dict[tuple[int, int], str]:
        """The run of each pair of input and output tokens, for `advisor.load`."""
        return {
            (each.lengths.input_tokens, each.lengths.output_tokens): each.run_id
            for each in self.document.lengths
            if each.run_id is not None
        }

    @property
    def recommendation(self) -> Recommendation | None:
        """The advice for the mix; None if there is none, for the reason in `problem`."""
        return self.document.recommendation

    @property
    def problem(self) -> Problem | None:
        return self.document.problem

    @property
    def headline(self) -> tuple[str, ...]:
        """The answer for the mix in a few lines of text."""
        return tuple(sweep_text.answer(self.document))

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON document as built-in values."""
        built: dict[str, Any] = msgspec.to_builtins(self.document)
        return built

    def to_json(self) -> str:
        return encode(self.document)

    def to_html(self) -> str:
        """Return the whole report as one HTML page."""
        return sweep_page.render(self.document)

    def to_markdown(self) -> str:
        return sweep_text.render_markdown(self.document)

    def to_dataframe(self) -> pd.DataFrame:
        """Return a row for each length and batch size; needs pandas (extra `notebook`).

        A row has the best arm by score there with its speed-up, and `mix_speedup`, that of the arm
        that is advised for the mix. Shares and speed-ups are plain ratios.
        """
        import pandas as pd  # noqa: PLC0415 - an extra

        rows = [
            {
                "input_tokens": each.lengths.input_tokens,
                "output_tokens": each.lengths.output_tokens,
                "share": each.share,
                "batch_size": cell.batch_size,
                "arm": cell.arm,
                "speedup": cell.speedup.value,
                "mix_speedup": cell.mix_speedup.value if cell.mix_speedup else None,
            }
            for each in self.document.lengths
            for cell in each.cells
        ]
        return pd.DataFrame(rows)

    def save(self, file: str | pathlib.Path) -> pathlib.Path:
        """Write the report as .json, .html or .md, by the file's suffix; return its path."""
        return save_by_suffix(
            file,
            {".json": self.to_json, ".html": self.to_html, ".md": self.to_markdown},
        )

    def __repr__(self) -> str:
        return "\n".join(self.headline)

    def _repr_html_(self) -> str:
        """Return the headline and a table of the arms, for notebooks."""
        return render_summary(self.document.ranked, self.headline)


def format_mix(mix: Mapping[int | tuple[int, int], float]) -> str:
    """Return shares by input tokens, or by pairs of input and output tokens, as `--length-mix`."""
    names = {key: f"{key[0]}/{key[1]}" if isinstance(key, tuple) else f"{key}" for key in mix}
    return ",".join(f"{names[key]}:{share:g}" for key, share in mix.items())


def format_tokens(tokens: Sequence[int] | int) -> str:
    """Return numbers of tokens as `--input-tokens` takes them."""
    return f"{tokens}" if isinstance(tokens, int) else ",".join(map(str, tokens))
