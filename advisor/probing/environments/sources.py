"""Where packages come from: pip's own settings said to uv in its variables, for the length of one command and never written down."""

from __future__ import annotations

import ast
import contextlib
import pathlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence

from advisor.probing.environments import without_foreign

#: What pip calls a setting, and the variables by which uv knows it; a user who has set one of these
#: has told uv already.
VARIABLES: dict[str, tuple[str, ...]] = {
    "index-url": ("UV_DEFAULT_INDEX", "UV_INDEX_URL"),
    "extra-index-url": ("UV_INDEX", "UV_EXTRA_INDEX_URL"),
    "find-links": ("UV_FIND_LINKS",),
    "no-index": ("UV_NO_INDEX",),
    "trusted-host": ("UV_INSECURE_HOST",),
    "cert": ("SSL_CERT_FILE",),
    "proxy": ("ALL_PROXY", "HTTPS_PROXY", "HTTP_PROXY", "all_proxy", "https_proxy", "http_proxy"),
}
#: Sections of pip's settings that concern an installation, the later ones prevail.
SECTIONS = ("global", "install", ":env:")
INDEX_STRATEGY = "UV_INDEX_STRATEGY"
TORCH_BACKEND = "UV_TORCH_BACKEND"
PIP_SECONDS = 60


def read_pip_settings(environment: Mapping[str, str]) -> dict[str, str]:
    """Return what pip would use here, by the names of its settings; nothing where there is no pip."""
    beside_us = [sys.executable, "-m", "pip"]
    on_path = shutil.which("pip", path=environment.get("PATH"))
    for pip in (beside_us, [on_path] if on_path else []):
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            command = [*pip, "config", "list"]
            answer = subprocess.run(  # noqa: S603 - an argument list, no shell
                command,
                capture_output=True,
                text=True,
                timeout=PIP_SECONDS,
                check=True,
                env=without_foreign(environment),
            )
            return parse_pip_settings(answer.stdout.splitlines())
    return {}


def parse_pip_settings(lines: Iterable[str]) -> dict[str, str]:
    """Read `section.name='value'` lines; of a setting's sections the one that pip lets prevail counts."""
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
    """Return the variables uv runs with: the user's own, and for what they leave open pip's settings."""
    environment = {**without_foreign(inherited), "UV_NO_PROGRESS": "1", "NO_COLOR": "1"}
    for name, variables in VARIABLES.items():
        if pip_settings.get(name) and not any(inherited.get(variable) for variable in variables):
            separator = "," if name == "find-links" else " "
            environment[variables[0]] = separator.join(pip_settings[name].split())
            if name == "extra-index-url":
                # As pip has it: of all indexes the best version.
                environment.setdefault(INDEX_STRATEGY, "unsafe-best-match")
    return environment


def torch_backend(wanted: str, uv: Mapping[str, str]) -> list[str]:
    """Return uv's option that picks the build of torch; none where the user has said where torch comes from."""
    if (
        wanted == "none"
        or uv.get(TORCH_BACKEND)
        or uv.get("UV_DEFAULT_INDEX")
        or uv.get("UV_INDEX_URL")
    ):
        return []
    folders = [
        pathlib.Path(place)
        for place in uv.get("UV_FIND_LINKS", "").split(",")
        if place and "://" not in place
    ]
    if any(next(folder.glob("torch-*.whl"), None) for folder in folders):
        return []
    return ["--torch-backend", wanted]


@contextlib.contextmanager
def excludes(packages: Sequence[str]) -> Iterator[list[str]]:
    """Yield uv's option that leaves packages out although others ask for them; it reads their names from a file."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as names:
        names.write("\n".join(packages))
        names.flush()
        yield ["--excludes", names.name] if packages else []
