"""A fake workflow whose server is the queue of `queue_server.py`."""

import pathlib
import sys

from probes.adapter import Server
from probes.subjects.checkpoint import EngineSubject

open_subject = EngineSubject


def versions():
    return {"queue": "1"}


def settings(request):
    return {"threads": str(request.threads)}


def server(subject, request, port):
    script = pathlib.Path(__file__).parent / "queue_server.py"
    options = [str(request.options["milliseconds"]), str(request.options.get("fault", "none"))]
    return Server(
        command=[sys.executable, str(script), str(port), *options],
        model="fake",
        settings={"batching": "none"},
        fields={"temperature": 0},
    )
