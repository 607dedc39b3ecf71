"""What a worker reports for the recipes of its arm."""

from __future__ import annotations

import msgspec

from advisor.domain.bounds import Count


class InputFacts(msgspec.Struct, frozen=True, kw_only=True):
    """One tensor that the model takes."""

    #: Name of the keyword; empty for a positional input.
    name: str
    #: Its shape without the batch.
    shape: tuple[Count, ...]
    dtype: str
    #: Whether its first dimension is the batch.
    batched: bool = True
    #: Range of random integers, such as token ids, without `high`; null for other values.
    low: int | None = None
    high: int | None = None
    #: Whether the inputs are in containers, are both positional and keyword ones, or have values
    #: that are not tensors. The tensors are then in the order in which they occur.
    nested: bool = False


class RecipeFacts(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="recipe-facts"):
    """What the recipe of an arm needs to know from its worker."""

    #: By batch size, how far outputs may be from eager PyTorch's: its error for each output, or a
    #: gap in nats for generated text.
    allowances: dict[int, tuple[float, ...] | float | None]
    #: For an engine, the command that serves the model.
    serving_command: str | None
    #: The lines that a user writes; empty for one forward pass in runs of early versions.
    integration: str
    #: The inputs of a PyTorch module, empty for nested ones in runs of early versions; null for
    #: another model and in runs of earlier versions.
    inputs: tuple[InputFacts, ...] | None = None
    #: Whether the outputs for a row depend on the other rows of the batch, or have no rows; null if
    #: that was not found out.
    coupled_rows: bool | None = None
