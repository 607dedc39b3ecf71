"""What the program takes from outside.

Apart from the pipeline, so that the screens have it before the stages are loaded.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import pathlib
import random
import time
from collections.abc import Callable, Mapping

from advisor import catalogue
from advisor.store import Store
from advisor.system.host_lock import HostLock


@dataclasses.dataclass(frozen=True)
class Context:
    """What the pipeline takes from outside, so that tests can bring their own."""

    environment: Mapping[str, str]
    store: Store
    now: Callable[[], dt.datetime] = lambda: dt.datetime.now().astimezone()
    clock: Callable[[], float] = time.monotonic
    random: random.Random = dataclasses.field(default_factory=random.SystemRandom)
    probes: pathlib.Path = dataclasses.field(default_factory=catalogue.probes_directory)
    rubric: pathlib.Path = dataclasses.field(default_factory=catalogue.rubric_directory)
    #: Turns with other races of this host; by default there are none.
    turns: HostLock = dataclasses.field(default_factory=HostLock)
