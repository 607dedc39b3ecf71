"""Compile packages that have no bytecode: `python bytecode.py DIRECTORY PROCESSORS PACKAGE...`.

Runs in the interpreter of the workers, with its standard library alone, and prints 1 if the first
package has no bytecode beside its sources, else 0. In the first case it then compiles the packages,
what they require, and the standard library, as Python would for `PYTHONPYCACHEPREFIX=DIRECTORY`,
which has to be set. What has been compiled is skipped. It ends when its standard input closes.
"""

from __future__ import annotations

import os
import sys

HERE = os.path.dirname(os.path.realpath(__file__))  # noqa: PTH120 - as in `worker.py`
# Before any other import: a module in this folder could shadow one of the standard library.
sys.path[:] = [entry for entry in sys.path if os.path.realpath(entry or os.curdir) != HERE]

import compileall  # noqa: E402
import concurrent.futures  # noqa: E402
import functools  # noqa: E402
import hashlib  # noqa: E402
import importlib.metadata  # noqa: E402
import importlib.util  # noqa: E402
import pathlib  # noqa: E402
import re  # noqa: E402
import signal  # noqa: E402
import sysconfig  # noqa: E402
import threading  # noqa: E402
from collections.abc import Iterable, Iterator  # noqa: E402

#: Directories with modules that no stack imports, that belong to no package in question, or that
#: lie outside of those of packages.
LEFT_OUT = {"test", "tests", "idlelib", "lib2to3", "site-packages", "dist-packages", ".."}
#: A chunk of work is this many sources.
CHUNK = 8


def main(directory: str, processors: str, *packages: str) -> None:
    specs = map(importlib.util.find_spec, packages)
    files = [pathlib.Path(each.origin) for each in specs if each and each.origin]
    compiled = f"__pycache__/__init__.{sys.implementation.cache_tag}.pyc"
    is_missing = bool(files) and not (files[0].parent / compiled).exists()
    sys.stdout.write(str(int(is_missing)))
    sys.stdout.flush()
    if not is_missing:
        return
    # Differs after a package was installed again.
    version = f"{sys.version} {[(str(each), each.stat().st_mtime_ns) for each in files]}"
    complete = pathlib.Path(directory) / hashlib.sha256(version.encode()).hexdigest()
    if complete.exists():
        return
    threading.Thread(target=end_with_caller, daemon=True).start()
    with concurrent.futures.ProcessPoolExecutor(int(processors)) as pool:
        compile_file = functools.partial(compileall.compile_file, quiet=2)
        for _ in pool.map(compile_file, find_sources(packages), chunksize=CHUNK):
            pass
    complete.touch()


def end_with_caller() -> None:
    """Kill this process and those that compile for it once the caller is gone."""
    os.read(0, 1)
    os.killpg(0, signal.SIGKILL)


def find_sources(packages: Iterable[str]) -> Iterator[pathlib.Path]:
    """Yield those of the standard library, of the packages, and of what these require.

    Packages use what is installed of their extras: transformers imports scikit-learn for GPT-2.
    """
    library = pathlib.Path(sysconfig.get_path("stdlib"))
    for file in library.rglob("*.py"):
        if LEFT_OUT.isdisjoint(file.relative_to(library).parts):
            yield file
    names, found = list(packages), set[str]()
    while names:
        try:
            distribution = importlib.metadata.distribution(names.pop(0))
        except importlib.metadata.PackageNotFoundError:
            continue
        if distribution.metadata["Name"] in found:
            continue
        found.add(distribution.metadata["Name"])
        for each in distribution.files or ():
            if each.suffix == ".py" and LEFT_OUT.isdisjoint(each.parts):
                yield pathlib.Path(each.locate())
        names += [re.split(r"[^\w.-]", each)[0] for each in distribution.requires or ()]


if __name__ == "__main__":
    main(*sys.argv[1:])
