"""A server for a PyTorch module or ONNX file, its snippet in a file for Mosec; commands of servers.

Stacks for text have servers of their own, whose command is printed as it was started.
"""

from __future__ import annotations

import json
import math
import pathlib
import re
import shlex
import textwrap
from collections.abc import Sequence

from advisor.domain.answer import Answer
from advisor.domain.errors import NoRecipeError
from advisor.domain.question import Question
from advisor.domain.run_state import ProcessState
from advisor.domain.text import NO_BREAK_SPACE
from advisor.recipes.calls import fill_template, model_name
from advisor.recipes.snippet import indent, parse
from probes.facts import EACH_CALL, InputSpec

#: Where a server that the answer prints is reached, and how engines name port and model.
PORT, PORT_OPTION, NAME_OPTION = 8000, "--port", "--served-model-name"
#: Characters of a line of the shell, without the backslash.
LINE_WIDTH = 88
OPTION = re.compile(r"(?<= )(-\S+) (?!-)")
REQUEST = "# In another terminal:"
#: Options of engines for the most tokens of a request and its answer.
LENGTH_OPTIONS = ("--max-model-len", "--context-length", "--max_seq_len")

#: What the server needs in addition to what was measured.
REQUIREMENTS = ("mosec>=0.9.8,<0.10",)
#: Bytes that a number and its separator, and all that is around the numbers, take at most in JSON.
BYTES_OF_NUMBER, BYTES_AROUND = 32, 4096
#: Limit of a request to a model whose inputs are not known.
DEFAULT_MAX_BYTES = 64 << 20


def compose_server(
    snippet: str, batch_size: int, inputs: Sequence[InputSpec] | None, *, joins_requests: bool
) -> str:
    """Return the code of a server; raise `NoRecipeError` for a snippet without lines of each call.

    `snippet` has its inputs in `inputs` with `batch_size` rows, and below the comment `# Each call`
    the lines that compute `output` from their present values. With `joins_requests` a request has
    one row.
    """
    mark = EACH_CALL.search(snippet)
    if mark is None:
        raise NoRecipeError(
            "no server can be written: the run does not have the lines of each call",
            "measure again, or name another workflow",
        )
    once, each = snippet[: mark.start()].strip("\n"), snippet[mark.end() :].strip("\n")
    rows, most_requests = (1, batch_size) if joins_requests else (batch_size, 1)
    body = fill_template(
        "server.py.jinja",
        once=indent(once, 8),
        each=indent(each, 12),
        joins_requests=joins_requests,
        most_requests=most_requests,
        max_bytes=max_bytes(inputs, rows),
        unknown_tokens=unknown_tokens(inputs),
    )
    parse(body)
    return body


def unknown_tokens(inputs: Sequence[InputSpec] | None) -> str:
    """Return the condition for token ids that the model does not have; empty without token ids.

    On a GPU such an id would end the process.
    """
    ranges = [
        f"0 <= tensors[{number}].min() <= tensors[{number}].max() < {each.high}"
        for number, each in enumerate(inputs or ())
        if each.high is not None
    ]
    return f" or not ({' and '.join(ranges)})" if ranges else ""


def max_bytes(inputs: Sequence[InputSpec] | None, rows: int) -> int:
    """Return the bytes that no request with this many rows exceeds."""
    if not inputs:
        return DEFAULT_MAX_BYTES
    numbers = sum(math.prod(each.shape) * (rows if each.batched else 1) for each in inputs)
    return numbers * BYTES_OF_NUMBER + BYTES_AROUND


def started_command(process: ProcessState, question: Question) -> str:
    """Return what starts the server, without paths of the measured machine; empty without one."""
    serving, facts, imported = process.serving, process.snippet_facts, process.imported
    if serving is None:
        return ""
    known = {serving.tokenizer: question.model.name}
    if imported is not None and imported.environment is not None:
        known[imported.environment.interpreter] = "python"
    words = shlex.split((facts and facts.serving_command) or serving.command)
    variables = [f"{name}={value}" for name, value in serving.variables.items()]
    start = ["env", *variables] if variables else []
    return shlex.join([*start, *(known.get(word, word) for word in words)])


def user_words(command: str, model: str) -> list[str]:
    """Return the words of a stored command without its port, and without directories."""
    try:
        words = shlex.split(command)
    except ValueError as problem:
        raise NoRecipeError(
            "the stored command is not a command line", "measure again"
        ) from problem
    if PORT_OPTION in words[:-1]:
        place = words.index(PORT_OPTION)
        del words[place : place + 2]
    start = [pathlib.PurePath(word).name for word in words[:1]]
    return [*start, *(model_name(model) if word == model else word for word in words[1:])]


def serving_lines(answer: Answer, arm: str) -> list[str]:
    """Return the command of the arm's server and a request; empty if it was not under load."""
    load, served = answer.question.load, answer.served.get(arm)
    if load is None or served is None or not served.command:
        return []
    model, port = answer.question.model.name, str(PORT)
    words = user_words(served.command, model)
    named = words.index(NAME_OPTION) + 1 if NAME_OPTION in words[:-1] else None
    request = {
        "model": model_name(model) if named is None else words[named],
        "prompt": "...",
        "max_tokens": load.lengths[0].output_tokens,
    }
    address = f"http://127.0.0.1:{port}/v1/completions"
    header = "Content-Type: application/json"
    return [
        *length_note(words),
        *_fold([*words, PORT_OPTION, port]),
        REQUEST,
        *_fold(["curl", address, "--header", header, "--data", json.dumps(request)]),
    ]


def length_note(words: Sequence[str]) -> list[str]:
    option = next((word for word in words if word in LENGTH_OPTIONS), None)
    return [f"# {option} is the longest measured request: set yours"] if option else []


def _fold(words: Sequence[str]) -> list[str]:
    """Return a command in lines of the shell, which break between its words only."""
    quoted = " ".join(shlex.quote(word).replace(" ", NO_BREAK_SPACE) for word in words)
    quoted = OPTION.sub(rf"\1{NO_BREAK_SPACE}", quoted)  # stays beside its value
    *lines, last = textwrap.wrap(
        quoted, LINE_WIDTH, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
    )
    return [line.replace(NO_BREAK_SPACE, " ") for line in (*(f"{each} \\" for each in lines), last)]
