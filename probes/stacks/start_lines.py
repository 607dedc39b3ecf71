"""Lines of the ways in which programs of `torch.compile` start without compiling everything."""

from __future__ import annotations

from typing import Any

import torch

from probes.adapter import StartLines

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
    """Return the way that ships the artefacts of the compiler's caches as one file."""
    lines = LOAD_CACHE + integration.removeprefix("import torch\n")
    return {"cache-artifacts": StartLines(start=lines, saves=SAVE_CACHE)}


def with_compiled_function(settings: str, arguments: str) -> dict[str, StartLines]:
    """Return the way that ships the compiled `forward`, where PyTorch has it.

    `settings` are lines above the others, and `arguments` are those of `torch.compile`.
    """
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
    if not any(len(each) > len({type(block) for block in each}) for each in lists):
        return {}
    blocks = COMPILE_BLOCKS.format(arguments=arguments.removeprefix(", "))
    return {"regional": StartLines(start=settings + blocks + calls)}
