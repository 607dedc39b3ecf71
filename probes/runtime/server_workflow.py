"""A workflow's server as a workflow: its texts are checked and timed over HTTP like any other's.

The server is a process of the worker, which therefore ends with the worker. It speaks OpenAI's
completions; see `probes.adapter.Server`. Before the load the worker runs closed loops of requests
itself, and during it checks texts.
"""

from __future__ import annotations

import concurrent.futures
import functools
import http.client
import json
import os
import pathlib
import random
import re
import shlex
import socket
import subprocess
import sys
import time
import types
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any

import numpy as np

from probes import events, protocol
from probes.adapter import Server, UnsupportedError, Workflow
from probes.checking import text_correctness
from probes.checking.program_cell import ProgramCell
from probes.events import Engagement
from probes.protocol import FIRST_ORDINARY_TOKEN, Request
from probes.runtime import process
from probes.runtime.failures import exception_summary
from probes.subjects.checkpoint import WORD_FORMAT, EngineSubject, token_word

HOST = "127.0.0.1"
#: Seconds between two questions to a server that starts, and for the answer to one of them.
POLL_SECONDS, ANSWER_SECONDS = 0.2, 5.0
#: How much of the log is read for a reason, and how much of its last line is quoted.
LOG_BYTES, LINE_CHARACTERS = 4000, 300
#: A word of `probes.subjects.checkpoint.token_word`.
WORD = re.compile(r"t(\d{7})")

#: What a request raises that the server refuses, drops or answers with something else.
REQUEST_ERRORS = (RuntimeError, OSError, http.client.HTTPException, json.JSONDecodeError)


class ServerEndedError(RuntimeError):
    """The server's process has ended, or does not answer in time."""


class ServedWorkflow(Workflow):
    """The server of a workflow; `address` adds its settings to those of the stack."""

    def __init__(self, stack: Workflow) -> None:
        super().__init__(types.SimpleNamespace(versions=stack.versions, settings=stack.settings))
        self._start = stack.server

    def open_subject(self, request: Request) -> EngineSubject:
        self._subject = EngineSubject(request)
        return self._subject

    @functools.cached_property
    def _program(self) -> ServedProgram:
        """The program of all lengths, with the server that is started for it."""
        with socket.create_server((HOST, 0)) as listener:
            port = listener.getsockname()[1]
        request, url = self._subject.request, f"http://{HOST}:{port}"
        server = self._start(self._subject, request, port)
        # The server prints into the worker's log. It is in the worker's session and group, so
        # whatever ends the worker ends the server.
        server_process = subprocess.Popen(  # noqa: S603 - an argument list, no shell
            server.command,
            env={**os.environ, **server.variables},
            stdin=subprocess.DEVNULL,
            stdout=sys.stderr.fileno(),
        )
        wait_until_ready(url, server_process, request.load["start_seconds"])
        return ServedProgram(url, server, server_process, request)

    def build(self, subject: Any, inputs: list[Any], request: Request) -> ServedProgram:  # noqa: ARG002 - one server answers all
        first = self._program
        return ServedProgram(first.url, first.server, first.process, request)

    def address(self) -> events.Serving:
        server = self._program.server
        return events.Serving(
            url=self._program.url,
            model=server.model,
            command=shlex.join(server.command),
            settings=server.settings,
            fields=server.fields,
            tokenizer=str(self._subject.folder),
            vocabulary=self._subject.info.vocabulary,
            word=WORD_FORMAT,
            separator=server.separator,
            variables=server.variables,
        )

    def run_closed_loop(self, concurrency: int, seconds: float) -> events.ClosedLoop:
        """Ask for `seconds`, in each loop once at least; a loop whose request fails ends."""
        program, start = self._program, time.monotonic()
        request, vocabulary = self._subject.request, self._subject.info.vocabulary

        def ask(loop: int) -> tuple[int, str | None, float]:
            stream = random.Random(f"{request.seed}/{concurrency}/{loop}")  # noqa: S311 - no secret
            answered, end = 0, start
            while answered == 0 or time.monotonic() - start < seconds:
                input_tokens, output_tokens = stream.choice(request.load["lengths"])
                tokens = [
                    stream.randrange(FIRST_ORDINARY_TOKEN, vocabulary) for _ in range(input_tokens)
                ]
                try:
                    program.complete(program.prompt_of(tokens), output_tokens)
                except REQUEST_ERRORS as problem:
                    return answered, exception_summary(problem), end
                answered, end = answered + 1, time.monotonic()
            return answered, None, end

        with concurrent.futures.ThreadPoolExecutor(concurrency) as pool:
            loops = list(pool.map(ask, range(concurrency)))
        last = max(end for _, _, end in loops)
        return events.ClosedLoop(
            concurrency,
            sum(answered for answered, _, _ in loops),
            max(last - start, time.get_clock_info("monotonic").resolution),
            next((problem for _, problem, _ in loops if problem is not None), None),
        )

    def engagement(self, program: Any, device_inputs: Any) -> Engagement:  # noqa: ARG002
        return Engagement(1.0, "every text came from the server's process over HTTP")

    def read_memory(self) -> events.MemoryRead:
        return events.MemoryRead(process.peak_rss_bytes_of_tree(self._program.process.pid))

    def integration(self, subject: Any, request: Request) -> str:  # noqa: ARG002 - as below
        return f"{self.serving_command(request)}\n"

    def serving_command(self, request: Request) -> str:  # noqa: ARG002 - the server has its values
        server = self._program.server
        return server.user_command or shlex.join(server.command)


class ServedProgram:
    """Texts of a server; see `probes.adapter.TextProgram`. Prompts of a batch are sent at once."""

    def __init__(
        self, url: str, server: Server, server_process: subprocess.Popen[bytes], request: Request
    ) -> None:
        self.url, self.server, self.process = url, server, server_process
        self._output_tokens = request.output_tokens
        self._seconds = request.load["request_seconds"]

    def feed(self, inputs: list[Any]) -> list[str]:
        return [self.prompt_of(row) for row in inputs[0].tolist()]

    def prompt_of(self, tokens: list[int]) -> str:
        return self.server.separator.join(map(token_word, tokens))

    def __call__(self, device_inputs: list[str]) -> list[str]:
        """Return the texts after the prompts; raise `ServerEndedError` if the server has ended."""
        if self.process.poll() is not None:
            message = f"the server ended with status {self.process.returncode}"
            raise ServerEndedError(message + log_tail())
        with concurrent.futures.ThreadPoolExecutor(len(device_inputs)) as pool:
            return list(pool.map(self.complete, device_inputs))

    def first_token(self, device_inputs: list[str]) -> Any:  # noqa: ARG002
        raise UnsupportedError("a server's first token is measured under load")

    def collect(self, output: list[str]) -> list[Any]:
        """Return `(rows, output tokens) int64`, padded: the check refuses another length."""
        rows = [[int(word) for word in WORD.findall(text)] for text in output]
        width = max(map(len, rows))
        return [np.array([row + [-1] * (width - len(row)) for row in rows], dtype=np.int64)]

    def complete(self, prompt: str, output_tokens: int | None = None) -> str:
        """Return the text after one prompt; raise one of `REQUEST_ERRORS` where it fails."""
        body = {
            "model": self.server.model,
            "prompt": prompt,
            "max_tokens": output_tokens or self._output_tokens,
            **self.server.fields,
        }
        answer: Any = None
        request = urllib.request.Request(  # noqa: S310 - a fixed scheme and host
            f"{self.url}/v1/completions",
            json.dumps(body).encode(),
            {"Content-Type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=self._seconds) as response:  # noqa: S310
                answer = json.load(response)
            return str(answer["choices"][0]["text"])
        except urllib.error.HTTPError as problem:
            reason = problem.read(2000).decode("utf-8", "replace")
            message = f"the server refused a request with status {problem.code}: {reason}"
            raise RuntimeError(message) from problem
        except (LookupError, TypeError) as problem:
            start = json.dumps(answer)[:LINE_CHARACTERS]
            raise RuntimeError(f"the server answered without a text: {start}") from problem

    def sample_texts(
        self, cell: ProgramCell, is_over: Callable[[], bool]
    ) -> tuple[events.TextsSampled, str | None]:
        """Ask for the text of one checked prompt after the other until `is_over`, which waits.

        Return the count and what is wrong with a text, after which no further one is asked for.
        Requests that fail do not count: the load generator sees how the server treats its own.
        """
        prompts: list[str] = cell.device_inputs[0]
        reference: Any = cell.reference
        checked = unanswered = 0
        reason: str | None = None
        while reason is None and not is_over():
            row = (checked + unanswered) % len(prompts)
            try:
                text = self.complete(prompts[row])
            except REQUEST_ERRORS:
                unanswered += 1
                continue
            checked += 1
            (tokens,) = self.collect([text])
            reason = text_correctness.find_fault(tokens, reference, cell.rules, [row])
        return events.TextsSampled(checked), reason


def wait_until_ready(url: str, server_process: subprocess.Popen[bytes], seconds: float) -> None:
    """Return when the server answers; raise `ServerEndedError` if it ends or takes too long."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if server_process.poll() is not None:
            message = f"the server ended with status {server_process.returncode} before it answered"
            raise ServerEndedError(message + log_tail())
        try:
            with urllib.request.urlopen(f"{url}/health", timeout=ANSWER_SECONDS):  # noqa: S310 - a fixed scheme and host
                return
        except (OSError, http.client.HTTPException):
            time.sleep(POLL_SECONDS)
    raise ServerEndedError(f"the server did not answer within {seconds:g} s")


def log_tail() -> str:
    """Return the end of the worker's log, which the server prints to; empty without a log."""
    log = pathlib.Path(os.environ.get(protocol.MARK_VARIABLE, ""), protocol.LOG)
    if not log.is_file():
        return ""
    text = log.read_bytes()[-LOG_BYTES:].decode("utf-8", "replace")
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return f"; its log ends: {lines[-1][:LINE_CHARACTERS]}" if lines else ""
