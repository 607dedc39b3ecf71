"""The script that generates text the way that was measured: the model's own lines, then the workflow's `integration`.

What is handed out and what is counted are the same here: the script is these lines and what they need around them, and it times nothing.
"""

from __future__ import annotations

import pprint
import sys
from typing import Any

from probes import protocol
from probes.recipe import pin

WIDTH = 140


def compose(request: protocol.Request, lines: str, versions: dict[str, str], command: str | None) -> protocol.Recipe:
    """Return the recipe made of a workflow's integration: `lines` that take `model` or `CHECKPOINT` and `prompts` and leave `tokens`."""
    taken = [line for line in lines.splitlines() if line.startswith(("import ", "from "))]
    body = "\n".join(line for line in lines.splitlines() if line not in taken).strip("\n")
    uses_model = "CHECKPOINT" not in body
    imports = sorted({*taken, "import random", "import sys", *(("import torch", "import transformers") if uses_model else ())})
    source = f"""\
#: A model directory or a name on the hub; the first argument replaces it.
CHECKPOINT = next((given for given in sys.argv[1:] if not given.startswith("-")), {request.subject["name"]!r})
BATCH_SIZE, VOCABULARY = {max(request.batch_sizes)}, {vocabulary_of(request)}

if __name__ == "__main__":  # engines start processes of their own, which read this file again
    draw = random.Random({request.seed})
    prompts = [[draw.randrange(3, VOCABULARY) for _ in range({request.input_tokens})] for _ in range(BATCH_SIZE)]
{indent(open_model(request) + body if uses_model else body)}
    print(len(tokens), "texts of", len(tokens[0]), "tokens, for example", list(tokens[0])[:8])
"""
    python = f"=={sys.version_info.major}.{sys.version_info.minor}.*"
    return protocol.Recipe(imports, source, pin(imports, versions), python, sys.executable, command)


def open_model(request: protocol.Request) -> str:
    """Return the lines that open the model in PyTorch: trained weights, or random ones of the shipped configuration."""
    dtype = "auto" if request.dtype == "native" else f"torch.{request.dtype}"
    config = request.subject.get("config")
    opened = f'transformers.AutoModelForCausalLM.from_pretrained(CHECKPOINT, dtype={dtype}, attn_implementation="sdpa")'
    if request.subject["weights"] == "random" and config:
        made = f"transformers.AutoConfig.for_model(**{pprint.pformat(config, width=WIDTH, sort_dicts=False)})"
        random = f'transformers.AutoModelForCausalLM.from_config({made}, dtype={dtype}, attn_implementation="sdpa")'
        opened = f"{opened} if CHECKPOINT != {request.subject['name']!r} else {random}"
    return f"model = ({opened}).to({request.device!r}).eval()\nprompts = torch.tensor(prompts, device={request.device!r})\n"


def vocabulary_of(request: protocol.Request) -> Any:
    """Return below which number token ids are drawn: every vocabulary has the first thousands."""
    return (request.subject.get("config") or {}).get("vocab_size", 1000)


def indent(lines: str) -> str:
    """Return the lines four places to the right."""
    return "\n".join(f"    {line}" if line else line for line in lines.splitlines())
