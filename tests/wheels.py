"""Small wheels made on the spot, so that environments are made for real by uv, without a network and in a moment."""

from __future__ import annotations

import pathlib
import zipfile

MODULE = """
import os, time
time.sleep(float(os.environ.get("TINY_SECONDS", "0")))
if os.environ.get("TINY_BREAKS"):
    raise ImportError(os.environ["TINY_BREAKS"])
"""


def make(
    folder: pathlib.Path,
    name: str = "tiny-stack",
    version: str = "1.0",
    content: str = MODULE,
    padding: int = 0,
    needs: str = "",
) -> pathlib.Path:
    """Write a wheel of one module; `padding` bytes more make it big, and it may need another."""
    module = name.replace("-", "_")
    wanted = f"Requires-Dist: {needs}\n" if needs else ""
    file = folder / f"{module}-{version}-py3-none-any.whl"
    folder.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(file, "w") as wheel:
        wheel.writestr(f"{module}.py", content)
        if padding:
            wheel.writestr(f"{module}_data.bin", bytes(padding))
        information = f"{module}-{version}.dist-info"
        wheel.writestr(
            f"{information}/METADATA",
            f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{wanted}",
        )
        wheel.writestr(
            f"{information}/WHEEL",
            "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        )
        wheel.writestr(f"{information}/RECORD", "")
    return file
