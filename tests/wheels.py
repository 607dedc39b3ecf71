"""Write small wheels, so that tests let uv create real environments without a network."""

from __future__ import annotations

import pathlib
import zipfile

#: A module whose import waits for a file, a minute at most, or is broken by environment variables.
MODULE = """
import os, time
end = time.monotonic() + 60
while not os.path.exists(os.environ.get("TINY_UNTIL", "/")) and time.monotonic() < end:
    time.sleep(0.01)
if os.environ.get("TINY_BREAKS"):
    raise ImportError(os.environ["TINY_BREAKS"])
"""


def write_wheel(
    folder: pathlib.Path,
    name: str = "tiny-stack",
    version: str = "1.0",
    padding_bytes: int = 0,
    requires: str = "",
) -> pathlib.Path:
    """Write a wheel with one module, `padding_bytes` of data and one requirement."""
    module = name.replace("-", "_")
    requirement = f"Requires-Dist: {requires}\n" if requires else ""
    file = folder / f"{module}-{version}-py3-none-any.whl"
    folder.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(file, "w") as wheel:
        wheel.writestr(f"{module}.py", MODULE)
        if padding_bytes:
            wheel.writestr(f"{module}_data.bin", bytes(padding_bytes))
        information = f"{module}-{version}.dist-info"
        wheel.writestr(
            f"{information}/METADATA",
            f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{requirement}",
        )
        wheel.writestr(
            f"{information}/WHEEL",
            "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        )
        wheel.writestr(f"{information}/RECORD", "")
    return file
