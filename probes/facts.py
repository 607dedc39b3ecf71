"""What events carry about environments, inputs and starts."""

from __future__ import annotations

import dataclasses
import re

from probes.shape import Count, Size

#: The comment above the lines of each call in the lines of a workflow; those above it run once.
EACH_CALL = re.compile(r"^ *# Each call\b.*\n", re.MULTILINE)
#: The name in `Opened.adjusted` of the mode in which a factory returned a module.
TRAINING_MODE = "training mode"
#: The name in `Imported.settings` of what the C library does with freed memory.
FREED_MEMORY = "freed_memory"


@dataclasses.dataclass(frozen=True)
class InterpreterFacts:
    """The interpreter of a worker, and what is installed for it."""

    #: Its minor version, such as `3.11`.
    python: str
    interpreter: str
    #: Versions by distribution.
    distributions: dict[str, str]
    #: The distributions that provide each top-level package.
    providers: dict[str, tuple[str, ...]]


@dataclasses.dataclass(frozen=True)
class InputSpec:
    """One tensor that the model takes."""

    #: Name of the keyword; empty for a positional input.
    name: str
    #: Its shape without the batch.
    shape: tuple[Count, ...]
    dtype: str
    #: Whether its first dimension is the batch.
    batched: bool = True
    #: Range `[low, high)` of random integers, such as token ids; None for other values.
    low: int | None = None
    high: int | None = None
    #: Whether the inputs are in containers, are both positional and keyword ones, or have values
    #: that are not tensors. The tensors are then in the order in which they occur.
    nested: bool = False
    #: Whether its dimensions have another order in memory, such as channels last.
    reordered: bool = False
    #: The batch size of the user's example; None without an example or a batch.
    rows: Count | None = None


@dataclasses.dataclass(frozen=True)
class SizeLimit:
    """A free dimension of an input, whose sizes the code of the model limits."""

    #: Numbers of the input and of its dimension.
    input: Count
    axis: Count
    low: Size
    #: None without a largest size.
    high: Size | None = None


@dataclasses.dataclass(frozen=True)
class StartLines:
    """The lines of a way to start: they begin from a file that an earlier process has written."""

    #: They replace those of `integration`, and may do without `model`.
    start: str
    #: What an earlier process runs to write the file, with `model` and `inputs`. Empty where
    #: `saves` writes it, after the first call of the lines of `integration`.
    write: str = ""
    saves: str = ""
