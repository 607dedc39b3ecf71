"""transformers' own server: eager PyTorch, one request after the other. On the CPU the baseline."""

from __future__ import annotations

import shlex
import sys
from importlib import metadata
from typing import Any

from probes.adapter import Request, Server
from probes.subjects.checkpoint import EngineSubject, option_words

open_subject = EngineSubject


def versions() -> dict[str, str]:
    return {name: metadata.version(name) for name in ("transformers", "torch", "uvicorn")}


def settings(request: Request) -> dict[str, str]:
    """Return the settings; the threads come from the environment."""
    return {"threads": str(request.threads)}


def server(subject: EngineSubject, request: Request, port: int) -> Server:
    folder = str(subject.folder)
    start = "from transformers.cli.transformers import main; main()"
    command = [sys.executable, "-c", start, "serve", folder]
    options = {
        "device": "cuda:0" if request.device == "cuda" else "cpu",
        "dtype": subject.dtype,
        "host": "127.0.0.1",
        "port": port,
        "log-level": "error",
    }
    words = option_words(options)
    return Server(
        command=[*command, *words],
        user_command=shlex.join(["transformers", "serve", folder, *words]),
        model=folder,
        settings={"batching": "none", "key-value cache": "grows", "dtype": subject.dtype},
        fields={"temperature": 0.0},
    )


def integration(subject: Any, request: Request) -> str:
    device = "cuda:0" if request.device == "cuda" else "cpu"
    return f"""\
import subprocess

options = ["--device", "{device}", "--dtype", "{request.dtype}"]
subprocess.run(["transformers", "serve", CHECKPOINT, *options], check=True)
"""
