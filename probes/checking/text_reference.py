"""The reference of generated text, and the file in which measured workers find it."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Iterable, Sequence
from typing import Any

from probes.adapter import ModelError
from probes.checking.logprobs import (
    FidelityMetrics,
    TokenLogprobs,
    keep_top_tokens,
    measure_fidelity,
    merge,
)
from probes.partial_file import replace_when_complete

#: Log probabilities that are kept for one batch size. Beyond that, only the first rows have them.
MAX_LOGPROBS = 1 << 26


@dataclasses.dataclass(frozen=True)
class ReferenceRun:
    """The reference's run of one input set, and eager PyTorch's log probabilities along it."""

    #: `(rows, output tokens) int64`.
    tokens: Any
    #: Along `tokens`, of the whole vocabulary, for the first rows.
    exact: TokenLogprobs
    #: Along `tokens`, of the most likely tokens, for every row.
    top_tokens: TokenLogprobs
    eager: TokenLogprobs


@dataclasses.dataclass(frozen=True)
class TokenReference:
    """What the reference worker provides for all others, for one batch size.

    The log probabilities stay in the file until they are needed.
    """

    name: str
    file: pathlib.Path
    #: By input set, one array of prompts: `(rows, input tokens) int64`.
    inputs: list[list[Any]]
    #: By input set, the reference's continuation: `(rows, output tokens) int64`.
    tokens: list[Any]
    #: How many rows of each input set have log probabilities of the whole vocabulary.
    rows: int
    vocabulary: int
    eager: FidelityMetrics

    def logprobs(self, number: int) -> Any:
        """Return the log probabilities along the tokens of input set `number`.

        The array is `(rows, output tokens, vocabulary)` in a floating-point dtype.
        """
        import numpy as np  # noqa: PLC0415 - the core is importable without any stack

        with np.load(self.file, allow_pickle=False) as archive:
            return archive[f"logprobs-{number}"]

    def top_tokens(self, number: int) -> TokenLogprobs:
        """Return the most likely tokens along the tokens of input set `number`, for every row."""
        import numpy as np  # noqa: PLC0415

        with np.load(self.file, allow_pickle=False) as archive:
            return TokenLogprobs(archive[f"top-{number}"], archive[f"ids-{number}"])

    def eager_top_tokens(self, number: int, count: int) -> TokenLogprobs:
        """Return eager PyTorch's `count` likeliest tokens along those of input set `number`."""
        import numpy as np  # noqa: PLC0415

        with np.load(self.file, allow_pickle=False) as archive:
            kept = TokenLogprobs(archive[f"eager-top-{number}"], archive[f"eager-ids-{number}"])
        return keep_top_tokens(kept, count)


def rows_with_logprobs(
    batch_size: int, output_tokens: int, vocabulary: int, input_sets: int
) -> int:
    """Return for how many rows of a batch the whole vocabulary's log probabilities are kept."""
    return max(1, min(batch_size, MAX_LOGPROBS // (output_tokens * vocabulary * input_sets)))


def save_reference(
    file: pathlib.Path,
    name: str,
    inputs: Sequence[Sequence[Any]],
    runs: Iterable[ReferenceRun],
) -> None:
    """Write the reference's run of each input set to a numpy archive, atomically.

    Raise `ModelError` for log probabilities that are not finite.
    """
    import numpy as np  # noqa: PLC0415

    arrays: dict[str, Any] = {"name": np.array(name), "sets": np.array(len(inputs))}
    eager_metrics = []
    for number, (arguments, run) in enumerate(zip(inputs, runs, strict=True)):
        exact = run.exact.logprobs
        if not (np.isfinite(exact).all() and np.isfinite(run.eager.logprobs).all()):
            raise ModelError(
                "the model's probabilities are NaN or infinite",
                "choose another precision with --dtype, such as bfloat16",
            )
        arrays |= {f"input-{number}-{index}": array for index, array in enumerate(arguments)}
        arrays |= {"rows": np.array(len(exact)), "vocabulary": np.array(exact.shape[-1])}
        arrays |= {f"tokens-{number}": run.tokens, f"logprobs-{number}": exact}
        arrays |= {
            f"top-{number}": run.top_tokens.logprobs,
            f"ids-{number}": run.top_tokens.ids,
        }
        eager_top = keep_top_tokens(run.eager)
        arrays |= {
            f"eager-top-{number}": eager_top.logprobs,
            f"eager-ids-{number}": eager_top.ids,
        }
        eager_metrics.append(measure_fidelity(run.eager, exact))
    merged = merge(eager_metrics)
    for field in dataclasses.fields(FidelityMetrics):
        arrays[f"eager-{field.name}"] = np.array(getattr(merged, field.name))
    with replace_when_complete(file) as partial:
        np.savez(partial, **arrays)


def load_reference(file: pathlib.Path) -> TokenReference:
    """Read what `save_reference` wrote, except for the log probabilities."""
    import numpy as np  # noqa: PLC0415

    with np.load(file, allow_pickle=False) as archive:
        sets = range(int(archive["sets"]))
        eager = {
            field.name: archive[f"eager-{field.name}"].item()
            for field in dataclasses.fields(FidelityMetrics)
        }
        return TokenReference(
            name=str(archive["name"]),
            file=file,
            inputs=[[archive[f"input-{number}-0"]] for number in sets],
            tokens=[archive[f"tokens-{number}"] for number in sets],
            rows=int(archive["rows"]),
            vocabulary=int(archive["vocabulary"]),
            eager=FidelityMetrics(**eager),
        )
