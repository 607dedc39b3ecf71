"""The lines with which `generate()` of transformers uses a cache of fixed size."""

from __future__ import annotations

from collections.abc import Sequence

from probes.protocol import Request
from probes.subjects.transformers_generate import installed_keyword


def integration(
    request: Request,
    *,
    is_kept: bool = False,
    imports: Sequence[str] = (),
    preparation: Sequence[str] = (),
) -> str:
    """Return the lines; `imports` and `preparation` come before the cache is set up."""
    length = request.input_tokens + request.output_tokens
    cache, emptied, prepared = 'cache_implementation="static"', "", []
    if is_kept:
        cache, emptied = f"{installed_keyword()}=cache", "    cache.reset()\n"
        prepared.append(
            f"cache = transformers.StaticCache(config=model.config, max_cache_len={length})"
        )
    if request.device == "cpu":
        cache += ", compile_config=compile_config"
        prepared += [
            "compile_config = transformers.CompileConfig(dynamic=False)",
            "compile_config._compile_all_devices = True  # transformers compiles on GPUs only",
        ]
    head = [*(["import transformers"] if prepared else []), *imports]
    before = "\n".join([*head, "", *preparation, *prepared]) if head else ""
    fixed = (
        "attention_mask=torch.ones_like(prompts), do_sample=False, "
        f"max_new_tokens={request.output_tokens}"
    )
    return f"""\
import torch
{before}
# Each call:
with torch.inference_mode():
{emptied}    tokens = model.generate(prompts, {fixed}, {cache})
"""
