"""The interface between the harness and a workflow's module in `probes/workflows/`.

A module with the functions of `Workflow` is a workflow; it has no base class and no registration.
The harness loads the module by the file named in the request. It calls `versions`, `settings` and
`open_subject`; then, for each shape, `build`, `Program.feed` and the program; then `engagement`.
The code for users has the lines of `integration`; see `advisor.recipes.snippet`.
"""

from __future__ import annotations

import dataclasses
import types
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from probes import timing
from probes.arrays import np
from probes.events import Engagement, MemoryRead, Unit, Workload
from probes.facts import InputSpec, StartLines
from probes.protocol import GENERATE, Request
from probes.shape import Shape

#: What a workflow's module imports from here, although it is defined elsewhere.
__all__ = ["GENERATE", "Engagement", "Request", "StartLines"]


#: Follows a call that drops the names of a dictionary, in the lines for users.
AS_LIST = "  # a list in the order of what the model returns, without None and the keys of a dict"


class UnsupportedError(Exception):
    """A limit of the stack, not a defect. `fix` says what the user can do, if anything."""

    def __init__(self, reason: str, fix: str | None = None) -> None:
        super().__init__(reason)
        self.fix = fix


class NotEngagedError(Exception):
    """The stack leaves the model to eager PyTorch, which would be measured in its place."""


class ModelError(Exception):
    """No workflow can open the model. `fix` says what the user can do."""

    def __init__(self, reason: str, fix: str) -> None:
        super().__init__(reason)
        self.fix = fix


#: The reason and the next step for a model whose inputs have no length.
NO_LENGTH = (
    "the inputs of the model have no free length in tokens",
    "give one number to --input-tokens",
)


@dataclasses.dataclass(frozen=True)
class Findings:
    """What several calls of a model show about its outputs."""

    #: The random elements by number of output, as booleans; None for all of them.
    random: Mapping[int, Any] = dataclasses.field(default_factory=dict)
    #: Numbers of the outputs that differ in each pair of calls.
    varying: tuple[int, ...] = ()
    #: Types of values in them that cannot be compared.
    unseen: tuple[str, ...] = ()
    #: Whether a call draws random numbers.
    draws: bool = False
    #: Names of what each call changes without an effect on the outputs of equal ones.
    changed_states: tuple[str, ...] = ()
    #: Numpy arrays by input set and output, if each call returns the same.
    outputs: Sequence[list[Any]] | None = None


class Subject:
    """The base of the models under test, in the form that one stack takes.

    Only the reference worker calls the methods, except `describe_inputs`. Each subject that is
    compared by its outputs defines those that are not implemented here.
    """

    #: Precision of its computation: `float32`, `float16`, `bfloat16` or `float64`.
    dtype: str
    #: Number of parameters and their bytes.
    parameters: int
    parameter_bytes: int
    unit: Unit = "samples"
    #: How many units one sample holds.
    units_per_sample: int = 1
    #: Settings that the model changed, and layers that convolve images, as in `events.Opened`.
    adjusted: Mapping[str, str] = types.MappingProxyType({})
    convolutions: int = 0
    #: Whether parameters or buffers are complex, and whether the module refuses `eval`.
    complex_weights: bool = False
    fixed_mode: bool = False
    #: Sizes of a last dimension that is classes or a vocabulary.
    class_counts: frozenset[int] = frozenset()

    def inputs(self, batch_size: int, number: int) -> list[Any]:
        """Return input set `number` as numpy arrays, in the order of the model's arguments.

        The first dimension of each array is the batch, where the model has one.
        """
        raise NotImplementedError  # each kind of model defines it

    def settle_inputs(self, batch_size: int, input_sets: int) -> int:  # noqa: ARG002
        """Choose the kind of inputs that the model accepts, and return how many sets to use."""
        return input_sets

    def length(self, request: Request) -> int | None:
        """Return the size of the inputs' second dimension that calls may change; None if none may.

        That of example inputs is found by calls.
        """
        return request.input_tokens

    def at(self, request: Request) -> Any:  # noqa: ARG002
        """Return the same model with inputs of the lengths of `request`.

        Raise `ModelError` for a model whose inputs have no length.
        """
        raise ModelError(*NO_LENGTH)

    def describe_inputs(self) -> tuple[InputSpec, ...] | None:
        """Return what a snippet needs to make such inputs; None where it asks for texts."""
        return None

    def examine_calls(self, input_sets: list[list[Any]]) -> Findings:
        """Call the model several times; raise `ModelError` if a call changes a later one."""
        raise NotImplementedError  # each kind of model defines it

    def reference(
        self, input_sets: list[list[Any]], *, quick: bool = False
    ) -> tuple[str, Iterable[list[Any]]]:
        """Return the name of a more precise reference, such as `float64`, and its outputs.

        The outputs are numpy arrays, one list for each input set. `quick` allows less precision.
        """
        raise NotImplementedError  # each kind of model defines it

    def find_ties(self, inputs: list[Any], outputs: list[Any]) -> list[Any] | None:  # noqa: ARG002
        """Return by output which elements depend on the order of equal values.

        They are booleans or, of an output of places, its keys. None where no values are ordered.
        """
        return None

    def perturbed(self, inputs: list[Any], seed: int) -> list[Any] | None:  # noqa: ARG002
        """Return outputs with inputs and weights off by a rounding error; None if it cannot."""
        return None

    def workload(self, shape: Shape, inputs: list[Any]) -> Workload:  # noqa: ARG002
        return Workload(shape, None)


class Program(Protocol):
    """A program that is built for one shape."""

    def feed(self, inputs: list[Any]) -> Any:
        """Convert numpy arrays to the program's own inputs; not timed."""

    def __call__(self, device_inputs: Any) -> Any:
        """Run the model once. The timing covers this call and the wait for its end."""

    def collect(self, output: Any) -> list[Any]:
        """Convert an output to numpy arrays on the host; not timed."""


class TextProgram:
    """The base of programs that generate text for one shape.

    `feed` takes the prompts, `(rows, input tokens) int64`; a call generates all new tokens, and
    `collect` returns them as one array, `(rows, output tokens) int64`.

    A program may also have `score(device_inputs, tokens, rows)`. It forces the program to generate
    `tokens`, `(batch, output tokens) int64`, and returns the `TokenLogprobs` of the first `rows`.
    """

    def __init__(self, request: Request) -> None:
        self.request = request

    def feed(self, inputs: list[Any]) -> Any:
        raise NotImplementedError  # each stack defines it

    def generate(self, device_inputs: Any, new_tokens: int) -> Any:
        raise NotImplementedError  # each stack defines it

    def collect(self, output: Any) -> list[Any]:
        raise NotImplementedError  # each stack defines it

    def __call__(self, device_inputs: Any) -> Any:
        return self.generate(device_inputs, self.request.output_tokens)

    def first_token(self, device_inputs: Any) -> Any:
        """Run until the first new token.

        Raise `UnsupportedError` where prompts run one after the other, since no call then ends
        with the first token of all rows.
        """
        return self.generate(device_inputs, 1)


@dataclasses.dataclass(frozen=True)
class TokenLogprobs:
    """Natural logarithms of the next token's probability, at each position of each row.

    `logprobs` is `(rows, positions, tokens)` in a floating-point dtype. `ids` has the tokens of its
    last axis, `(rows, positions, tokens) int64`; None if that axis is the whole vocabulary.
    """

    logprobs: Any
    ids: Any = None
    method: str = "teacher-forced"

    @classmethod
    def of_top_tokens(
        cls, tops: Sequence[Sequence[Mapping[int, float]]], count: int
    ) -> TokenLogprobs:
        """Pack log probabilities by token id, `count` or more, for each row and position."""
        chosen = [
            [sorted(position.items(), key=lambda scored: -scored[1])[:count] for position in row]
            for row in tops
        ]
        # `(rows, positions, count, 2)`: float64 holds every token id.
        ids, logprobs = np.moveaxis(np.array(chosen, dtype="float64"), -1, 0)
        method = f"teacher-forced through the prompt, {count} likeliest tokens"
        return cls(logprobs.astype("float32"), ids.astype("int64"), method)


def log_softmax(logits: Any) -> Any:
    """Return log probabilities along the last axis of `logits`, in the same dtype."""
    shifted = logits - logits.max(-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))


@dataclasses.dataclass(frozen=True)
class Server:
    """How a workflow serves the checkpoint over OpenAI's completions."""

    #: Starts the server; an argument list.
    command: list[str]
    #: The model's name in requests.
    model: str
    #: What the answer states about it: batching, caches, graphs.
    settings: dict[str, str]
    #: Environment variables, in addition to the worker's.
    variables: dict[str, str] = dataclasses.field(default_factory=dict)
    #: Further fields of each request, such as greedy decoding.
    fields: dict[str, Any] = dataclasses.field(default_factory=dict)
    #: What separates the words of a prompt; see `probes.subjects.checkpoint.token_word`.
    separator: str = " "
    #: What a user types instead of `command`, with the same settings; empty if it is the same.
    user_command: str = ""


def stored_weights_engagement(
    elements: Counter[str], share: float, described: str, weight_bytes: int, note: str = ""
) -> Engagement:
    """Return the `share` of what is `described`; `elements` counts the weights by type."""
    kinds = ", ".join(f"{kind} {count:,}" for kind, count in elements.most_common())
    proof = f"{share * 100:.0f} % of {described}; elements by type: {kinds or 'there are none'}"
    return Engagement(share, proof + note, {"weights": dict(elements)}, weight_bytes)


class Workflow:
    """The functions of a workflow's module; those after `integration` are optional.

    For the task `generate` subject and programs are those of `probes.subjects.causal_lm`, or an
    engine's, see `probes.subjects.checkpoint`.
    """

    def __init__(self, module: object) -> None:
        """Take the functions of `module` in place of those of the same names here."""
        names = [name for name in vars(Workflow) if hasattr(module, name) and name[0] != "_"]
        vars(self).update({name: getattr(module, name) for name in names})

    def versions(self) -> dict[str, str]:
        """Import the stack and return the versions that determine its behaviour."""
        raise NotImplementedError  # each module defines it

    def settings(self, request: Request) -> dict[str, str]:
        """Apply threads and precision, and return the settings that are in force."""
        raise NotImplementedError  # each module defines it

    def open_subject(self, request: Request) -> Subject:
        """Open the model in this stack's form; raise `ModelError` or `UnsupportedError`."""
        raise NotImplementedError  # each module defines it

    def build(self, subject: Any, inputs: list[Any], request: Request) -> Program:
        """Compile for the shapes of `inputs`, which have one batch size.

        `request` has the lengths of these inputs, and that of the subject the longest ones. Where
        the stack compiles in the first call, as `torch.compile`, this makes it. The call after the
        build is timed separately.
        """
        raise NotImplementedError  # each module defines it

    def engagement(self, program: Any, device_inputs: Any) -> Engagement:
        """Return the share of the work that runs on the compiled path, with its proof."""
        raise NotImplementedError  # each module defines it

    def integration(self, subject: Any, request: Request) -> str:
        """Return the lines that a user writes to adopt the workflow, once it is built.

        They use `model` and `inputs`, or `CHECKPOINT` and `prompts`, and assign `output` or
        `tokens`. A comment that starts with `# Each call` divides the lines that run once from
        those that read the present values of `inputs` or `prompts`, which `verify` and servers
        repeat. The advisor counts the lines for Productivity and for code convergence, the share
        of lines that the platforms have in common.
        """
        raise NotImplementedError  # each module defines it

    #: Returns when all work on the device is done, on every stream; by default that of PyTorch.
    synchronise = staticmethod(timing.synchronise)

    def server(self, subject: Any, request: Request, port: int) -> Server:
        """Return how it serves the checkpoint (task `serve`)."""
        raise NotImplementedError  # each module of a workflow with this task defines it

    def serving_command(self, request: Request) -> str | None:  # noqa: ARG002
        """Return the command line that serves the model with an engine."""
        return None

    def starts(self, subject: Any, request: Request) -> dict[str, StartLines]:  # noqa: ARG002
        """Return the lines of the ways to start from a file, by names in `rubric/starts.toml`."""
        return {}

    def nondeterministic_operators(self, program: Any) -> list[str]:  # noqa: ARG002
        """Return operators that may vary: more calls are compared, and a reason names them."""
        return []

    def read_memory(self) -> MemoryRead | None:
        """Return the peaks of memory where another process than the worker does the work."""
        return None

    def import_compiler(self) -> None:
        """Import what the first build would import; the time counts as that of the build."""
