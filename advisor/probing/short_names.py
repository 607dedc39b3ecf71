"""Short names for long paths. The path of a socket may have 107 bytes, those of a run have more."""

from __future__ import annotations

import contextlib
import pathlib
import tempfile


class ShortNames:
    """Links to directories, in a folder of their own that is made for the first one."""

    def __init__(self) -> None:
        self._cleanup = contextlib.ExitStack()
        self._links: dict[pathlib.Path, pathlib.Path] = {}
        self._folder: pathlib.Path | None = None

    def of(self, directory: pathlib.Path) -> pathlib.Path:
        """Return a short path to `directory`, always the same."""
        if self._folder is None:
            made = tempfile.TemporaryDirectory(prefix="p3-")
            self._folder = pathlib.Path(self._cleanup.enter_context(made))
        if directory not in self._links:
            link = self._folder / str(len(self._links))
            link.symlink_to(directory.resolve())
            self._links[directory] = link
        return self._links[directory]

    def remove(self) -> None:
        self._links.clear()
        self._folder = None
        self._cleanup.close()
