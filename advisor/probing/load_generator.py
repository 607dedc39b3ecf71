"""Send traced requests to a server with AIPerf.

AIPerf runs in an environment of its own, on processors of its own, under a watchdog: it ends when
the advisor does. One start of AIPerf sends several blocks with pauses between them.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import os
import pathlib
import random
import shutil
import subprocess
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence

import msgspec

from advisor.domain.import_path import SAFE_PATH
from advisor.domain.serving import ServedRequest
from advisor.probing import request_blocks
from advisor.probing.env_variables import NO_TELEMETRY, without_python_paths
from advisor.probing.nvml import MILLI
from advisor.probing.processes import kill_worker
from advisor.probing.run_config import RunConfig
from advisor.probing.supervisor import MAKE_ROOM
from advisor.store.files import report_unwritable
from probes import protocol
from probes.events import Serving

RECORDS, TRACE, LOG = "profile_export.jsonl", "trace.jsonl", "log"
#: AIPerf imports, opens the tokenizer and exports within this time.
START_SECONDS = 120.0
#: AIPerf does not open the tokenizer of a directory when one of these is set.
OFFLINE_VARIABLES = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")
#: How much of AIPerf's log a reason quotes, and the characters of its boxes.
LOG_BYTES, LOG_LINES = 2000, 3
BOX = " \t─│╭╮╰╯━┃┏┓┗┛"


@dataclasses.dataclass(frozen=True)
class LoadGenerator:
    """AIPerf as one run uses it."""

    config: RunConfig
    #: Interpreter of AIPerf's environment.
    python: str
    processors: Collection[int]

    @property
    def _request_seconds(self) -> float:
        return self.config.catalogue.serving.request_seconds

    def send(
        self, server: Serving, blocks: Sequence[request_blocks.PlannedBlock], gap_seconds: float
    ) -> list[tuple[ServedRequest, ...]]:
        """Send the blocks one after the other; return the requests of each, in their order.

        No request is sent in the gap between two blocks.
        Raise `GeneratorError` where AIPerf fails, and `NotWritableError` for a full disk.
        """
        starts = list(
            itertools.accumulate((block.seconds + gap_seconds for block in blocks), initial=0.0)
        )
        folder = self.config.scratch_directory / "load"  # one for each start
        directory = folder / str(len(list(folder.glob("*"))))
        with report_unwritable(folder, MAKE_ROOM):
            directory.mkdir(parents=True)
            (directory / TRACE).write_bytes(b"\n".join(self._trace(server, blocks, starts)) + b"\n")
        with contextlib.ExitStack() as cleanup:
            cleanup.callback(shutil.rmtree, directory / "out", ignore_errors=True)
            # AIPerf leaves its shared memory there. The path of its sockets must be short.
            temporary = cleanup.enter_context(
                tempfile.TemporaryDirectory(prefix="p3-", ignore_cleanup_errors=True)
            )
            self._run(server, directory, temporary, starts[-1])
            records = request_blocks.read_records(directory / "out" / RECORDS)
            if not records:
                message = f"it recorded no request; its log says: {log_reason(directory)}"
                raise request_blocks.GeneratorError(message)
        return request_blocks.assign_records(records, blocks, starts)

    def _trace(
        self,
        server: Serving,
        blocks: Sequence[request_blocks.PlannedBlock],
        starts: Sequence[float],
    ) -> Iterator[bytes]:
        stream = random.Random(f"{self.config.question.seed}/prompts")  # noqa: S311 - a trace, not a secret
        numbers = itertools.count()
        for block, start in zip(blocks, starts, strict=False):
            for request in block.requests:
                prompt = request_blocks.random_prompt(
                    stream, request.lengths.input_tokens, server.vocabulary
                )
                yield msgspec.json.encode(
                    {
                        "session_id": str(next(numbers)),
                        "timestamp": (start + request.at) / MILLI,
                        "text_input": server.separator.join(map(server.word.format, prompt)),
                        "output_length": request.lengths.output_tokens,
                    }
                )

    def _arguments(self, server: Serving, directory: pathlib.Path) -> list[str]:
        options = {
            "model": server.model,
            "url": server.url,
            "endpoint-type": "completions",
            "tokenizer": server.tokenizer,
            "input-file": str(directory / TRACE),
            "custom-dataset-type": "mooncake_trace",
            "request-timeout-seconds": f"{self._request_seconds:g}",
            "export-level": "records",
            "artifact-dir": str(directory / "out"),
            # Some servers close connections that wait for the next request.
            "connection-reuse-strategy": "never",
            "workers-max": str(len(self.processors)),
            "record-processors": "1",
            "ui": "none",
            "random-seed": str(self.config.question.seed % 2**32),
        }
        flags = [
            "--streaming",
            "--fixed-schedule",
            "--use-server-token-count",
            "--no-gpu-telemetry",
            "--no-server-metrics",
        ]
        fields = msgspec.json.encode(server.fields).decode()
        return [
            *(word for name, value in options.items() for word in (f"--{name}", value)),
            *flags,
            *(["--extra-inputs", fields] if server.fields else []),
        ]

    def _run(
        self, server: Serving, directory: pathlib.Path, temporary: str, seconds: float
    ) -> None:
        """Run AIPerf until it has exported its records; raise `GeneratorError` if it does not."""
        limit = seconds + self._request_seconds + START_SECONDS
        script = self.config.probes_directory / "runtime" / "watchdog_script.py"
        watchdog = [self.python, "-I", "-S", str(script)]
        with (directory / LOG).open("wb") as log:
            popen = subprocess.Popen(  # noqa: S603 - an argument list, no shell
                [*watchdog, "-m", "aiperf", "profile", *self._arguments(server, directory)],
                cwd=directory,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                env=generator_variables(self.config.environment, directory, temporary),
                start_new_session=True,
            )
        with contextlib.suppress(ProcessLookupError):
            # The watchdog has not forked yet; everything that it starts inherits the processors.
            os.sched_setaffinity(popen.pid, self.processors)
        try:
            status: int | None = popen.wait(limit)
        except subprocess.TimeoutExpired:
            status = None
        finally:
            kill_worker(popen, directory)
            if popen.stdin is not None:
                popen.stdin.close()
        if status:
            message = f"it exited with status {status}; its log says: "
            raise request_blocks.GeneratorError(message + log_reason(directory))
        if status is None:
            raise request_blocks.GeneratorError(f"it did not end within {limit:.0f} s")


def generator_variables(
    inherited: Mapping[str, str], directory: pathlib.Path, temporary: str
) -> dict[str, str]:
    kept = {
        name: value
        for name, value in without_python_paths(inherited).items()
        if name not in OFFLINE_VARIABLES
    }
    return {
        **kept,
        **NO_TELEMETRY,
        **SAFE_PATH,
        "TOKENIZERS_PARALLELISM": "false",
        "TMPDIR": temporary,
        protocol.MARK_VARIABLE: str(directory),
    }


def log_reason(directory: pathlib.Path) -> str:
    """Return the first error of AIPerf's log, or the last lines that it printed, without boxes.

    What it prints may end with a reference to its log, which is removed with the directory.
    """
    for line in _text_of(directory / "out" / "logs" / "aiperf.log").splitlines():
        # A line is: time - logger - level - message.
        _, level, message = line.partition(" - ERROR - ")
        if level:
            return message.strip()[:LOG_BYTES]
    lines = [line.strip(BOX) for line in _text_of(directory / LOG)[-LOG_BYTES:].splitlines()]
    return " ".join([line for line in lines if line][-LOG_LINES:])


def _text_of(file: pathlib.Path) -> str:
    return file.read_bytes().decode("utf-8", "replace") if file.is_file() else ""
