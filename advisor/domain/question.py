"""The user's question: model, task, device, priorities and limits.

The module is long because it has every value that a user can ask for.
"""

from __future__ import annotations

import pathlib
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec

Dtype = Literal["native", "float32", "float16", "bfloat16"]
Task = Literal["forward", "generate", "serve"]
#: Whether an arm computes in the question's dtype or with quantised weights.
Numerics = Literal["native", "quantised"]
#: Formats of quantised weights.
WeightFormat = Literal["int8", "int4", "fp8"]
Weights = Annotated[
    str, msgspec.Meta(description="`random`, `hub`, or a directory with safetensors")
]

PILLARS = ("performance", "productivity", "portability")
FURTHER_CRITERIA = ("input_flexibility", "architecture_support")
CRITERIA = PILLARS + FURTHER_CRITERIA
#: A figure that may also be required as a letter, the class of what is lost of a trained model.
CLASSIFIED = "accuracy"


class SyntheticModel(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    tag_field="kind",
    tag="synthetic",
):
    """A synthetic block of the paper or the demonstration encoder, by its sizes."""

    name: str
    block: Literal["matmul", "matmul-relu", "ffn", "ffn-multilayer", "encoder"]
    hidden: Annotated[int, msgspec.Meta(ge=1, le=131072)]
    intermediate: Annotated[int, msgspec.Meta(ge=1, le=524288)]
    layers: Annotated[int, msgspec.Meta(ge=1, le=1024)] = 1
    heads: Annotated[int, msgspec.Meta(ge=1, le=1024)] = 1


class TransformersModel(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    tag_field="kind",
    tag="transformers",
):
    """A transformers model: a shipped configuration, a local directory or a name on the hub."""

    name: str
    weights: Weights
    config: dict[str, Any] | None = None
    #: Least number of parameters, if a file or the configuration gives it; else null.
    parameters: int | None = None


class FactoryModel(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    tag_field="kind",
    tag="factory",
):
    """A function of the user: `package.module:factory` or `file.py:factory`."""

    name: str


class ExportedModel(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    tag_field="kind",
    tag="exported",
):
    """A file written by `torch.export.save`."""

    name: str


class OnnxModel(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    tag_field="kind",
    tag="onnx",
):
    """An ONNX file."""

    name: str


Model = SyntheticModel | TransformersModel | FactoryModel | ExportedModel | OnnxModel


def short_name(model: Model) -> str:
    """Return the model's name without the directory of a local file or directory."""
    path = pathlib.PurePosixPath(model.name)
    return path.name if path.is_absolute() else model.name


def has_random_weights(model: Model) -> bool:
    """Return whether the run makes the model's weights itself."""
    return isinstance(model, SyntheticModel) or (
        isinstance(model, TransformersModel) and model.weights == "random"
    )


class Priorities(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Weights of the criteria in percent.

    Performance, productivity and portability sum to 100. They share the part of the score that the
    other two criteria leave.
    """

    performance: float
    productivity: float
    portability: float
    input_flexibility: float = 10.0
    architecture_support: float = 10.0

    def shares(self) -> dict[str, float]:
        """Return each criterion's share of the score; the shares sum to 1."""
        further = {name: getattr(self, name) / 100 for name in FURTHER_CRITERIA}
        left = 1 - sum(further.values())
        return {**{name: getattr(self, name) / 100 * left for name in PILLARS}, **further}

    def weigh(self, grades: Mapping[str, float]) -> float:
        """Return the score: the weighted mean of the grades."""
        return sum(share * grades[name] for name, share in self.shares().items())

    def weigh_all(self, grades: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
        """Return the score of each arm from its grades."""
        shares = self.shares().items()
        return {
            arm: sum(share * own[name] for name, share in shares) for arm, own in grades.items()
        }

    def with_weight(self, pillar: str, weight: float) -> Priorities:
        """Return the priorities with one pillar at `weight`.

        The other two pillars keep their proportion.
        """
        others = [name for name in PILLARS if name != pillar]
        total = sum(getattr(self, name) for name in others)
        portions = {
            name: getattr(self, name) / total if total else 1 / len(others) for name in others
        }
        rest = {name: (100 - weight) * portion for name, portion in portions.items()}
        return msgspec.structs.replace(self, **{pillar: weight}, **rest)


#: Letters that a constraint may ask for, by number; 0 is what is below C.
LETTERS = ("below C", "C", "B", "A")


#: Significant digits of a measured figure next to a bound; the fewest that suffice are shown.
MEASURED_DIGITS = range(3, 7)
MEBIBYTE = 2**20


def format_figure(name: str, value: float) -> str:
    """Return a figure that a constraint may name, in the form of `--require`.

    Bytes are shown in MiB and seconds in s, or in ms below 1 s.
    """
    if name == "speedup":
        return f"{value:g}x"
    if name == CLASSIFIED:
        return f"{value:.3g}"
    if name == "memory":
        return f"{value / MEBIBYTE:g}MiB"
    return f"{value:g}s" if value >= 1 else f"{value * 1e3:g}ms"


class Constraint(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """A letter or a figure that a workflow needs to be recommended; it never changes a score."""

    #: A criterion, or a figure: `speedup`, `memory` (bytes), `build`, `ttft`, `itl` (seconds),
    #: `accuracy` (at least: class of what is lost of a trained model; at most: relative error, or
    #: divergence of text in nats a token).
    criterion: str
    #: For a criterion or a class the letter's number: 3 is A, 2 is B, 1 is C.
    at_least: int | float | None = None
    at_most: int | float | None = None

    @property
    def asks_for_letter(self) -> bool:
        """Whether it names a letter, not a figure."""
        return self.criterion in CRITERIA or self.asks_for_class

    @property
    def asks_for_class(self) -> bool:
        """Whether it names a class of what is lost of a trained model: `accuracy>=B`."""
        return self.criterion == CLASSIFIED and self.at_least is not None

    def write(self, value: float) -> str:
        """Return a letter or a figure of its criterion in the form of `--require`."""
        return LETTERS[int(value)] if self.asks_for_letter else format_figure(self.criterion, value)

    def write_measured(self, value: float) -> str:
        """Return a value that does not meet the constraint with the fewest digits, at least three.

        Its rounded value does not meet the constraint either.
        """
        unit = MEBIBYTE if self.criterion == "memory" else 1
        rounded = (float(f"{value / unit:.{digits}g}") * unit for digits in MEASURED_DIGITS)
        return self.write(next((each for each in rounded if not self.admits(each)), value))

    def admits(self, value: float) -> bool:
        """Return whether the value is within the bounds."""
        above = self.at_least is None or value >= self.at_least
        return above and (self.at_most is None or value <= self.at_most)

    @property
    def bound(self) -> str:
        """What is asked for, as the user writes it: `>=B`, `<=200ms`."""
        return ", ".join(
            f"{sign}{self.write(bound)}"
            for sign, bound in ((">=", self.at_least), ("<=", self.at_most))
            if bound is not None
        )

    @property
    def text(self) -> str:
        """The constraint as the user writes it: `portability>=B`."""
        return f"{self.criterion}{self.bound}"


class Budget(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Limits of the measurement; builds do not count."""

    name: str
    measuring_seconds: Annotated[float, msgspec.Meta(gt=0)]
    most_rounds: Annotated[int, msgspec.Meta(ge=4)]
    #: Seconds of further rounds of the leaders while the decision is OPEN, after the races and
    #: again in each repetition; 0 for none.
    open_seconds: Annotated[float, msgspec.Meta(ge=0)] = 0.0
    #: The same as a share of the time that the run has taken so far; the longer of both counts.
    open_share: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.0
    #: Number of repetitions of the leading arms in fresh processes.
    repeats: Annotated[int, msgspec.Meta(ge=0)] = 0
    #: Which arms are repeated: every arm that the races left open, or the advised arm, its rivals
    #: and the baseline.
    repeated: Literal["contenders", "leaders"] = "contenders"
    #: Seconds in total of calling the two best arms without a pause; 0 for none.
    sustained_seconds: Annotated[float, msgspec.Meta(ge=0)] = 0.0
    #: Whether every arm tries batch sizes and a length that were not built.
    new_shapes: bool = False
    #: Seconds that one batch size or length that was not built may take, where the leaders alone
    #: try one of each; 0 for none.
    new_shape_seconds: Annotated[float, msgspec.Meta(ge=0)] = 0.0
    #: Seconds of all of them, after which no further arm tries any.
    all_new_shapes_seconds: Annotated[float, msgspec.Meta(ge=0)] = 0.0

    @property
    def tries_new_shapes(self) -> bool:
        """Whether any arm tries shapes that were not built."""
        return self.new_shapes or self.new_shape_seconds > 0


class RequestLengths(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Tokens of one request: of its prompt, and of the text to generate."""

    input_tokens: Annotated[int, msgspec.Meta(ge=1, le=1 << 20)]
    output_tokens: Annotated[int, msgspec.Meta(ge=2, le=1 << 20)]


class LoadQuestion(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
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
        """Tokens of the longest request, prompt and generated text together."""
        return max(each.input_tokens + each.output_tokens for each in self.lengths)

    @property
    def limits(self) -> str:
        """The limits in words."""
        return (
            f"the first token within {self.ttft_seconds * 1e3:g} ms and "
            f"{self.itl_seconds * 1e3:g} ms between tokens for {self.share * 100:g} % of the "
            "requests"
        )

    @property
    def mean_output_tokens(self) -> float:
        """Mean number of tokens to generate for a request."""
        return sum(each.output_tokens for each in self.lengths) / len(self.lengths)


class Question(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All decisions of the user about a run."""

    model: Model
    task: Task
    device: Literal["cpu", "cuda"]
    #: UUID of the measured GPU; null on the CPU.
    gpu: str | None
    dtype: Dtype
    batch_sizes: tuple[Annotated[int, msgspec.Meta(ge=1, le=65536)], ...]
    input_tokens: Annotated[int, msgspec.Meta(ge=1, le=1 << 20)]
    output_tokens: Annotated[int, msgspec.Meta(ge=1, le=1 << 20)]
    priorities: Priorities
    constraints: tuple[Constraint, ...]
    budget: Budget
    max_build_seconds: Annotated[float, msgspec.Meta(gt=0)]
    #: Arms or workflows that the plan is limited to; empty for all.
    workflows: tuple[str, ...]
    seed: Annotated[int, msgspec.Meta(ge=0)]
    #: Path of the Python interpreter for workflows without an environment of their own.
    python: str
    trust_remote_code: bool = False
    allow_pickle: bool = False
    offline: bool = False
    #: Whether workers confine themselves: no network, no file written outside the run.
    sandbox: bool = False
    #: Expected number of requests, within which a build should pay for itself.
    requests: Annotated[int, msgspec.Meta(ge=1)] | None = None
    #: Price of one device per hour, in any currency.
    price_per_hour: Annotated[float, msgspec.Meta(gt=0)] | None = None
    #: Whether to try every workflow on the panel of small models.
    survey: bool = False
    #: Limit of all builds together in minutes; null for none.
    build_minutes: Annotated[float, msgspec.Meta(gt=0)] | None = None
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
    #: The load of the task `serve`; null for the other tasks.
    load: LoadQuestion | None = None
    #: UUIDs of the GPUs over which each model is split, besides `gpu`; empty for one device.
    further_gpus: tuple[str, ...] = ()

    @property
    def gpus(self) -> tuple[str, ...]:
        """UUIDs of all measured GPUs; empty on the CPU."""
        return (self.gpu, *self.further_gpus) if self.gpu else ()

    @property
    def devices_per_model(self) -> int:
        """Number of devices over which each model is split; 1 on the CPU."""
        return 1 + len(self.further_gpus)

    @property
    def price_of_all_devices(self) -> float | None:
        """Price per hour of all devices of one model."""
        return self.price_per_hour and self.price_per_hour * self.devices_per_model

    def with_longest_requests(self) -> Question:
        """Return the question about text that a server's longest requests ask.

        The prompts that are checked before the load count too.
        """
        lengths = self.load.lengths if self.load else ()
        return msgspec.structs.replace(
            self,
            task="generate",
            load=None,
            input_tokens=max([self.input_tokens, *(each.input_tokens for each in lengths)]),
            output_tokens=max([self.output_tokens, *(each.output_tokens for each in lengths)]),
        )
