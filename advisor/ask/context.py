"""External dependencies of the pipeline: environment variables, store, clocks and directories.

This module imports no stage but the store and the reader of the catalogue, so that the screens can
import it before the others are loaded.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import os
import pathlib
import random
import time
from collections.abc import Callable, Mapping

from advisor.ask import catalogue_files
from advisor.domain.catalogue import Catalogue
from advisor.store.store import Store, default_home


@dataclasses.dataclass(frozen=True)
class Context:
    """External dependencies of the pipeline; tests replace them."""

    environment: Mapping[str, str]
    store: Store
    now: Callable[[], dt.datetime] = lambda: dt.datetime.now().astimezone()
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    random: random.Random = dataclasses.field(default_factory=random.SystemRandom)
    probes: pathlib.Path = dataclasses.field(default_factory=catalogue_files.probes_directory)
    catalogue_directory: pathlib.Path = dataclasses.field(
        default_factory=catalogue_files.catalogue_directory
    )

    @classmethod
    def of_process(cls) -> Context:
        return cls(environment=dict(os.environ), store=Store(default_home(os.environ)))

    def catalogue(self, rubric: str | pathlib.Path | None = None) -> Catalogue:
        """Read the catalogue; the file `rubric` replaces the shipped `criteria.toml`."""
        file = pathlib.Path(rubric) if rubric else None
        return catalogue_files.load(self.catalogue_directory, probes=self.probes, rubric=file)
