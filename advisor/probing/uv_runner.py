"""Run uv with pip's package sources, and turn its failures into errors with a next step.

The sources are passed in environment variables. They apply to one command and are never stored.
"""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import uv

from advisor.domain.errors import EnvironmentNotUsableError
from advisor.domain.import_path import WITHOUT_CURRENT_DIRECTORY, without_current_directory
from advisor.domain.machine import Interpreter
from advisor.probing.env_variables import without_python_paths

#: Settings of pip, each with uv's variables for it. A variable that the user has set has
#: precedence over pip's setting.
UV_VARIABLES: dict[str, tuple[str, ...]] = {
    "index-url": ("UV_DEFAULT_INDEX", "UV_INDEX_URL"),
    "extra-index-url": ("UV_INDEX", "UV_EXTRA_INDEX_URL"),
    "find-links": ("UV_FIND_LINKS",),
    "no-index": ("UV_NO_INDEX",),
    "trusted-host": ("UV_INSECURE_HOST",),
    "cert": ("SSL_CERT_FILE",),
    "proxy": ("ALL_PROXY", "HTTPS_PROXY", "HTTP_PROXY", "all_proxy", "https_proxy", "http_proxy"),
}
#: Sections of pip's configuration that apply to `pip install`; later ones have precedence.
SECTIONS = ("global", "install", ":env:")
TORCH_BACKEND = "UV_TORCH_BACKEND"
#: `python -m pip` without the current directory, also before Python 3.11.
RUN_PIP = f"{WITHOUT_CURRENT_DIRECTORY}import runpy; runpy.run_module('pip', run_name='__main__')"


def read_pip_settings(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the configuration of pip by the names of its settings; empty where pip is missing."""
    own_pip = [sys.executable, "-c", RUN_PIP]
    on_path = shutil.which("pip", path=environment.get("PATH"))
    for pip in (own_pip, [on_path] if on_path else []):
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            command = [*pip, "config", "list"]
            result = subprocess.run(  # noqa: S603 - an argument list, no shell
                command,
                capture_output=True,
                text=True,
                timeout=60,
                check=True,
                env=without_current_directory(without_python_paths(environment)),
            )
            return parse_pip_settings(result.stdout.splitlines())
    return {}


def parse_pip_settings(lines: Iterable[str]) -> dict[str, str]:
    """Return the settings in `section.name='value'` lines, with pip's precedence of sections."""
    found: dict[str, dict[str, str]] = {section: {} for section in SECTIONS}
    for line in lines:
        key, _, quoted = line.partition("=")
        section, _, name = key.strip().rpartition(".")
        with contextlib.suppress(ValueError, SyntaxError):
            value = ast.literal_eval(quoted.strip())
            if section in found and isinstance(value, str):
                found[section][name] = value
    return {name: value for section in SECTIONS for name, value in found[section].items()}


def uv_environment(inherited: Mapping[str, str], pip_settings: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of uv: the user's own, and pip's settings where those set nothing."""
    environment = {**without_python_paths(inherited), "UV_NO_PROGRESS": "1", "NO_COLOR": "1"}
    for name, variables in UV_VARIABLES.items():
        if pip_settings.get(name) and not any(inherited.get(variable) for variable in variables):
            separator = "," if name == "find-links" else " "
            environment[variables[0]] = separator.join(pip_settings[name].split())
            if name == "extra-index-url":
                # pip takes the best version of all indexes.
                environment.setdefault("UV_INDEX_STRATEGY", "unsafe-best-match")
    return environment


def torch_backend(backend: str, configured: Mapping[str, str]) -> list[str]:
    """Return uv's option for the build of torch; none where the user has configured its source."""
    if backend == "none" or any(
        map(configured.get, (TORCH_BACKEND, "UV_DEFAULT_INDEX", "UV_INDEX_URL"))
    ):
        return []
    links = configured.get("UV_FIND_LINKS", "").split(",")
    folders = [pathlib.Path(link) for link in links if link and "://" not in link]
    if any(next(folder.glob("torch-*.whl"), None) for folder in folders):
        return []
    return ["--torch-backend", backend]


@contextlib.contextmanager
def excludes(packages: Sequence[str]) -> Iterator[list[str]]:
    """Yield uv's option that excludes packages although others require them."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as names:
        names.write("\n".join(packages))
        names.flush()
        yield ["--excludes", names.name] if packages else []


#: Beginnings of lines of uv that do not help the user: one for each package, and its directories.
IGNORED_LINES = (" + ", " - ", " ~ ", "Activate with", "Using ", "Creating virtual environment")
MAX_REASON_CHARS = 600
FREE_SPACE = (
    "free some space, or choose other folders: P3_ADVISOR_HOME for environments, UV_CACHE_DIR for "
    "downloads"
)
#: What to do about a failure, by a part of the message of uv; the first that it has counts.
NEXT_STEPS = {
    "No space left on device": FREE_SPACE,
    "Disk quota exceeded": FREE_SPACE,
    "[Errno": "name a directory that can be written with P3_ADVISOR_HOME",
    "No interpreter found": "install such a Python, or name one with --python",
    "Hash mismatch": "if you trust the source, such as an index with builds of your own, set "
    "UV_NO_VERIFY_HASHES=1",
    "download.pytorch.org": "repair the network; or set UV_FIND_LINKS to a folder with a wheel of "
    "torch, or UV_TORCH_BACKEND",
}
OFFLINE = "run it once without --offline, or name a folder with the wheels in UV_FIND_LINKS"


@dataclasses.dataclass(frozen=True)
class BuildSettings:
    #: Folder of all environments.
    root: pathlib.Path
    catalogue_directory: pathlib.Path
    #: Environment variables of the user.
    inherited: Mapping[str, str]
    #: Interpreter for environments that allow its version.
    interpreter: Interpreter
    #: Called with each line of progress.
    report: Callable[[str], None]
    #: The indexes and other package sources that pip is configured with.
    pip_settings: Mapping[str, str] = dataclasses.field(default_factory=dict)
    offline: bool = False
    #: Requirements that the user adds, for the modules that a model imports.
    added: tuple[str, ...] = ()

    @property
    def uv_variables(self) -> dict[str, str]:
        return uv_environment(self.inherited, self.pip_settings)


def run_uv(name: str, arguments: list[str], settings: BuildSettings, lock_fd: int) -> None:
    """Run uv, report its output, and raise `EnvironmentNotUsableError` if it fails."""
    output: list[str] = []
    offline = ["--offline"] if settings.offline else []
    with subprocess.Popen(  # noqa: S603 - an argument list, no shell
        [uv.find_uv_bin(), *arguments, *offline],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env=settings.uv_variables,
        # uv reads the configuration of the project in its working directory, so it does not run in
        # the user's. It does read the configuration of the user.
        cwd=settings.root,
        pass_fds=(lock_fd,),
        start_new_session=True,
        text=True,
        errors="replace",
    ) as process:
        try:
            for line in process.stderr or ():
                if line.strip() and not line.startswith(IGNORED_LINES):
                    output.append(line.rstrip())
                    settings.report(f"{name}: {line.strip()}")
            status = process.wait()
        finally:
            if process.poll() is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
    if status:
        raise creation_error(name, " ".join(" ".join(output).split()), offline=settings.offline)


def creation_error(name: str, message: str, *, offline: bool = False) -> EnvironmentNotUsableError:
    known = next((step for part, step in NEXT_STEPS.items() if part in message), None)
    other = OFFLINE if offline else "repair what is reported and repeat: downloads are kept"
    return EnvironmentNotUsableError(
        f"{name} cannot be created: {message[-MAX_REASON_CHARS:]}", known or other
    )
