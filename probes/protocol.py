"""The protocol between the advisor and a worker.

The advisor starts a worker as `python worker.py DIRECTORY` in a session of its own. The worker
reads `request.json` (one `Request`) in DIRECTORY. It appends events to `events.jsonl`, one JSON
object a line, each flushed. At the end it writes `response.json` (one `Outcome`), atomically. All
output of the stack goes to `log`.

Standard input carries commands, see `probes.commands`. Its end means that the advisor is gone; the
watchdog then kills the worker and everything it started.
Standard output carries one byte after each event, so that the advisor can sleep until there is one.
While other workers are timed, the advisor suspends (SIGSTOP) the processes of those that build.
Before they continue it writes the seconds of all suspensions so far to `suspended`; they are no
part of the seconds of a build.

Shapes, commands, events and the outcome have a module each.
"""

from __future__ import annotations

import dataclasses
import json
import pathlib
from typing import Any, Final, Literal, TypedDict

from probes.shape import Shape

REQUEST = "request.json"
EVENTS = "events.jsonl"
RESPONSE = "response.json"
LOG = "log"
#: The seconds for which the advisor has suspended the worker so far, as text; missing for none.
SUSPENDED = "suspended"
#: Folder in the scratch directory: temporary files of the stack and of what it starts.
TEMPORARY_FOLDER = "tmp"

#: Tasks: one pass over the inputs, or new tokens for prompts.
FORWARD: Final = "forward"
GENERATE: Final = "generate"
Device = Literal["cpu", "cuda"]
Role = Literal["reference", "measure", "serve", "snippet"]

#: Precisions that the catalogue describes, and what stands for the model's own.
PRECISIONS = ("float32", "float16", "bfloat16")
OWN = "own"

#: Most vocabularies start with padding and the begin and end of a text; prompts have none of them.
FIRST_ORDINARY_TOKEN = 3
#: Height and width of images where the model states none: the size of ImageNet's crops.
IMAGE_SIZE = 224

#: Option of a reference worker that computes in float32 at most: float64 took too long.
QUICK_REFERENCE = "quick_reference"

#: Environment variable with the control directory. All descendants of a worker inherit it, and the
#: watchdog and the supervisor find them by it.
MARK_VARIABLE = "P3_ADVISOR_WORKER"


class RequestLoad(TypedDict, total=False):
    """The requests to a server, and the seconds after which a start or a request has failed."""

    #: Pairs of input and output tokens.
    lengths: list[list[int]]
    #: Most tokens of one request, prompt and answer, and tokens of the longest prompt.
    most_tokens: int
    input_tokens: int
    start_seconds: float
    request_seconds: float


class LongTextOptions(TypedDict, total=False):
    """How the losses of a trained model are measured; `data` is a file or empty."""

    tokens: int
    seconds: float
    data: str


class SnippetOptions(TypedDict, total=False):
    """The code that a worker of the role `snippet` runs, and what it does with its calls."""

    #: The file, the folder that it runs in, and the start by the monotonic clock.
    script: str
    files: str
    begun: float
    #: Whether its environment is described first; then it starts later.
    describes: bool
    #: Whether it has no calls and only writes files.
    writes: bool
    #: File to which inputs and outputs of its call are written, and lines that follow that.
    call: str
    saves: str
    #: Files with the calls of other snippets, by name, with which its call is compared.
    calls: dict[str, str]
    #: The error of each output that a comparison allows, or of a text; None compares nothing.
    allowed: Any


@dataclasses.dataclass(frozen=True)
class Request:
    arm: str
    #: File of the workflow's module. It is loaded by path, so that the advisor's packages stay off
    #: the stack's import path.
    workflow_file: str
    options: dict[str, Any]
    #: Tagged by `kind`. Each kind has one module of `probes.subjects` that opens it.
    subject: dict[str, Any]
    #: One of `PRECISIONS`, or `OWN` for the model's own.
    dtype: str
    #: The worker's environment variables select the GPU.
    device: Device
    batch_sizes: list[int]
    #: Tokens of the input; the longest of several lengths.
    input_tokens: int
    seed: int
    threads: int
    #: `reference`: write weights, inputs and reference outputs to `shared_directory`. `measure`:
    #: build, check and time. `serve`: start the workflow's server and do the same over HTTP.
    #: `snippet`: run and time a snippet, see `probes.runtime.snippet`. The roles need different
    #: processes, because the allocations of the reference would change the speed of what is
    #: measured.
    role: Role
    shared_directory: str
    #: Directory of compiler caches and artefacts; it is empty at the first build.
    scratch_directory: str
    trust_remote_code: bool
    allow_pickle: bool
    #: Number of different input sets for each batch size.
    input_sets: int
    #: Duration of the calls of one visit, and the minimum of the warm-up.
    visit_seconds: float
    warmup_seconds: float
    #: How many times its fastest time a piece of host work may take next to a call on a GPU: the
    #: limit of `rubric/presets.toml`, beyond which the advisor discards a visit.
    most_host_slowdown: float
    #: The arm is not engaged if a smaller share of the work runs on the compiled path.
    minimum_engaged_share: float
    #: How outputs are judged: `rubric/accuracy.toml` with the user's tolerance.
    accuracy: dict[str, Any]
    #: `forward`: one pass over the inputs. `generate`: `output_tokens` new tokens for each prompt.
    task: Literal["forward", "generate"] = "forward"
    output_tokens: int = 1
    #: Pairs of input and output tokens, the shortest first, where there are several. Each is
    #: measured at each batch size; output tokens are None for the task `forward`.
    lengths: list[list[int | None]] = dataclasses.field(default_factory=list)
    #: Whether the same input is called again to see whether the outputs vary.
    checks_repeats: bool = True
    #: Whether the worker confines itself before it imports its stack.
    sandbox: bool = False
    #: Whether shapes that were not built may be tried. The reference worker then also makes a
    #: reference for another length, if the model has one.
    new_shapes: bool = False
    #: What the role `serve` needs; empty for other roles.
    load: RequestLoad = dataclasses.field(default_factory=RequestLoad)
    #: What the role `snippet` needs; empty for other roles.
    snippet: SnippetOptions = dataclasses.field(default_factory=SnippetOptions)
    #: How losses of a trained model are measured; empty if they are not.
    long_text: LongTextOptions = dataclasses.field(default_factory=LongTextOptions)
    #: The user's metric as `file.py:function`, or "".
    metric: str = ""
    #: Interpreter that writes the quantised checkpoint of the arm, or "".
    quantiser: str = ""
    #: Number of devices over which a server splits the model.
    devices_per_model: int = 1
    #: The `PRECISIONS` that the arm supports; empty if that is not known.
    supported_dtypes: list[str] = dataclasses.field(default_factory=list)
    #: GPU memory that an engine gets, by `rubric/engine_memory.toml`; empty for other workflows.
    engine_memory: dict[str, float] = dataclasses.field(default_factory=dict)

    @property
    def shapes(self) -> list[Shape]:
        pairs = self.lengths or [[None, None]]
        return [Shape(size, *pair) for pair in pairs for size in self.batch_sizes]

    def at(self, shape: Shape) -> Request:
        """Return the request with the lengths of this shape alone, and all batch sizes."""
        if not shape.tokens:
            return self
        return dataclasses.replace(
            self,
            input_tokens=shape.input_tokens or self.input_tokens,
            output_tokens=shape.output_tokens or self.output_tokens,
            lengths=[[shape.input_tokens, shape.output_tokens]],
        )


def read_request(directory: pathlib.Path) -> Request:
    return Request(**json.loads((directory / REQUEST).read_text(encoding="utf-8")))
