"""Run the code that `p3-advisor recipe` prints, check what it returns, and time its calls.

The lines below the comment `# Each call:` are one call; those above it run once.
"""

from __future__ import annotations

import dataclasses
import gc
import math
import os
import pathlib
import runpy
import sys
import textwrap
import time
import types
from typing import Any

from probes import events, timing
from probes.arrays import as_collected, np
from probes.checking.deviation import error_and_scale
from probes.checking.rules import Rules, allowed_error, rules_for
from probes.commands import Build, Visit
from probes.facts import EACH_CALL
from probes.host import Host
from probes.protocol import Request
from probes.runtime.channel import Channel
from probes.runtime.process import keep_freed_blocks, read_environment


def run_role(request: Request, channel: Channel) -> None:
    options, shape = request.snippet, request.shapes[0]
    environment = read_environment() if options.get("describes") else None
    channel.send(events.Imported({}, {}, environment))
    if not isinstance(channel.read_command(), Build):
        return
    channel.start_phase("build")
    os.chdir(options["files"])
    sys.path.insert(0, options["files"])
    keep_freed_blocks()
    if options.get("writes"):
        runpy.run_path(options["script"], run_name="__main__")
        channel.send(events.Ready())
        return
    snippet = MarkedSnippet(pathlib.Path(options["script"]))
    snippet.call()
    timing.synchronise()
    replied, breaks = time.monotonic() - options["begun"], {}
    if "torch._dynamo" in sys.modules:
        from probes.stacks import dynamo  # noqa: PLC0415 - imports torch

        breaks = dynamo.graph_breaks()
    channel.send(events.FirstReply(replied, breaks))
    snippet.save_call(pathlib.Path(options["call"]))
    exec(options.get("saves", ""), snippet.names)  # noqa: S102 - lines that this machine has composed
    channel.start_phase("correctness")
    for name, call in options.get("calls", {}).items():
        arrays = snippet.take_inputs(pathlib.Path(call))
        snippet.call()
        if options.get("allowed") is not None:
            channel.send(events.Compared(name, *compare(snippet, arrays, request)))
    channel.start_phase("warmup")
    timer = timing.Timer(lambda _: snippet.call(), [None], timing.synchronise)
    warm = timing.warm_up(timer, request.warmup_seconds, shape)
    size = timing.size_visit(warm.typical_seconds, request.visit_seconds)
    # Without this, garbage collection would walk all objects of the stack before each visit.
    gc.collect()
    gc.freeze()
    channel.send(events.Ready())
    host = Host(request.most_host_slowdown) if timing.torch_on_gpu() else None
    while isinstance(command := channel.read_command(), Visit):
        channel.send(
            timing.time_visit(timer, size, shape=shape, round_number=command.round, host=host)
        )


class MarkedSnippet:
    """A snippet whose first part has run as the main module."""

    def __init__(self, file: pathlib.Path) -> None:
        source = file.read_text(encoding="utf-8")
        mark = EACH_CALL.search(source)
        if mark is None:
            raise ValueError("the snippet does not mark the lines of each call")
        # The numbers of lines stay those of the file. An engine's lines are in a block.
        lines_above = "\n" * source[: mark.end()].count("\n")
        call = lines_above + textwrap.dedent(source[mark.end() :])
        main = types.ModuleType("__main__")
        main.__file__ = str(file)
        # Processes that an engine starts import this file again.
        sys.modules["__main__"] = main
        self.names = vars(main)
        self._call = compile(call, file, "exec")
        exec(compile(source[: mark.start()], file, "exec"), self.names)  # noqa: S102 - code that this machine has composed and the user asked to run

    def call(self) -> None:
        exec(self._call, self.names)  # noqa: S102 - as above

    @property
    def makes_text(self) -> bool:
        return "prompts" in self.names

    @property
    def result(self) -> Any:
        return self.names["tokens" if self.makes_text else "output"]

    def arrays(self) -> list[Any]:
        """Return the result as numpy arrays; of text one, `(rows, tokens)`, padded with -1."""
        if not self.makes_text:
            return collect(self.result)
        rows = [
            collect(row)[0] if hasattr(row, "shape") else np.asarray(row) for row in self.result
        ]
        tokens = np.full((len(rows), max(map(len, rows))), -1)
        for row, values in enumerate(rows):
            tokens[row, : len(values)] = values
        return [tokens]

    def save_call(self, file: pathlib.Path) -> None:
        """Write inputs and result for `take_inputs` of another snippet."""
        import torch  # noqa: PLC0415 - the snippet has imported it

        inputs = [self.names["prompts"]] if self.makes_text else self.names["inputs"]
        arrays = [torch.tensor(value) for value in self.arrays()]
        torch.save(([value.cpu() for value in inputs], arrays), file)

    def take_inputs(self, file: pathlib.Path) -> list[Any]:
        """Replace the inputs by those of a saved call; return its result as numpy arrays."""
        import torch  # noqa: PLC0415 - the snippet has imported it

        inputs, result = torch.load(file, weights_only=True)
        if self.makes_text:
            self.names["prompts"] = inputs[0].to(self.names["prompts"].device)
        else:
            pairs = zip(inputs, self.names["inputs"], strict=True)
            self.names["inputs"] = tuple(value.to(own) for value, own in pairs)
        return [tensor.numpy() for tensor in result]


def collect(value: Any) -> list[Any]:
    """Return the arrays in what a stack returns, on the host; numbers and texts are dropped."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        from probes.subjects import outputs  # noqa: PLC0415 - imports torch

        return outputs.collect(value)
    if dataclasses.is_dataclass(value):
        value = vars(value)
    if hasattr(value, "items"):
        value = list(value.values())
    if hasattr(value, "shape"):
        return [as_collected(np.asarray(value.numpy() if hasattr(value, "numpy") else value))]
    if isinstance(value, str) or not hasattr(value, "__iter__"):
        return []
    return [array for part in value for array in collect(part)]


def compare(
    snippet: MarkedSnippet, other: list[Any], request: Request
) -> tuple[str | None, float | None]:
    """Return what is wrong with the other's arrays, and the largest relative error of an output."""
    allowed = request.snippet["allowed"]
    if snippet.makes_text:
        return compare_texts(snippet, other[0], allowed), None
    expected = snippet.arrays()
    shapes, wanted = ([array.shape for array in arrays] for arrays in (other, expected))
    if shapes != wanted:
        return f"it returns shapes {shapes} instead of {wanted}", None
    rules = rules_for(request.accuracy, precision_of(snippet.result, request.dtype))
    outputs = zip(other, expected, allowed, strict=True)
    errors = [compare_array(*each, rules) for each in outputs if each[2] is not None]
    if not all(math.isfinite(share) for _, share in errors):
        return "its outputs are not finite where those of the other are", None
    error, worst = map(max, zip(*errors, strict=True)) if errors else (None, 0.0)
    if worst > 1:
        return f"its outputs differ by {worst:.3g} times the allowed error", error
    return None, error


def precision_of(result: Any, dtype: str) -> str:
    """Return the precision whose thresholds apply: of a model's own, that of its first output."""
    if dtype != "own":
        return dtype
    if isinstance(result, (tuple, list)):
        result = result[0]
    precision = str(getattr(result, "dtype", "float32")).removeprefix("torch.")
    return precision if precision in {"float64", "float32", "float16", "bfloat16"} else "float32"


def compare_array(values: Any, target: Any, eager: float, rules: Rules) -> tuple[float, float]:
    """Return the error of one output relative to its size, and as a share of the allowed one.

    The error of integers is how many differ. `eager` is what a comparison with eager PyTorch,
    instead of a reference, has to allow.
    """
    error, scale = error_and_scale(values, target)
    if target.dtype.kind == "f":
        allowed = allowed_error(scale, eager, rules) + eager
    else:
        allowed = max(eager, rules.integer_share)
    share = error / allowed if allowed else float(error > 0)
    return error / scale if scale else 0.0, share


def compare_texts(snippet: MarkedSnippet, tokens: Any, allowed: float) -> str | None:
    """Let eager PyTorch read `tokens`, `(rows, tokens) int64`, which may follow the prompts."""
    import torch  # noqa: PLC0415 - the snippet has imported it

    prompts, model = snippet.names["prompts"], snippet.names["model"]
    rows, given = prompts.shape
    new = snippet.arrays()[0].shape[1] - given
    if tokens.shape not in {(rows, new), (rows, given + new)}:
        return f"it returns tokens of shape {tokens.shape} instead of {(rows, new)}"
    gap = 0.0
    for prompt, text in zip(
        prompts, torch.tensor(tokens[:, -new:]).to(prompts.device), strict=True
    ):
        with torch.no_grad():
            logits = model(torch.cat([prompt, text.clamp(0)])[None]).logits[0, given - 1 : -1]
        logprobs = logits.float().log_softmax(-1)
        if text.min() < 0 or text.max() >= logprobs.shape[-1]:
            return "it returns tokens that are not in the vocabulary"
        gaps = logprobs.amax(-1) - logprobs.gather(-1, text[:, None])[:, 0]
        gap = max(gap, float(gaps.max()))
    if not gap <= allowed:
        return f"eager PyTorch prefers other tokens by {gap:.3g} nats; {allowed:.3g} are allowed"
    return None
