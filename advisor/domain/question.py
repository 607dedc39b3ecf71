"""The user's question: model, task, device, priorities and limits."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterable, Mapping
from typing import Annotated, Literal

import msgspec

from advisor.domain.constraints import Constraint, Priorities
from advisor.domain.machine import Machine, describe_gpus
from advisor.domain.model import Model
from probes.shape import Shape

DeviceKind = Literal["cpu", "cuda"]
Dtype = Literal["own", "float32", "float16", "bfloat16"]
Task = Literal["forward", "generate", "serve"]
WeightFormat = Literal["int8", "int4", "fp8"]
LARGEST_BATCH = 65536


class Budget(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of a run."""

    #: The name of its table in the presets, or its duration.
    name: str = ""
    #: Seconds of timing the races.
    measuring_seconds: Annotated[float, msgspec.Meta(gt=0)]
    #: Limit in seconds of the whole run by task, builds included; a task without an entry has none.
    seconds: dict[Task, Annotated[float, msgspec.Meta(gt=0)]] = {}
    #: Share of that limit after which no arm is built or raced; the rest is for the repetition.
    race_share: Annotated[float, msgspec.Meta(gt=0, le=1)] = 1.0
    most_rounds: Annotated[int, msgspec.Meta(ge=4)]
    #: Seconds of further repetitions of the leaders while the decision is OPEN; 0 for none.
    undecided_seconds: Annotated[float, msgspec.Meta(ge=0)] = 0.0
    #: These seconds as a share of the time that the run took so far; the longer of both counts.
    undecided_share: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.0
    #: Number of repetitions of the leading arms in fresh processes.
    repeats: Annotated[int, msgspec.Meta(ge=0)] = 0
    #: Rounds of each shape in a repetition.
    repeat_rounds: Annotated[int, msgspec.Meta(ge=2)] = 5
    #: The arms that are repeated: those that the races did not eliminate; the advised arm, its
    #: rivals and the baseline; or every arm.
    repeated: Literal["survivors", "leaders", "all"] = "survivors"
    #: Whether arms that cannot lead are neither built nor profiled once there is an answer.
    skips_losing_arms: bool = False
    #: Seconds in total of calling the two best arms without a pause; 0 for none.
    sustained_seconds: Annotated[float, msgspec.Meta(ge=0)] = 0.0
    #: Whether every arm tries batch sizes and a length that were not built.
    new_shapes: bool = False
    #: Seconds that one batch size or length that was not built may take, where the leaders alone
    #: try one of each; 0 for none.
    new_shape_seconds: Annotated[float, msgspec.Meta(ge=0)] = 0.0
    #: Seconds of all of them, after which no further arm tries any.
    all_new_shapes_seconds: Annotated[float, msgspec.Meta(ge=0)] = 0.0
    #: Further seconds for cold starts, where they are asked for; the last start may take longer.
    cold_start_seconds: Annotated[float, msgspec.Meta(ge=0)] = 180.0

    @property
    def tries_new_shapes(self) -> bool:
        return self.new_shapes or self.new_shape_seconds > 0


def choose_next_budget(
    budgets: Iterable[Budget], spent: Budget, *, made: int, needed: int | None
) -> Budget | None:
    """Return the budget of a run that follows a run with the budget `spent`, None for no better.

    It is the shortest budget whose repetitions reach those that the run has `made` and the further
    ones `needed`, else the one with most repetitions. `spent` may have made fewer repetitions than
    it allows, as with servers, and is not returned again.
    """
    least = max(made, spent.repeats)
    more = [each for each in budgets if each.repeated != "all" and each.repeats > least]
    enough = [each for each in more if each.repeats >= least + (needed or 0)]
    if enough:
        return min(enough, key=lambda budget: budget.measuring_seconds)
    return max(more, key=lambda budget: budget.repeats, default=None)


def write_command(options: Mapping[str, str | bool | float | None]) -> str:
    """Return the command of `recommend` with these options by their names; None is left out."""
    words = ["p3-advisor", "recommend", str(options["model"])]
    for name, value in options.items():
        if name != "model" and value is not None:
            flag = f"--{name.replace('_', '-')}"
            words += [flag] if value is True else [flag, str(value)]
    return shlex.join(words)


class RequestLengths(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens of one request: of its prompt, and of the text to generate."""

    input_tokens: Annotated[int, msgspec.Meta(ge=1, le=1 << 20)]
    output_tokens: Annotated[int, msgspec.Meta(ge=2, le=1 << 20)]


class Lengths(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens of each input, tokens that are generated for it, and what part of the use has them."""

    input_tokens: Annotated[int, msgspec.Meta(ge=1, le=1 << 20)]
    output_tokens: Annotated[int, msgspec.Meta(ge=1, le=1 << 20)]
    #: 0 for lengths that are measured and do not count; the shares of a question sum to 1.
    share: Annotated[float, msgspec.Meta(ge=0, le=1)] = 1.0


class LoadQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """What a server has to sustain: the lengths of requests, and limits on their latency."""

    #: Name of the mix of lengths, or the user's file.
    name: str
    #: Requests take their lengths from these in a random order; all are equally likely.
    lengths: Annotated[tuple[RequestLengths, ...], msgspec.Meta(min_length=1)]
    #: Limits of the time to the first token and of the mean time between later tokens of a request.
    ttft_seconds: Annotated[float, msgspec.Meta(gt=0)]
    itl_seconds: Annotated[float, msgspec.Meta(gt=0)]
    #: Share of the requests that have to meet both limits.
    share: Annotated[float, msgspec.Meta(ge=0.5, lt=1)] = 0.95
    #: Requests per second that all servers together have to serve; null for none.
    rate: Annotated[float, msgspec.Meta(gt=0)] | None = None

    @property
    def most_tokens(self) -> int:
        return max(each.input_tokens + each.output_tokens for each in self.lengths)

    @property
    def limits(self) -> str:
        return (
            f"the first token within {self.ttft_seconds * 1e3:g} ms and "
            f"{self.itl_seconds * 1e3:g} ms between tokens for {self.share * 100:g} % of the "
            "requests"
        )

    @property
    def mean_output_tokens(self) -> float:
        return sum(each.output_tokens for each in self.lengths) / len(self.lengths)


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """All decisions of the user about a run."""

    model: Model
    task: Task
    device: DeviceKind
    #: UUID of the measured GPU; null on the CPU.
    gpu: str | None
    dtype: Dtype
    batch_sizes: tuple[Annotated[int, msgspec.Meta(ge=1, le=LARGEST_BATCH)], ...]
    #: The shortest first.
    lengths: Annotated[tuple[Lengths, ...], msgspec.Meta(min_length=1)]
    priorities: Priorities
    constraints: tuple[Constraint, ...]
    budget: Budget
    max_build_seconds: Annotated[float, msgspec.Meta(gt=0)]
    #: Arms or workflows that the plan is limited to; empty for all.
    workflows: tuple[str, ...]
    #: Arms or workflows that are not measured, whatever `workflows` names.
    leave_out: tuple[str, ...] = ()
    seed: Annotated[int, msgspec.Meta(ge=0)]
    #: Path of the Python interpreter for workflows without an environment of their own.
    python: str
    trust_remote_code: bool = False
    allow_pickle: bool = False
    offline: bool = False
    #: Whether workers confine themselves: no network, no file written outside the run.
    sandbox: bool = False
    #: Whether every arm is measured, without a limit of the run's time.
    all_arms: bool = False
    #: Expected number of requests, within which a build should pay for itself.
    requests: Annotated[int, msgspec.Meta(ge=1)] | None = None
    #: Price of one device per hour, in any currency.
    price_per_hour: Annotated[float, msgspec.Meta(gt=0)] | None = None
    #: Seconds to wait for a quiet machine before measuring.
    wait_seconds: Annotated[float, msgspec.Meta(ge=0)] = 0.0
    #: Formats of weights whose quantised arms are planned too; empty for native arms only.
    quantised: tuple[WeightFormat, ...] = ()
    #: File with texts that show what quantised weights lose; empty for the model's own texts.
    data: str = ""
    #: The user's metric as `file.py:function`; empty for none.
    metric: str = ""
    #: Largest relative error of an arm that is ranked although it is not exact; 0 for exact ones
    #: only, null for the default.
    accuracy: Annotated[float, msgspec.Meta(ge=0, le=1)] | None = None
    #: Limits of one build, by workflow; the others have `max_build_seconds`.
    max_build_times: dict[str, Annotated[float, msgspec.Meta(gt=0)]] = {}
    #: Seconds of opening the model in one worker; null for the deadline of the presets.
    max_open_seconds: Annotated[float, msgspec.Meta(gt=0)] | None = None
    #: Whether the leaders are started in new processes, by every way.
    cold_start: bool = False
    #: The load of the task `serve`; null for the other tasks.
    load: LoadQuestion | None = None
    #: UUIDs of the GPUs over which each model is split, besides `gpu`; empty for one device.
    further_gpus: tuple[str, ...] = ()
    #: The options as the user gave them, without defaults; empty for a run of another machine.
    asked: dict[str, str | bool | int | float] = {}

    def ask_again(self, **changes: str | bool | None) -> str:
        """Return the command that asks this question with other options; None leaves one out.

        If the command is not known, only the changes are named.
        """
        if self.asked:
            return write_command({**self.asked, **changes})
        given = write_command({"model": "", **changes}).partition(" '' ")[2]
        left_out = " and ".join(f"--{name}" for name, value in changes.items() if value is None)
        return f"ask again with {given}" if given else f"ask again without {left_out}"

    @property
    def is_limited(self) -> bool:
        """Whether the user chose what is measured of all that can be."""
        return bool(self.workflows or self.leave_out)

    @property
    def precision(self) -> str:
        return "the model's own precision" if self.dtype == "own" else self.dtype

    @property
    def required(self) -> str:
        """The constraints in the form of `--require`; empty for none."""
        return ", ".join(constraint.text for constraint in self.constraints)

    @property
    def serves(self) -> bool:
        return self.load is not None

    @property
    def seconds(self) -> float:
        """Seconds of the whole run; infinite without a limit."""
        return math.inf if self.all_arms else self.budget.seconds.get(self.task, math.inf)

    @property
    def input_tokens(self) -> int:
        return max(each.input_tokens for each in self.lengths)

    @property
    def output_tokens(self) -> int:
        return max(each.output_tokens for each in self.lengths)

    @property
    def shapes(self) -> tuple[Shape, ...]:
        return tuple(
            Shape(size, *self.pair_of(each)) for each in self.lengths for size in self.batch_sizes
        )

    @property
    def start_shape(self) -> Shape:
        """The shape of starts of new processes: the first batch size with the longest lengths."""
        return self.shapes[-len(self.batch_sizes)]

    def pair_of(self, lengths: Lengths) -> tuple[int | None, int | None]:
        """Return the lengths as a shape has them: None where there are no others."""
        if len(self.lengths) == 1:
            return None, None
        return lengths.input_tokens, None if self.task == "forward" else lengths.output_tokens

    @property
    def shape_weights(self) -> dict[Shape, float]:
        """The weight of each shape in means over all shapes; the mean weight is 1."""
        shares = (each.share for each in self.lengths for _ in self.batch_sizes)
        return {
            shape: share * len(self.lengths)
            for shape, share in zip(self.shapes, shares, strict=True)
        }

    @property
    def gpus(self) -> tuple[str, ...]:
        """UUIDs of all measured GPUs; empty on the CPU."""
        return (self.gpu, *self.further_gpus) if self.gpu else ()

    def name_device(self, machine: Machine) -> str:
        gpu = machine.find_gpu(self.gpu)
        return (
            describe_gpus(gpu.name, self.devices_per_model)
            if gpu
            else self.gpu or machine.cpu.model
        )

    @property
    def devices_per_model(self) -> int:
        return 1 + len(self.further_gpus)

    @property
    def price_of_all_devices(self) -> float | None:
        return self.price_per_hour and self.price_per_hour * self.devices_per_model
