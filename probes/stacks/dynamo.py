"""What workflows of `torch.compile` share: the breaks of the graph, and lines of faster starts.

Dynamo counts where it does not capture a model's operators, and why.
"""

from __future__ import annotations

import collections
import logging
import pathlib
import re
from typing import Any

import torch
from torch._dynamo.utils import counters, get_compilation_metrics, graph_break_reasons

from probes.adapter import NotEngagedError, StartLines
from probes.stacks.pytorch import TorchProgram
from probes.subjects.torch_subject import TorchSubject

#: Dynamo's message about a break: where it traced, and why it stopped.
BREAK = re.compile(r"in user code at (\S+):(\d+)\nGraph Break Reason: (.*)", re.DOTALL)
#: Lines of the reason: what Dynamo does not support, and the call that it met.
EXPLANATION = re.compile(r"^\s*Explanation: (.+?)\.?\s*$", re.MULTILINE)
CONTEXT = re.compile(r"^\s*Developer debug context: (.+?)\s*$", re.MULTILINE)
#: The condition on which compiled code is kept, in the reason why Dynamo compiles again.
GUARD = re.compile(r"^\d+/\d+: (.+?)\s*(?:  #|$)", re.MULTILINE)
#: The address of an object, which differs from run to run, or the file of an installed function.
PLACE = re.compile(r" at 0x[0-9a-f]+| in file `[^`]*`")


class BreakHandler(logging.Handler):
    """Counts Dynamo's messages: its counters do not have the places of all breaks."""

    def __init__(self) -> None:
        super().__init__()
        self.breaks = collections.Counter[str]()

    def emit(self, record: logging.LogRecord) -> None:
        if message := BREAK.search(record.getMessage()):
            file, line, reason = message.groups()
            self.breaks[f"{pathlib.Path(file).name}:{line}: {_explain(reason)}"] += 1


HANDLER = BreakHandler()
LOG = logging.getLogger("torch._dynamo.symbolic_convert.__graph_breaks")
LOG.addHandler(HANDLER)
LOG.setLevel(logging.DEBUG)


def compile_module(subject: TorchSubject, inputs: list[Any], **options: Any) -> TorchProgram:
    """Pass the options to `torch.compile`, which compiles in a first call."""
    program = TorchProgram(subject, torch.compile(subject.module, **options))
    call_first(program, inputs)
    return program


def call_first(program: TorchProgram, inputs: list[Any]) -> None:
    """Compile in a call; raise `NotEngagedError` if Dynamo captured nothing in it.

    The proof of `engagement` comes after all builds and checks, whose time this saves.
    """
    program(program.feed(inputs))
    if not counters["stats"]["calls_captured"]:
        raise NotEngagedError(_why_nothing_was_captured())


def graph_breaks() -> dict[str, int]:
    """Return how often each break of the graph occurred, with the file and line of its cause."""
    return dict(HANDLER.breaks) or {_explain(reason): each for reason, each in _counted().items()}


def with_cause(proof: str) -> str:
    """Return the proof that nothing ran compiled with the first break, or what Dynamo met."""
    if counters["stats"]["calls_captured"]:
        failed = [one.recompile_reason for one in get_compilation_metrics() if one.fail_type]
        if failed and (guard := GUARD.search(failed[-1] or "")):
            return f"{proof}; Dynamo compiles again, up to its limit, once {guard[1]} is false"
        first = next(iter(graph_breaks()), "")
        return f"{proof}; the graph breaks at {first}" if first else proof
    return _why_nothing_was_captured()


def count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _why_nothing_was_captured() -> str:
    message = PLACE.sub("", next(iter(_counted()), ""))
    frames = int(counters["frames"]["total"])
    if not message and not frames:
        return "Dynamo was never called"
    if not message:
        return f"Dynamo captured nothing of the {count(frames, 'function')} that it traced"
    context = CONTEXT.search(message)
    # Dynamo does not keep the stack of a frame that it skips whole, only where it stopped.
    stack = graph_break_reasons[0].user_stack if graph_break_reasons else ()
    own = [frame for frame in stack if "site-packages" not in frame.filename]
    places = [(frame.filename, frame.lineno) for frame in own[-1:]] or [
        (first.fail_user_frame_filename, first.fail_user_frame_lineno)
        for first in get_compilation_metrics()[:1]
        if first.fail_user_frame_filename
    ]
    place = "".join(f" at {pathlib.Path(file).name}:{line}" for file, line in places)
    met = f" ({context[1]})" if context else ""
    return f"Dynamo captured nothing{place}: {_explain(message)}{met}"


def _explain(message: str) -> str:
    """Return Dynamo's explanation; the first line of a message without one."""
    explanation = EXPLANATION.search(message)
    return PLACE.sub("", explanation[1] if explanation else message.splitlines()[0])


def _counted() -> dict[str, int]:
    """Return Dynamo's counts by message; a frame that it skips whole is not a graph break."""
    counted = counters["graph_break"] or counters["unimplemented"]
    return {str(message): int(times) for message, times in counted.items()}


#: Name of the file that a way writes.
CACHE, FUNCTION = "model.cache", "model.aot"
SAVE_CACHE = f"""\
artifacts, _ = torch.compiler.save_cache_artifacts()
with open("{CACHE}", "wb") as file:
    file.write(artifacts)
"""
LOAD_CACHE = f"""\
import torch

with open("{CACHE}", "rb") as file:
    torch.compiler.load_cache_artifacts(file.read())
"""
#: In inference mode the loaded function refuses inputs that were made outside of it.
LOAD_FUNCTION = f"""\
with open("{FUNCTION}", "rb") as file:
    compiled = torch.compiler.load_compiled_function(file)
# Each call:
with torch.no_grad():
    output = compiled(model, *inputs)
"""
#: The checks of tensors alone are kept: those of a model's other values cannot be saved, and the
#: process that loads the function has the same model. PyTorch refuses this beside a mode.
KEEP = "keep_tensor_guards_unsafe"
#: Blocks of one class share their compiled code.
COMPILE_BLOCKS = """\
for part in model.modules():
    if isinstance(part, torch.nn.ModuleList):
        for block in part:
            block.compile({arguments})
"""


def with_cache_artifacts(integration: str) -> dict[str, StartLines]:
    lines = LOAD_CACHE + integration.removeprefix("import torch\n")
    return {"cache-artifacts": StartLines(start=lines, saves=SAVE_CACHE)}


def with_compiled_function(settings: str, arguments: str) -> dict[str, StartLines]:
    """Put the lines of `settings` first, and give `arguments` to `torch.compile`."""
    if not hasattr(torch.compiler, "load_compiled_function"):
        return {}
    if "mode=" not in arguments and hasattr(torch.compiler, KEEP):
        arguments += f', options={{"guard_filter_fn": torch.compiler.{KEEP}}}'
    write = f"""\
{settings}with torch.no_grad():
    function = torch.compile(model.forward, fullgraph=True{arguments})
    compiled = function.aot_compile((inputs, {{}}))
compiled.save_compiled_function("{FUNCTION}")
"""
    return {"compiled-function": StartLines(start=settings + LOAD_FUNCTION, write=write)}


def with_compiled_blocks(
    module: Any, settings: str, arguments: str, calls: str
) -> dict[str, StartLines]:
    """Return the way that compiles repeated blocks alone, if the module has a list of them."""
    lists = [part for part in module.modules() if isinstance(part, torch.nn.ModuleList)]
    if not any(len(repeated) > len({type(block) for block in repeated}) for repeated in lists):
        return {}
    blocks = COMPILE_BLOCKS.format(arguments=arguments.removeprefix(", "))
    return {"regional": StartLines(start=settings + blocks + calls)}
