"""Start a worker: `python worker.py DIRECTORY`. Registers `probes` and runs the harness.

The interpreter is not the advisor's, so this script must not change what it imports. The package is
registered by file location instead of through `sys.path`. The folder of this script is removed from
the path, because its modules must not shadow those of the stack. Processes that a stack starts with
`spawn` import this file again as `__mp_main__`; they need the registration too.
"""

from __future__ import annotations

import os
import sys

HERE = os.path.dirname(os.path.realpath(__file__))  # noqa: PTH120 - `pathlib` is imported only once the path is clean
# Before any other import: a module in this folder could shadow one of the standard library.
sys.path[:] = [entry for entry in sys.path if os.path.realpath(entry or os.curdir) != HERE]

import faulthandler  # noqa: E402
import importlib.util  # noqa: E402
import pathlib  # noqa: E402


def register_package() -> None:
    folder = pathlib.Path(HERE).parent
    spec = importlib.util.spec_from_file_location(
        "probes", folder / "__init__.py", submodule_search_locations=[str(folder)]
    )
    if spec is None or spec.loader is None:
        raise ImportError(f"cannot load the worker's own code from {folder}")
    package = importlib.util.module_from_spec(spec)
    sys.modules["probes"] = package
    spec.loader.exec_module(package)


def reserve_stdout() -> int:
    """Redirect standard output, to which stacks print, to the log; return a private copy of it."""
    notify_fd = os.dup(1)
    os.dup2(2, 1)  # the log is standard error
    return notify_fd


if __name__ == "__main__":
    # Before any heavy import: the watchdog keeps the size of this process.
    private_stdout = reserve_stdout()
    register_package()
    from probes import watchdog

    watchdog.start(private_stdout)
    # After a crash in native code, the log has the Python line that called it.
    faulthandler.enable()
    from probes.runtime import harness

    harness.run(pathlib.Path(sys.argv[1]), private_stdout)
elif __name__ == "__mp_main__":
    register_package()
