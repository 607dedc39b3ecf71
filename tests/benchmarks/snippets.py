"""Run the snippet of every completed arm of kept runs, each in a process of its own.

    python tests/benchmarks/snippets.py write FOLDER tests/stacks/evidence/h200-*.json
    python3 tests/benchmarks/snippets.py run FOLDER --output RESULT.json

`write` needs p3-advisor. It composes the snippets from the documents of runs and the present lines
of the workflows, as `p3-advisor recipe` does for a stored run, and writes them and a manifest to
the folder. `run` needs only the standard library, so that a machine without p3-advisor can run the
folder with its own stacks. Engines take most of a GPU's memory, so they run one at a time, last.

Each line of the output has the exit status (`time` for a snippet that took too long), the lines of
the snippet, the seconds, the run, the arm and the last line of a failed snippet's errors. The
result is written after every snippet. A snippet of a stack that the machine lacks is counted apart.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from typing import Any

HERE = pathlib.Path(__file__).parent
MANIFEST = "snippets.json"
#: No snippet may ask a network for weights or configurations.
OFFLINE = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "PYTHONHASHSEED": "0"}
#: Several processes share a GPU.
MEMORY_ON_DEMAND = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
STATUS_OF_TIMEOUT = "time"
MISSING_STACK = "ModuleNotFoundError"


def write_snippets(folder: pathlib.Path, files: Sequence[pathlib.Path]) -> None:
    """Write the snippets of every completed arm, and the manifest; print those without one."""
    folder.mkdir(parents=True, exist_ok=True)
    entries: list[dict[str, Any]] = []
    by_text: dict[str, dict[str, Any]] = {}
    for file, arm, text, problem in compose_snippets(files):
        entry: dict[str, Any] = {"run": file.stem, "arm": arm}
        if problem:
            sys.stdout.write(f"no snippet: {file.stem} {arm}: {problem}\n")
            entries.append({**entry, "problem": problem})
        elif text in by_text:
            entries.append({**entry, "same_as": by_text[text]["file"]})
        else:
            name = f"{file.stem}--{arm.replace('/', '--')}.py"
            (folder / name).write_text(text, encoding="utf-8")
            entry |= {"file": name, "lines": len(text.splitlines()), "alone": "__main__" in text}
            by_text[text] = entry
            entries.append(entry)
    (folder / MANIFEST).write_text(json.dumps(entries, indent=1) + "\n", encoding="utf-8")
    sys.stdout.write(f"{len(by_text)} snippets for {len(entries)} arms in {folder}\n")


def compose_snippets(
    files: Sequence[pathlib.Path],
) -> Iterator[tuple[pathlib.Path, str, str, str]]:
    """Yield for every measured arm its run, its name, and its snippet or why it has none."""
    sys.path[:0] = [str(HERE.parent / "stacks")]
    import msgspec  # noqa: PLC0415 - `run` has the standard library only
    from integration import (  # type: ignore[import-not-found]  # noqa: PLC0415
        integration_of,
        load_workflows,
    )

    from advisor.applicability.arms import list_arms  # noqa: PLC0415
    from advisor.domain.answer import Answer  # noqa: PLC0415
    from advisor.errors import NoRecipeError  # noqa: PLC0415
    from advisor.recipes.snippet import compose_snippet  # noqa: PLC0415

    workflows = load_workflows()
    for file in files:
        answer = msgspec.json.decode(file.read_bytes(), type=Answer)
        question = answer.question
        arms = {
            arm.id: (arm, place)
            for workflow, place in workflows
            for arm in list_arms(workflow, question.device)
        }
        asked = {
            "dtype": question.dtype,
            "batch_sizes": list(question.batch_sizes),
            "input_tokens": question.input_tokens,
            "output_tokens": question.output_tokens,
            "subject": msgspec.to_builtins(question.model),
        }
        for entry in answer.results.measurements:
            if not entry.cells:
                continue
            if entry.arm not in arms:
                yield file, entry.arm, "", "this version has no such arm"
                continue
            arm, place = arms[entry.arm]
            lines = integration_of(place, arm.options, question.task, question.device, asked)
            size = max(entry.cells, key=lambda cell: cell.speedup.value).batch_size
            try:
                yield file, entry.arm, compose_snippet(question, size, lines), ""
            except NoRecipeError as problem:
                yield file, entry.arm, "", str(problem)


def run_snippets(options: argparse.Namespace) -> int:
    """Run the snippets of the folder side by side, engines alone; return how many failed."""
    entries = json.loads((options.folder / MANIFEST).read_text(encoding="utf-8"))
    chosen = [
        entry
        for entry in entries
        if "file" in entry and is_chosen(f"{entry['run']} {entry['arm']}", options)
    ]
    results: list[dict[str, Any]] = []

    def publish(result: dict[str, Any]) -> None:
        results.append(result)
        sys.stdout.write(
            f"{result['status']!s:>5} {result['lines']:>3} lines {result['seconds']:>6.1f} s"
            f"  {result['run']}  {result['arm']}  {result['error']}\n"
        )
        sys.stdout.flush()
        if options.output:
            options.output.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")

    for is_alone, jobs in ((False, options.jobs), (True, 1)):
        with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
            waiting = [
                pool.submit(run_snippet, entry, options)
                for entry in chosen
                if entry["alone"] == is_alone
            ]
            for done in concurrent.futures.as_completed(waiting):
                publish(done.result())
    failed = [result for result in results if result["status"] != 0]
    missing = [result for result in failed if result["error"].startswith(MISSING_STACK)]
    sys.stdout.write(
        f"{len(results) - len(failed)} of {len(results)} snippets ended with status 0;"
        f" {len(missing)} lack a stack of this machine\n"
    )
    return len(failed) - len(missing)


def is_chosen(name: str, options: argparse.Namespace) -> bool:
    """Check a run and its arm against the patterns of the command line."""
    is_skipped = options.skip and re.search(options.skip, name)
    return re.search(options.only, name) is not None and not is_skipped


def run_snippet(entry: dict[str, Any], options: argparse.Namespace) -> dict[str, Any]:
    """Run one snippet in an empty directory and end its whole process group after the limit."""
    script = (options.folder / entry["file"]).resolve()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as home:
        for name, place in (link.split("=", 1) for link in options.link):
            pathlib.Path(home, name).symlink_to(pathlib.Path(place).resolve())
        errors = pathlib.Path(home, "errors.txt")
        started = time.monotonic()
        with errors.open("wb") as stream:
            process = subprocess.Popen(
                [options.python, str(script)],
                cwd=home,
                env={**MEMORY_ON_DEMAND, **os.environ, **OFFLINE},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=stream,
                start_new_session=True,
            )
            status: int | str = STATUS_OF_TIMEOUT
            try:
                status = process.wait(options.seconds)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        seconds = time.monotonic() - started
        lines = errors.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return {
        **entry,
        "status": status,
        "seconds": round(seconds, 1),
        "error": lines[-1][:200] if status != 0 and lines else "",
        "log": lines[-30:] if status != 0 else [],
    }


def main() -> None:
    """Write or run the snippets; exit with 1 if one failed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    steps = parser.add_subparsers(dest="step", required=True)
    writing = steps.add_parser("write")
    writing.add_argument("folder", type=pathlib.Path)
    writing.add_argument("files", type=pathlib.Path, nargs="+", help="documents of runs")
    running = steps.add_parser("run")
    running.add_argument("folder", type=pathlib.Path)
    running.add_argument("--only", default="", help="a pattern of runs and arms: 'RUN ARM'")
    running.add_argument("--skip", default="", help="a pattern of those to leave out")
    running.add_argument("--jobs", type=int, default=4, help="snippets side by side")
    running.add_argument("--seconds", type=float, default=150, help="limit of each snippet")
    running.add_argument("--python", default=sys.executable, help="the interpreter of the stacks")
    running.add_argument(
        "--link",
        action="append",
        default=[],
        metavar="NAME=FOLDER",
        help="a folder that the snippets need, such as the environment llm-compressor",
    )
    running.add_argument("--output", type=pathlib.Path, help="a file for the results")
    options = parser.parse_args()
    if options.step == "write":
        write_snippets(options.folder, options.files)
    elif run_snippets(options):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
